// SPDX-License-Identifier: Apache-2.0

package datasetfile

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/zeroinfra/agents/internal/checksum"
	"github.com/zeroinfra/agents/internal/store"
)

// ownFolder of a volume has what is not part of the version: the manifest, and the part of a file that is being
// fetched.
const ownFolder = ".zeroinfra"

// ManifestPath is where the manifest is on a volume. "sha256sum -c" reads it.
const ManifestPath = ownFolder + "/SHA256SUMS"

// File is one of a version.
type File struct {
	// Path within the version, with slashes.
	Path string
	// SHA256 of the content, in hexadecimal digits.
	SHA256 string
	// Size in bytes; 0 where it is not known.
	Size int64
}

// refuse is an error that no other attempt mends.
func refuse(format string, args ...any) error {
	return store.Refused{Why: fmt.Sprintf(format, args...)}
}

// check says what is wrong with a file.
func (f File) check() error {
	switch {
	case !checksum.IsSHA256(f.SHA256):
		return refuse("the digest %q of %q is not one of 64 hexadecimal digits", f.SHA256, f.Path)
	case !filepath.IsLocal(f.Path) || f.Path == ".":
		return refuse("the path %q leaves the dataset", f.Path)
	case f.Path == ownFolder || strings.HasPrefix(f.Path, ownFolder+"/"):
		return refuse("the path %q is in the folder %s, which is taken", f.Path, ownFolder)
	case strings.ContainsFunc(f.Path, func(r rune) bool { return r < ' ' || r == '\\' || r == 0x7f }):
		return refuse("the path %q has a backslash or a control character, which no manifest can hold", f.Path)
	}
	return nil
}

// ParseFile reads "SHA256:SIZE:PATH". The size is 0 where it is not known.
func ParseFile(text string) (File, error) {
	digest, rest, _ := strings.Cut(text, ":")
	size, name, found := strings.Cut(rest, ":")
	n, err := strconv.ParseInt(size, 10, 64)
	if !found || err != nil || n < 0 {
		return File{}, refuse("%q is not of the form SHA256:SIZE:PATH", text)
	}
	f := File{Path: name, SHA256: digest, Size: n}
	return f, f.check()
}

// Manifest has the files of a version in the order of their paths.
type Manifest []File

// NewManifest sorts and checks files. Its errors are a store.Refused.
func NewManifest(files []File) (Manifest, error) {
	m := Manifest(slices.Clone(files))
	slices.SortFunc(m, func(a, b File) int { return cmp.Compare(a.Path, b.Path) })
	named := make(map[string]bool, len(m))
	for _, f := range m {
		if err := f.check(); err != nil {
			return nil, err
		}
		if named[f.Path] {
			return nil, refuse("the manifest names %q twice", f.Path)
		}
		named[f.Path] = true
	}
	for _, f := range m {
		for folder := path.Dir(f.Path); folder != "."; folder = path.Dir(folder) {
			if named[folder] {
				return nil, refuse("the manifest names %q as a file, and %q in a folder of that name", folder, f.Path)
			}
		}
	}
	if len(m) == 0 {
		return nil, refuse("the manifest names no files")
	}
	return m, nil
}

// ReadManifest reads what sha256sum prints. Text that is something else is a store.Refused.
func ReadManifest(from io.Reader) (Manifest, error) {
	var files []File
	lines := bufio.NewScanner(from)
	for lines.Scan() {
		line := strings.TrimSuffix(lines.Text(), "\r")
		if line == "" {
			continue
		}
		digest, name, found := strings.Cut(line, " ")
		if !found || len(name) < 2 || name[0] != ' ' && name[0] != '*' {
			return nil, refuse("line %d of the manifest is not one that sha256sum prints: digest, two spaces, path",
				len(files)+1)
		}
		files = append(files, File{Path: strings.TrimPrefix(name[1:], "./"), SHA256: strings.ToLower(digest)})
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	return NewManifest(files)
}

// Text is the manifest as sha256sum prints it.
func (m Manifest) Text() []byte {
	var text bytes.Buffer
	for _, f := range m {
		fmt.Fprintf(&text, "%s  %s\n", f.SHA256, f.Path)
	}
	return text.Bytes()
}

// Digest of a manifest is the SHA-256 digest of its text. It is the same whatever the order was and wherever the files
// are.
func (m Manifest) Digest() string {
	sum := sha256.Sum256(m.Text())
	return hex.EncodeToString(sum[:])
}

// Result is what a version has.
type Result struct {
	// Digest of the manifest.
	Digest string
	// Files and bytes in all.
	Files, Bytes int64
}
