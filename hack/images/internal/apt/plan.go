// SPDX-License-Identifier: Apache-2.0

package apt

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/zeroinfra/hack/images/internal/deb822"
)

// Package is one Debian package at one version.
type Package struct {
	Name         string `json:"name"`
	Version      string `json:"version"`
	Architecture string `json:"architecture"`
	// SHA256 is the checksum of the package file, from the signed lists.
	SHA256 string `json:"sha256"`
	// Control holds the fields that vulnerability scanners read.
	Control string `json:"control"`
}

// String is the form that apt takes: name=version.
func (p Package) String() string { return p.Name + "=" + p.Version }

// file is the name that apt gives the downloaded package.
func (p Package) file() string {
	return fmt.Sprintf("%s_%s_%s.deb", p.Name, strings.ReplaceAll(p.Version, ":", "%3a"), p.Architecture)
}

// controlFields are kept in Package.Control, in this order.
var controlFields = []string{"Package", "Source", "Version", "Architecture", "Maintainer", "Homepage", "Section"}

// Plan returns the packages that an image needs, sorted by name: those wanted and
// what they depend on, without those that match a pattern in exclude and what only they need.
// When a package is not known, the lists are fetched once more before giving up.
func (r *Root) Plan(ctx context.Context, wanted, exclude []string) ([]Package, error) {
	plan, err := r.plan(ctx, wanted, exclude)
	if err != nil && ctx.Err() == nil && !r.fresh {
		if err := r.Update(ctx); err != nil {
			return nil, err
		}
		plan, err = r.plan(ctx, wanted, exclude)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot plan packages %q from %q: %w", wanted, r.suite, err)
	}
	return plan, nil
}

// plan asks apt, or the answer that it gave before for the same lists.
func (r *Root) plan(ctx context.Context, wanted, exclude []string) ([]Package, error) {
	stamp, err := os.ReadFile(r.path("updated"))
	if err != nil {
		return nil, fmt.Errorf("package lists are not complete: %w", err)
	}
	question, err := json.Marshal([]any{string(stamp), wanted, exclude})
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(question)
	stored := r.path("plans", hex.EncodeToString(sum[:])+".json")
	var packages []Package
	if data, err := os.ReadFile(stored); err == nil && json.Unmarshal(data, &packages) == nil {
		return packages, nil
	}
	solution, err := r.solve(ctx, wanted)
	if err != nil {
		return nil, err
	}
	for _, name := range reachable(solution, wanted, exclude) {
		packages = append(packages, newPackage(solution[name]))
	}
	data, err := json.Marshal(packages)
	if err != nil {
		return nil, err
	}
	return packages, os.WriteFile(stored, data, 0o644)
}

// installLine is what a simulated installation prints per package.
var installLine = regexp.MustCompile(`(?m)^Inst (\S+) \((\S+) `)

// solve lets apt choose all packages and returns their paragraphs by name.
func (r *Root) solve(ctx context.Context, wanted []string) (map[string]deb822.Stanza, error) {
	out, err := r.apt(ctx, "apt-get", "", append([]string{"install", "-s", "-y", "-q", "--"}, wanted...)...)
	if err != nil {
		return nil, err
	}
	show := []string{"show", "--"}
	for _, m := range installLine.FindAllStringSubmatch(string(out), -1) {
		name, _, _ := strings.Cut(m[1], ":")
		show = append(show, name+"="+m[2])
	}
	text, err := r.apt(ctx, "apt-cache", "", show...)
	if err != nil {
		return nil, err
	}
	stanzas, err := deb822.Parse(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("cannot parse package index: %w", err)
	}
	solution := map[string]deb822.Stanza{}
	for _, s := range stanzas {
		solution[s.Get("Package")] = s
	}
	if len(solution) != len(show)-2 {
		return nil, fmt.Errorf("apt chose %d packages and describes %d", len(show)-2, len(solution))
	}
	return solution, nil
}

func newPackage(s deb822.Stanza) Package {
	var control strings.Builder
	for _, field := range controlFields {
		if value := s.Get(field); value != "" {
			fmt.Fprintf(&control, "%s: %s\n", field, value)
		}
	}
	return Package{
		Name: s.Get("Package"), Version: s.Get("Version"), Architecture: s.Get("Architecture"),
		SHA256: s.Get("SHA256"), Control: control.String(),
	}
}

// debianSuffix is what Debian adds to an upstream version when it repacks sources.
var debianSuffix = regexp.MustCompile(`[.+~](dfsg|ds|really).*$`)

// Upstream returns the version that the authors of the software gave it.
func (p Package) Upstream() string {
	version := p.Version
	if _, after, found := strings.Cut(version, ":"); found {
		version = after
	}
	if i := strings.LastIndex(version, "-"); i >= 0 {
		version = version[:i]
	}
	return debianSuffix.ReplaceAllString(version, "")
}
