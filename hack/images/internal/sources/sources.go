// SPDX-License-Identifier: Apache-2.0

// Package sources reads the apt sources of the host and derives from them where
// the packages of any Debian suite come from, so that no mirror is written down here.
package sources

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"github.com/zeroinfra/hack/images/internal/deb822"
)

// Entry is one source of binary packages.
type Entry struct {
	URIs       []string
	Suites     []string
	Components []string
	// SignedBy is a keyring, a list of them, a fingerprint or an inline key; empty when the host trusts its default keys.
	SignedBy string
}

// ReadHost reads every enabled source of binary packages below root (normally "/"):
// etc/apt/sources.list and the .list and .sources files in etc/apt/sources.list.d.
func ReadHost(root string) ([]Entry, error) {
	dir := filepath.Join(root, "etc/apt")
	files := []string{filepath.Join(dir, "sources.list")}
	for _, pattern := range []string{"*.list", "*.sources"} {
		found, err := filepath.Glob(filepath.Join(dir, "sources.list.d", pattern))
		if err != nil {
			return nil, err
		}
		sort.Strings(found)
		files = append(files, found...)
	}
	var all []Entry
	for _, file := range files {
		data, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("cannot read apt source: %w", err)
		}
		parse := ParseList
		if strings.HasSuffix(file, ".sources") {
			parse = ParseDeb822
		}
		entries, err := parse(string(data))
		if err != nil {
			return nil, fmt.Errorf("cannot parse apt source %q: %w", file, err)
		}
		all = append(all, entries...)
	}
	return all, nil
}

// ParseDeb822 reads the .sources format.
func ParseDeb822(text string) ([]Entry, error) {
	stanzas, err := deb822.Parse(strings.NewReader(text))
	if err != nil {
		return nil, err
	}
	var all []Entry
	for _, s := range stanzas {
		enabled := strings.ToLower(s.Get("Enabled"))
		if slices.Contains([]string{"no", "false", "off", "0"}, enabled) || !slices.Contains(s.Words("Types"), "deb") {
			continue
		}
		all = append(all, Entry{
			URIs: s.Words("URIs"), Suites: s.Words("Suites"),
			Components: s.Words("Components"), SignedBy: s.Get("Signed-By"),
		})
	}
	return all, nil
}

// ParseList reads the one-line format of sources.list.
func ParseList(text string) ([]Entry, error) {
	var all []Entry
	scanner := bufio.NewScanner(strings.NewReader(text))
	for n := 1; scanner.Scan(); n++ {
		line, _, _ := strings.Cut(scanner.Text(), "#")
		kind, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		if kind != "deb" {
			continue
		}
		entry, err := parseLine(strings.TrimSpace(rest))
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		all = append(all, entry)
	}
	return all, scanner.Err()
}

func parseLine(rest string) (Entry, error) {
	var entry Entry
	if strings.HasPrefix(rest, "[") {
		options, after, closed := strings.Cut(rest[1:], "]")
		if !closed {
			return entry, errors.New("option list without a closing bracket")
		}
		for _, option := range strings.Fields(options) {
			if value, ok := strings.CutPrefix(option, "signed-by="); ok {
				entry.SignedBy = strings.ReplaceAll(value, ",", " ")
			}
		}
		rest = after
	}
	words := strings.Fields(rest)
	if len(words) < 2 {
		return entry, errors.New("expected a URI and a suite")
	}
	entry.URIs, entry.Suites, entry.Components = words[:1], words[1:2], words[2:]
	return entry, nil
}
