// SPDX-License-Identifier: Apache-2.0

package apt

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// Deb is a package file on disk whose checksum was compared with the signed lists.
type Deb struct {
	Package
	Path string
}

// Download gets the files of packages in one call of apt; those that are in the
// cache already, with the right checksum, are not fetched again.
func (r *Root) Download(ctx context.Context, packages []Package) ([]Deb, error) {
	args := []string{"download", "-q", "--"}
	debs := make([]Deb, len(packages))
	for i, p := range packages {
		debs[i] = Deb{Package: p, Path: r.path("debs", p.file())}
		err := verify(debs[i])
		if errors.Is(err, errChecksum) {
			// apt does not overwrite a file of the right size, so a damaged one must go first.
			if err = os.Remove(debs[i].Path); err == nil {
				err = fs.ErrNotExist
			}
		}
		switch {
		case errors.Is(err, fs.ErrNotExist):
			args = append(args, p.String())
		case err != nil:
			return nil, fmt.Errorf("cannot check package %q: %w", p, err)
		}
	}
	if len(args) == 3 {
		return debs, nil
	}
	if _, err := r.apt(ctx, "apt-get", r.path("debs"), args...); err != nil {
		return nil, fmt.Errorf("cannot download packages from %q: %w", r.suite, err)
	}
	for _, deb := range debs {
		if err := verify(deb); err != nil {
			return nil, fmt.Errorf("cannot download package %q: %w", deb.Package, err)
		}
	}
	return debs, nil
}

var errChecksum = errors.New("checksum differs from that in the signed package list")

func verify(deb Deb) error {
	f, err := os.Open(deb.Path)
	if err != nil {
		return err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return err
	}
	if hex.EncodeToString(h.Sum(nil)) != deb.SHA256 {
		return errChecksum
	}
	return nil
}
