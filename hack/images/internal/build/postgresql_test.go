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

// postgresqlScript starts the server in the ways in which it can come to be started, and writes a line for each.
const postgresqlScript = `
PATH=/usr/local/bin:$PATH
programs=$(echo /usr/lib/postgresql/*/bin) config=/zeroinfra/config/postgresql.conf secret=/zeroinfra/secrets/superuser
say() { echo "$*" >>/tmp/said; }
password() { printf %s "$1" >$secret/password; printf %s "$2" >$secret/revision; }
sql() { PGPASSWORD="$1" $programs/psql -X -A -t -q -h /zeroinfra/run -U postgres -c "$2" 2>&1; }
start() { postgresql-start $programs $config >>/tmp/log 2>&1 & pid=$!
  n=0; until sql "$1" "SELECT 1" >/dev/null; do
    n=$((n+1)); [ $n -lt 300 ] || { cat /tmp/log; exit 1; }; sleep 0.1
  done; }
stop() { kill -INT $pid; wait $pid; }
refused() { postgresql-start $programs $config >/tmp/refused 2>&1 && say "$1: started" ||
  say "$1: $(tail -n 1 /tmp/refused)"; }

# Cut off while it makes the data: what is left of that counts for nothing.
password "it's" 1
busybox setsid postgresql-start $programs $config >/tmp/cut 2>&1 & pid=$!
until [ -e /data/pgdata.new/base ]; do :; done
kill -KILL -$pid; wait $pid
[ ! -e /data/pgdata ] || say "half a database is taken for one"
start "it's"
sql "it's" "CREATE TABLE t (n int); INSERT INTO t VALUES (7)"; sql "it's" "ALTER SYSTEM SET work_mem = '1GB'"
say "checksums $(sql "it's" "SHOW data_checksums")"
stop

# The number of the server before is somebody else's, and somebody set something beside the operator.
echo $$ >/data/pgdata/postmaster.pid; echo $$ >/zeroinfra/run/.s.PGSQL.5432.lock
start "it's"
say "kept $(sql "it's" "SELECT n FROM t") work_mem $(sql "it's" "SHOW work_mem")"
kill -QUIT $pid; wait $pid

# Another password, after a crash.
password 'new\\ "one'"'" 2
start 'new\\ "one'"'"
say "kept $(sql 'new\\ "one'"'" "SELECT n FROM t")"
case $(sql "it's" "SELECT 1") in
*"authentication failed"*) say "the old password is refused";;
*) say "the old password does";;
esac
stop
grep -q "new.*one" /tmp/log && say "the password is in the log"

mv /data/pgdata /data/elsewhere; refused gone; mv /data/elsewhere /data/pgdata
echo 9.6 >/data/pgdata/PG_VERSION; refused version
password 'two
lines
' 3; refused password
cat /tmp/said
`

// TestPostgreSQL builds the real images and has the server started after all that can have gone before.
func TestPostgreSQL(t *testing.T) {
	for _, version := range []string{"15", "17", "18"} {
		t.Run(version, func(t *testing.T) {
			root := unpacked(t, "zeroinfra/postgresql:"+version)
			for _, program := range []string{"postgres", "initdb", "psql", "pg_isready", "pg_basebackup", "pg_rewind"} {
				if out, err := inside(root, 4242, "/usr/lib/postgresql/"+version+"/bin/"+program, "--version"); err != nil ||
					!strings.Contains(out, ") "+version+".") {
					t.Errorf("%s --version printed %q, %v", program, out, err)
				}
			}
			if os.Geteuid() == 0 {
				checkPostgreSQLStarts(t, root, version)
			}
		})
	}
}

func checkPostgreSQLStarts(t *testing.T, root, version string) {
	t.Helper()
	const user = 999
	settings := "listen_addresses = ''\nunix_socket_directories = '/zeroinfra/run'\ndata_directory = " +
		"'/data/pgdata'\nhba_file = '/zeroinfra/config/pg_hba.conf'\nlog_statement = all\nrecovery_init_sync_method = " +
		"syncfs\n"
	var errs []error
	for _, folder := range []string{"dev/shm", "tmp", "data", "zeroinfra", "zeroinfra/run", "zeroinfra/config",
		"zeroinfra/secrets", "zeroinfra/secrets/superuser"} {
		path := filepath.Join(root, folder)
		errs = append(errs, os.MkdirAll(path, 0o755), os.Chown(path, user, user))
	}
	for file, content := range map[string]string{"dev/null": "", "zeroinfra/config/postgresql.conf": settings,
		"zeroinfra/config/pg_hba.conf": "local all all scram-sha-256\n"} {
		path := filepath.Join(root, file)
		errs = append(errs, os.WriteFile(path, []byte(content), 0o666), os.Chmod(path, 0o666))
	}
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	out, err := inside(root, user, "/bin/sh", "-c", postgresqlScript)
	want := "checksums on\nkept 7 work_mem 4MB\nkept 7\nthe old password is refused\n" +
		"gone: postgresql-start: there was data here, and /data/pgdata is gone: put it back, or delete the volume to begin " +
		"anew\n" +
		"version: postgresql-start: the data is of PostgreSQL 9.6, and this is " + version +
		": a major upgrade is not a change of the image\n" +
		"password: postgresql-start: the password of the superuser has a line break: take one without\n"
	if err != nil || !strings.HasSuffix(out, want) {
		t.Errorf("got %v and\n%s\nwant\n%s", err, out, want)
	}
}
