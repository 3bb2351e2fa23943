// SPDX-License-Identifier: Apache-2.0

package apt

import (
	"slices"
	"strings"
	"testing"

	"github.com/zeroinfra/hack/images/internal/deb822"
)

func TestRelation(t *testing.T) {
	got := relation("libc6 (>= 2.34), debconf (>= 0.5) | debconf-2.0,\n python3:any [amd64], ")
	want := [][]string{{"libc6"}, {"debconf", "debconf-2.0"}, {"python3"}}
	if !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestReachable leaves out adduser and with it passwd, which nothing else needs;
// libc6 stays, as the server needs it too.
func TestReachable(t *testing.T) {
	solution := map[string]deb822.Stanza{}
	stanzas, err := deb822.Parse(strings.NewReader(`
Package: server
Depends: libc6, adduser, tools (= 1), mail-agent

Package: tools
Pre-Depends: libc6 (>= 2)

Package: libc6

Package: adduser
Depends: passwd, libc6

Package: passwd
Depends: libc6

Package: postman
Provides: mail-agent (= 3)
`))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range stanzas {
		solution[s.Get("Package")] = s
	}
	check := func(wanted, exclude, want []string) {
		t.Helper()
		if got := reachable(solution, wanted, exclude); !slices.Equal(got, want) {
			t.Errorf("reachable(%q, %q) = %q, want %q", wanted, exclude, got, want)
		}
	}
	check([]string{"server"}, nil, []string{"adduser", "libc6", "passwd", "postman", "server", "tools"})
	check([]string{"server"}, []string{"add*"}, []string{"libc6", "postman", "server", "tools"})
	check([]string{"server"}, []string{"*"}, []string{"server"})
	check([]string{"server", "passwd"}, []string{"add*", "passwd"},
		[]string{"libc6", "passwd", "postman", "server", "tools"})
	check([]string{"mail-agent"}, nil, []string{"postman"})
}

func TestUpstream(t *testing.T) {
	for version, want := range map[string]string{
		"5:7.0.15-1~deb12u5":      "7.0.15",
		"5:8.0.2-3+deb13u1":       "8.0.2",
		"15.18-0+deb12u1":         "15.18",
		"8.1.1+dfsg1-3":           "8.1.1",
		"1:1.3.dfsg+really1.3-1":  "1.3",
		"1.2-rc1-1":               "1.2-rc1",
		"20250419":                "20250419",
		"2.0~beta2-1":             "2.0~beta2",
		"1.0~ds-2":                "1.0",
		"9.7.4-1":                 "9.7.4",
		"0.0+git20240101.abc-2+b": "0.0+git20240101.abc",
	} {
		if got := (Package{Version: version}).Upstream(); got != want {
			t.Errorf("Upstream of %q = %q, want %q", version, got, want)
		}
	}
}

func TestFileOfAnEpochVersion(t *testing.T) {
	p := Package{Name: "redis-server", Version: "5:7.0.15-1~deb12u5", Architecture: "amd64"}
	if got, want := p.file(), "redis-server_5%3a7.0.15-1~deb12u5_amd64.deb"; got != want {
		t.Errorf("file = %q, want %q", got, want)
	}
}
