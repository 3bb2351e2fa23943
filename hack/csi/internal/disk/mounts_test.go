// SPDX-License-Identifier: Apache-2.0

//go:build linux

package disk

import (
	"testing"

	"golang.org/x/sys/unix"
)

func TestParseMounts(t *testing.T) {
	const data = `22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
40 22 7:3 / /var/lib/with\040space\134 ro,noexec shared:1 - xfs /dev/loop3 rw,discard
`
	got, err := parseMounts(data)
	if err != nil || len(got) != 2 {
		t.Fatalf("got %+v, %v", got, err)
	}
	if m := got[1]; m.Path != `/var/lib/with space\` || m.Number != "7:3" || !m.ReadOnly() || got[0].ReadOnly() {
		t.Errorf("got %+v", got)
	}
	if _, err := parseMounts("too short\n"); err == nil {
		t.Error("nonsense is understood")
	}
}

func TestAt(t *testing.T) {
	if m, ok, err := At("/proc"); err != nil || !ok || m.Path != "/proc" {
		t.Errorf("got %+v, %v, %v", m, ok, err)
	}
	for _, path := range []string{t.TempDir(), "/not/there"} {
		if m, ok, err := At(path); err != nil || ok {
			t.Errorf("at %q is %+v, %v", path, m, err)
		}
	}
}

func TestMountOptions(t *testing.T) {
	flags, data, err := mountOptions([]string{"ro", "noatime", "inode32"})
	if err != nil || flags != unix.MS_RDONLY|unix.MS_NOATIME || data != "discard,nouuid,inode32" {
		t.Errorf("got %#x, %q, %v", flags, data, err)
	}
	for _, bad := range []string{"a,b", "a b"} {
		if _, _, err := mountOptions([]string{bad}); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func TestUnescapeLeavesOthersAlone(t *testing.T) {
	for in, want := range map[string]string{`a\040b`: "a b", `a\9`: `a\9`, `\`: `\`, `\011\012`: "\t\n",
		"plain": "plain"} {
		if got := unescape(in); got != want {
			t.Errorf("%q becomes %q", in, got)
		}
	}
}
