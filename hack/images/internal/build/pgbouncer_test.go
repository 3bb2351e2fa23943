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

// pgbouncerScript runs the program as the plugin does, in front of nobody, and writes a line for what it sees.
const pgbouncerScript = `
PATH=/usr/local/bin:$PATH
say() { echo "$*" >>/tmp/said; }
console() { psql -X -A -t -q -h /zeroinfra/run -p 6432 -U pgbouncer -d pgbouncer -c "$1" 2>&1; }
state() { pgbouncer-probe /zeroinfra/run 6432 2>>/tmp/log | sed -n 's/^paused=//p'; }
pgbouncer /zeroinfra/config/pgbouncer.ini >>/tmp/log 2>&1 & pid=$!
n=0; until pgbouncer-probe /zeroinfra/run 6432 >/tmp/probe 2>/dev/null; do
  n=$((n+1)); [ $n -lt 100 ] || { cat /tmp/log; exit 1; }; sleep 0.1
done
say "$(sed -n 's/^\(version=1[.]24\).*/\1/p' /tmp/probe), paused $(state)"
say "mode $(console "SHOW CONFIG" | sed -n 's/^pool_mode|//p')"

# Clients wait for as long as somebody said, and go on when nobody comes for them.
console PAUSE >/dev/null; echo "$(( $(date +%s) + 60 )) 7" >/zeroinfra/run/pgbouncer.hold
say "in time $(state)"
echo "$(( $(date +%s) - 60 )) 7" >/zeroinfra/run/pgbouncer.hold
say "late $(state)"; say "after that $(state)"
console PAUSE >/dev/null
say "for nobody $(state)"; say "after that $(state)"
[ ! -e /zeroinfra/run/pgbouncer.hold ] || say "the mark is left"
kill -INT $pid; wait $pid; say "ended with $?"
pgbouncer-probe /zeroinfra/run 6432 >/dev/null 2>&1 && say "one that is gone answers"
cat /tmp/said
`

// TestPgBouncer builds the real image, and has the program started and asked as the plugin does.
func TestPgBouncer(t *testing.T) {
	root := unpacked(t, "zeroinfra/pgbouncer:1.24")
	for program, says := range map[string]string{"/usr/sbin/pgbouncer": "PgBouncer 1.24.",
		"/usr/lib/postgresql/17/bin/psql": ") 17."} {
		if out, err := inside(root, 4242, program, "--version"); err != nil || !strings.Contains(out, says) {
			t.Errorf("%s --version printed %q, %v", program, out, err)
		}
	}
	if os.Geteuid() != 0 {
		return
	}
	const user = 999
	// The settings that are not of the plugin's own choice are tested with it.
	settings := "[databases]\n* = host=127.0.0.1 port=1\n[pgbouncer]\nunix_socket_dir = " +
		"/zeroinfra/run\nunix_socket_mode = 0700\nauth_type = scram-sha-256\nauth_file = /zeroinfra/config/userlist.txt\n" +
		"auth_user = zeroinfra_pooler\nauth_dbname = postgres\nauth_query = SELECT name, verifier FROM " +
		"zeroinfra.pooler_user($1)\nstats_users = zeroinfra_pooler\npool_mode = transaction\n"
	var errs []error
	for _, folder := range []string{"tmp", "zeroinfra", "zeroinfra/run", "zeroinfra/config"} {
		path := filepath.Join(root, folder)
		errs = append(errs, os.MkdirAll(path, 0o755), os.Chown(path, user, user))
	}
	for file, content := range map[string]string{"dev/null": "", "zeroinfra/config/pgbouncer.ini": settings,
		"zeroinfra/config/userlist.txt": "\"zeroinfra_pooler\" \"a \"\"b\"\"\"\n"} {
		path := filepath.Join(root, file)
		errs = append(errs, os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o666),
			os.Chmod(path, 0o666))
	}
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	out, err := inside(root, user, "/bin/sh", "-c", pgbouncerScript)
	want := "version=1.24, paused no\nmode transaction|session|yes\nin time yes\nlate yes\nafter that no\nfor nobody " +
		"yes\nafter that no\nended with 0\n"
	if err != nil || !strings.HasSuffix(out, want) {
		t.Errorf("got %v and\n%s\nwant\n%s", err, out, want)
	}
}
