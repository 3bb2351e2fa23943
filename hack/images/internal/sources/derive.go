// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
)

// Suites are the Debian suites that images can be made from.
var Suites = []string{"bookworm", "trixie", "sid"}

// releases are the names that a host's own sources may use for its suite.
var releases = []string{
	"oldstable", "stable", "testing", "unstable", "sid",
	"bullseye", "bookworm", "trixie", "forky", "duke",
}

// pockets are the archives beside a release; sid has none of them.
var pockets = []string{"", "-updates", "-security"}

// keyrings are the places of the Debian archive's keys, newest name first.
var keyrings = []string{
	"/usr/share/keyrings/debian-archive-keyring.pgp",
	"/usr/share/keyrings/debian-archive-keyring.gpg",
}

// ErrNoDebian means that the host's apt sources name no Debian archive.
var ErrNoDebian = errors.New("the apt sources of this host name no Debian archive: add one to /etc/apt/sources.list.d")

// Derive returns the entries for suite, from the mirrors that the host uses for its own suite.
// Signatures are checked with the Debian archive's keys, unless the host names a key of its own for the mirror.
func Derive(host []Entry, suite string) ([]Entry, error) {
	if !slices.Contains(Suites, suite) {
		return nil, fmt.Errorf("unknown suite %q: use one of %s", suite, strings.Join(Suites, ", "))
	}
	var all []Entry
	for _, pocket := range pockets {
		if suite == "sid" && pocket != "" {
			break
		}
		for _, entry := range archives(host, pocket) {
			entry.Suites, entry.Components = []string{suite + pocket}, []string{"main"}
			if !slices.ContainsFunc(all, func(e Entry) bool { return same(e, entry) }) {
				all = append(all, entry)
			}
		}
		if pocket == "" && len(all) == 0 {
			return nil, ErrNoDebian
		}
	}
	for i := range all {
		keys, err := signedBy(all[i].SignedBy)
		if err != nil {
			return nil, err
		}
		all[i].SignedBy = keys
	}
	return all, nil
}

// archives returns the host's entries for one pocket: those that are surely
// Debian's own or, when there is none, those that could be a mirror of it.
func archives(host []Entry, pocket string) []Entry {
	var certain, possible []Entry
	for _, entry := range host {
		entry.URIs = slices.DeleteFunc(slices.Clone(entry.URIs),
			func(u string) bool { return strings.HasPrefix(u, "cdrom:") })
		if len(entry.URIs) == 0 || !slices.Contains(entry.Components, "main") || !hasPocket(entry.Suites, pocket) {
			continue
		}
		switch {
		case strings.Contains(entry.SignedBy, "debian-archive-") || slices.ContainsFunc(entry.URIs, looksDebian):
			certain = append(certain, entry)
		case entry.SignedBy == "":
			possible = append(possible, entry)
		}
	}
	if len(certain) > 0 {
		return certain
	}
	return possible
}

func hasPocket(suites []string, pocket string) bool {
	return slices.ContainsFunc(suites, func(suite string) bool {
		release, found := strings.CutSuffix(suite, pocket)
		return found && slices.Contains(releases, release)
	})
}

func looksDebian(uri string) bool {
	last := path.Base(strings.TrimRight(uri, "/"))
	return last == "debian" || last == "debian-security"
}

func same(a, b Entry) bool {
	return slices.Equal(a.URIs, b.URIs) && slices.Equal(a.Suites, b.Suites)
}

// signedBy replaces a key of one Debian release by the keyring of them all,
// because the suite of an image is often not that of the host.
func signedBy(host string) (string, error) {
	if host != "" && !strings.Contains(host, "debian-archive-") {
		return host, nil
	}
	for _, keyring := range keyrings {
		if _, err := os.Stat(keyring); err == nil {
			return keyring, nil
		}
	}
	return "", errors.New("cannot find the keys of the Debian archive: install package debian-archive-keyring")
}

// Format renders entries in the .sources format.
func Format(entries []Entry) string {
	var b strings.Builder
	for _, e := range entries {
		fmt.Fprintf(&b, "Types: deb\nURIs: %s\nSuites: %s\nComponents: %s\nSigned-By: %s\n\n",
			strings.Join(e.URIs, " "), strings.Join(e.Suites, " "), strings.Join(e.Components, " "), e.SignedBy)
	}
	return b.String()
}
