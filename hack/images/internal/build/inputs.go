// SPDX-License-Identifier: Apache-2.0

package build

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/zeroinfra/hack/images/internal/apt"
	"github.com/zeroinfra/hack/images/internal/definition"
	"github.com/zeroinfra/hack/images/internal/maven"
)

// inputs are everything that decides what an image looks like.
type inputs struct {
	Image *definition.Image
	Arch  string
	// Version is that of the software inside.
	Version  string
	Epoch    int64
	Packages []apt.Package
	// Artifacts are what the list of Maven artifacts names.
	Artifacts []maven.Artifact
	Programs  []program
}

// program is a binary that was built for an image.
type program struct {
	Path, SHA256 string
	file         string
}

// setVersion takes the version from the package that the definition names and
// makes sure that it is of the series that the tag promises.
func (in *inputs) setVersion() error {
	if in.Image.VersionFrom == "" {
		return nil
	}
	for _, a := range in.Artifacts {
		if a.Name() != in.Image.VersionFrom {
			continue
		}
		in.Version = a.Version()
		if !in.ofSeries() {
			return fmt.Errorf(
				"the list of Maven artifacts has version %s of %q, which is not %s: correct tag or properties", in.Version,
				a.Name(), in.Image.Tag)
		}
		return nil
	}
	for _, p := range in.Packages {
		if p.Name != in.Image.VersionFrom {
			continue
		}
		in.Version = p.Upstream()
		if !in.ofSeries() {
			return fmt.Errorf("suite %q has version %s of package %q, which is not %s: correct tag or suite",
				in.Image.Debian.Suite, in.Version, p.Name, in.Image.Tag)
		}
		return nil
	}
	return fmt.Errorf("versionFrom names package or artifact %q, which is not in the image", in.Image.VersionFrom)
}

// ofSeries tells whether the version is of the series that the tag is.
func (in *inputs) ofSeries() bool {
	return in.Version == in.Image.Tag || strings.HasPrefix(in.Version, in.Image.Tag+".")
}

// key identifies the inputs and the tool itself: when it differs, the image is built again.
func (in *inputs) key() (string, error) {
	tool, err := ownSum()
	if err != nil {
		return "", fmt.Errorf("cannot read own program: %w", err)
	}
	data, err := json.Marshal(struct {
		Tool string
		*inputs
	}{tool, in})
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}

// ownSum is the checksum of the running program.
var ownSum = sync.OnceValues(func() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	f, err := os.Open(self)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	_, err = io.Copy(h, f)
	return hex.EncodeToString(h.Sum(nil)), err
})
