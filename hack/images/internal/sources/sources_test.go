// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const list = `# main archive
deb [arch=amd64 signed-by=/k/a.gpg,/k/b.gpg] http://mirror.example/debian bookworm main contrib # trailing
deb-src http://mirror.example/debian bookworm main
deb cdrom:[Debian 12]/ bookworm main
deb http://other.example/tool bookworm stable
`

const modern = `Types: deb deb-src
URIs: https://one.example/debian https://two.example/debian
Suites: bookworm bookworm-updates
Components: main non-free-firmware
Signed-By: /usr/share/keyrings/debian-archive-bookworm-stable.gpg

Enabled: no
Types: deb
URIs: http://off.example/debian
Suites: bookworm
Components: main

Types: deb
URIs: http://one.example/debian-security
Suites: bookworm-security
Components: main

Types: deb
URIs: http://vendor.example
Suites: bookworm
Components: main
Signed-By: /k/vendor.gpg
`

func TestParseList(t *testing.T) {
	entries, err := ParseList(strings.ReplaceAll(list, "cdrom:[Debian 12]/", "cdrom:x"))
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 3 {
		t.Fatalf("got %d entries, want 3: %+v", len(entries), entries)
	}
	e := entries[0]
	if e.URIs[0] != "http://mirror.example/debian" || e.Suites[0] != "bookworm" ||
		strings.Join(e.Components, " ") != "main contrib" {
		t.Errorf("entry = %+v", e)
	}
	if e.SignedBy != "/k/a.gpg /k/b.gpg" {
		t.Errorf("SignedBy = %q", e.SignedBy)
	}
}

func TestParseListRefuses(t *testing.T) {
	for _, text := range []string{"deb [arch=amd64 http://x/debian bookworm main", "\ndeb http://x/debian"} {
		if _, err := ParseList(text); err == nil || !strings.Contains(err.Error(), "line ") {
			t.Errorf("ParseList(%q) = %v, want an error with its line", text, err)
		}
	}
}

// TestReadHostAndDerive reads both formats from one host, whose own suite is
// bookworm, and asks for trixie and sid.
func TestReadHostAndDerive(t *testing.T) {
	host := t.TempDir()
	write(t, filepath.Join(host, "etc/apt/sources.list"), "deb http://mirror.example/debian bookworm main\n")
	write(t, filepath.Join(host, "etc/apt/sources.list.d/debian.sources"), modern)
	write(t, filepath.Join(host, "etc/apt/sources.list.d/ignored.sources.bak"), "not a source")
	entries, err := ReadHost(host)
	if err != nil {
		t.Fatal(err)
	}
	trixie, err := Derive(entries, "trixie")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range trixie {
		got = append(got, strings.Join(e.URIs, "+")+" "+strings.Join(e.Suites, "+")+" "+strings.Join(e.Components, "+"))
		if !strings.HasPrefix(e.SignedBy, "/usr/share/keyrings/debian-archive-keyring.") {
			t.Errorf("SignedBy of %v = %q, want the keyring of all releases", e.URIs, e.SignedBy)
		}
	}
	want := []string{
		"http://mirror.example/debian trixie main",
		"https://one.example/debian+https://two.example/debian trixie main",
		"https://one.example/debian+https://two.example/debian trixie-updates main",
		"http://one.example/debian-security trixie-security main",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("trixie comes from\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	sid, err := Derive(entries, "sid")
	if err != nil {
		t.Fatal(err)
	}
	if text := Format(sid); strings.Contains(text, "sid-") || strings.Contains(text, "security") ||
		!strings.Contains(text, "Suites: sid\n") {
		t.Errorf("sid has no archives beside it, got\n%s", text)
	}
}

func TestDeriveKeepsTheKeyOfAResignedMirror(t *testing.T) {
	got, err := Derive([]Entry{{
		URIs: []string{"http://mirror.example/debian"}, Suites: []string{"stable"}, Components: []string{"main"},
		SignedBy: "/k/own.gpg",
	}}, "bookworm")
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 || got[0].SignedBy != "/k/own.gpg" || got[0].Suites[0] != "bookworm" {
		t.Errorf("got %+v", got)
	}
}

func TestDeriveRefuses(t *testing.T) {
	other := []Entry{{URIs: []string{"http://x.example/ubuntu"}, Suites: []string{"noble"}, Components: []string{"main"}}}
	if _, err := Derive(other, "trixie"); !errors.Is(err, ErrNoDebian) {
		t.Errorf("Derive without Debian = %v, want ErrNoDebian", err)
	}
	if _, err := Derive(other, "buster"); err == nil || !strings.Contains(err.Error(), "buster") {
		t.Errorf("Derive of an unknown suite = %v", err)
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
