// SPDX-License-Identifier: Apache-2.0

package rootfs

import (
	"bytes"
	"fmt"
	"path"
	"strings"
)

// What the maintainer scripts of packages would have made on a real system.

const (
	statusDir     = "/var/lib/dpkg/status.d"
	certificates  = "usr/share/ca-certificates"
	bundle        = "etc/ssl/certs/ca-certificates.crt"
	bundleOrigin  = "the CA bundle"
	accountOrigin = "users and groups"
)

// PutStatus records a package where scanners of images look for it.
func (t *Tree) PutStatus(name, control string) error {
	text := control + "Status: install ok installed\n"
	e := Entry{Path: path.Join(statusDir, name), Mode: 0o644, Origin: "the list of packages"}
	return t.PutFile(e, strings.NewReader(text))
}

// IsStatus tells whether a path inside an image is a record of PutStatus.
func IsStatus(name string) bool {
	return path.Dir("/"+clean(name)) == statusDir
}

// StatusPackage returns the name=version in a record of PutStatus.
func StatusPackage(text string) string {
	var name, version string
	for line := range strings.Lines(text) {
		if value, found := strings.CutPrefix(line, "Package: "); found {
			name = strings.TrimSpace(value)
		}
		if value, found := strings.CutPrefix(line, "Version: "); found {
			version = strings.TrimSpace(value)
		}
	}
	return name + "=" + version
}

// BundleCertificates joins the certificates of package ca-certificates into the
// one file that programs read, and removes the single ones. Without that package it does nothing.
func (t *Tree) BundleCertificates() error {
	var joined bytes.Buffer
	for _, name := range t.Paths() {
		if !strings.HasPrefix(name, certificates+"/") || path.Ext(name) != ".crt" {
			continue
		}
		pem, err := t.ReadFile(name)
		if err != nil {
			return err
		}
		joined.Write(append(bytes.TrimSpace(pem), '\n'))
	}
	if joined.Len() == 0 {
		return nil
	}
	t.Prune([]string{"/" + certificates})
	return t.PutFile(Entry{Path: bundle, Mode: 0o644, Origin: bundleOrigin}, &joined)
}

// Account is one line of /etc/passwd.
type Account struct {
	Name        string
	UID, GID    int
	Home, Shell string
}

// GroupLine is one line of /etc/group.
type GroupLine struct {
	Name string
	GID  int
}

// PutAccounts writes /etc/passwd and /etc/group.
func (t *Tree) PutAccounts(users []Account, groups []GroupLine) error {
	var passwd, group strings.Builder
	for _, u := range users {
		fmt.Fprintf(&passwd, "%s:x:%d:%d::%s:%s\n", u.Name, u.UID, u.GID, u.Home, u.Shell)
	}
	for _, g := range groups {
		fmt.Fprintf(&group, "%s:x:%d:\n", g.Name, g.GID)
	}
	e := Entry{Path: "etc/passwd", Mode: 0o644, Origin: accountOrigin}
	if err := t.PutFile(e, strings.NewReader(passwd.String())); err != nil {
		return err
	}
	e.Path = "etc/group"
	return t.PutFile(e, strings.NewReader(group.String()))
}
