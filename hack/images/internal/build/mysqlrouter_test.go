// SPDX-License-Identifier: Apache-2.0

//go:build processes

package build

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// mysqlRouterScript probes a Router that listens nowhere, and one that listens at one of two ports.
const mysqlRouterScript = `
echo 9.7.4 >/tmp/mysqlrouter.version
/usr/local/bin/mysqlrouter-probe /tmp 6450 6446
printf '%s\n' '  sl  local_address rem_address   st' \
  '   0: 00000000:192E 00000000:0000 0A 00000000:00000000' '   1: 0100007F:1932 0100007F:0050 01 00000000:00000000' \
  >/tmp/tcp
sed 's|/proc/net/tcp /proc/net/tcp6|/tmp/tcp /tmp/none|' /usr/local/bin/mysqlrouter-probe >/tmp/probe
sh /tmp/probe /tmp 6450 6446
echo '["mysql://nobody-yet.invalid:3306"]' >/tmp/mysqlrouter.state.json
sh /tmp/probe /tmp 6450 6446
`

// TestMySQLRouter builds the real image, and has its programs and its probe run. What a Router does before a group is
// tested with the agents.
func TestMySQLRouter(t *testing.T) {
	root := unpacked(t, "zeroinfra/mysql-router:9.7")
	for _, name := range []string{"mysqlrouter", "mysqlrouter_keyring", "mysqlrouter_passwd"} {
		program := "/usr/bin/" + name
		if out, err := inside(root, 4242, program, "--version"); err != nil || !strings.Contains(out, "Ver 9.7.") {
			t.Errorf("%s --version printed %q, %v", program, out, err)
		}
	}
	if os.Geteuid() != 0 {
		return
	}
	const user = 999
	tmp := filepath.Join(root, "tmp")
	if err := errors.Join(os.MkdirAll(tmp, 0o755), os.Chown(tmp, user, user)); err != nil {
		t.Fatal(err)
	}
	out, err := inside(root, user, "/bin/sh", "-c", mysqlRouterScript)
	want := "version=9.7.4\nlistening=\nversion=9.7.4\nlistening=6446\nversion=9.7.4\nlistening=\n"
	if err != nil || out != want {
		t.Errorf("got %v and\n%s\nwant\n%s", err, out, want)
	}
}
