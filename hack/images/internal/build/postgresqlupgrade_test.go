// SPDX-License-Identifier: Apache-2.0

//go:build processes

package build

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// upgradeScript upgrades real data with all that can go wrong on the way, and writes a line for each.
const upgradeScript = `
PATH=/usr/local/bin:$PATH
export TERMINATION_LOG=/tmp/termination JOB_POD=db-0
say() { echo "$*" >>/tmp/said; }
bin() { echo /usr/lib/postgresql/$(cat /data/pgdata/PG_VERSION)/bin; }
sql() { $(bin)/psql -X -A -t -q -h /zeroinfra/run -U postgres -d "${2:-postgres}" -c "$1" 2>&1; }
start() { $(bin)/pg_ctl -D /data/pgdata -w -l /tmp/server.log -o "-c listen_addresses='' \
  -c unix_socket_directories=/zeroinfra/run -c hba_file=/tmp/hba -c wal_level=logical $*" start >/dev/null ||
  { cat /tmp/server.log; exit 1; }; }
stop() { $(bin)/pg_ctl -D /data/pgdata -w -m fast stop >/dev/null; }
check() { postgresql-upgrade check /zeroinfra/run $from $to '[["db-0"]]' 2>&1; }
fails() { name=$1; shift; postgresql-upgrade "$@" >/tmp/refused 2>&1 && say "$name: it did" ||
  say "$name: $(tail -n 1 /tmp/refused)"; }
does() { postgresql-upgrade "$@" >/tmp/done 2>&1 || { cat /tmp/done; exit 1; }; }
is() { start
  say "$1: version $(sql "SHOW server_version" | cut -d . -f 1)," \
    "$(sql "SELECT count(*) || ' rows, ' || sum(n) FROM t" shop), $(ls -d /data/pgdata.* 2>/dev/null | tr '\n' ' ')"
  stop; }
echo "local all all trust" >/tmp/hba
printf secret >/tmp/password
/usr/lib/postgresql/$from/bin/initdb -D /data/pgdata -U postgres --pwfile=/tmp/password --auth=scram-sha-256 \
  --encoding=UTF8 --locale=C.UTF-8 --data-checksums >/tmp/initdb || { cat /tmp/initdb; exit 1; }
printf 7 >/data/pgdata/.zeroinfra.password
printf '{"format":1,"state":{"term":3,"list":{}}}' >/data/.zeroinfra.member
start
sql "CREATE ROLE app LOGIN PASSWORD 'x'"; sql "CREATE DATABASE shop OWNER app"
sql "CREATE TABLE t (n int PRIMARY KEY, s text COLLATE \"en-x-icu\");
  INSERT INTO t SELECT n, repeat(n::text, 700) FROM generate_series(1, 1000) n;
  CREATE INDEX ON t (left(s, 20) COLLATE \"en-x-icu\")" shop
sql "CREATE EXTENSION hstore; SELECT lo_from_bytea(0, 'large')" shop >/dev/null

# What is in the way is said while the server serves.
sql "SELECT pg_create_logical_replication_slot('reader', 'pgoutput')" shop >/dev/null
sql "CREATE DATABASE closed ALLOW_CONNECTIONS false"; sql "CREATE DATABASE \"a b'c\""
sql "CREATE TABLE a (x aclitem, y regproc)" shop
[ $from -gt 15 ] || sql "CREATE EXTENSION adminpack" shop
sql "CREATE TABLE parent (k int PRIMARY KEY); CREATE TABLE child () INHERITS (parent);
  ALTER TABLE child ALTER k DROP NOT NULL" shop
say "check: $(check)"
sql "SELECT pg_drop_replication_slot('reader')" >/dev/null; sql "DROP DATABASE closed"
[ $from -gt 15 ] || sql "DROP EXTENSION adminpack" shop
sql "DROP TABLE a, parent, child" shop
say "check: $(check) $(cat /tmp/termination)"
say "to the same: $(postgresql-upgrade check /zeroinfra/run $from $from '[["db-0"]]' 2>&1)"
stop

# Somebody has the volume.
flock -F /data/.zeroinfra.lock sleep 60 & holder=$!
until ! flock -n /data/.zeroinfra.lock true; do :; done
fails "in use" convert $from $to
kill $holder; wait $holder
until flock -n /data/.zeroinfra.lock true; do :; done

# It fails in the middle: there is no such column any more. The old data serves.
start; sql "CREATE VIEW v AS SELECT $gone" shop; stop
postgresql-upgrade convert $from $to >/tmp/refused 2>&1 && say "it upgraded a view of what is gone"
grep -q "pg_upgrade failed: .*${gone%% *}" /tmp/refused && say "failed half-way"  || cat /tmp/refused
does undo $from $to
is "after a failure"
start; sql "DROP VIEW v" shop; stop

# The server did not come to its end, and the conversion is killed, more than once.
start; sql "INSERT INTO t SELECT n, 'x' FROM generate_series(1001, 1100) n" shop
$(bin)/pg_ctl -D /data/pgdata -w -m immediate stop >/dev/null
for point in base/1 pg_upgrade_output.d; do
  busybox setsid postgresql-upgrade convert $from $to >/tmp/cut 2>&1 & pid=$!
  until [ -e /data/pgdata.upgrade/$point ] || ! kill -0 $pid 2>/dev/null; do :; done
  kill -KILL -$pid; wait $pid
  # Its servers have sessions of their own; a container's would be gone with it.
  for left in /data/pgdata*/postmaster.pid; do [ ! -e $left ] || kill -KILL $(head -n 1 $left) 2>/dev/null; done
  until flock -n /data/.zeroinfra.lock true; do :; done
done
: >/data/pgdata/pg_wal/archive_status/000000010000000000000001.done
does convert $from $to
[ -n "$(ls /data/pgdata.before/pg_wal/archive_status/*.ready)" ] && say "the log of before waits for its archive"
say "said: $(grep -v mode /tmp/termination | tr '\n' ' ')"
does convert $from $to
say "mark: $(grep -v -E '^(at|checkpoint|system|archive|replaces|mode)=' /data/pgdata/zeroinfra.upgrade |
  tr '\n' ' ') password $(cat /data/pgdata/.zeroinfra.password) timelines $(cat /data/pgdata/zeroinfra.timelines)"
# Cut off between the two last steps.
mv /data/pgdata /data/pgdata.upgrade
does convert $from $to
is "upgraded"
start
say "index: $(sql "SET enable_seqscan = off;
  SELECT count(*) FROM t WHERE left(s, 20) COLLATE \"en-x-icu\" = 'x'" shop)" \
  "$(sql "SELECT 'a=>1'::hstore -> 'a'" shop)" \
  "$(sql "SELECT convert_from(lo_get(oid), 'UTF8') FROM pg_largeobject_metadata" shop)" \
  "checksums $(sql "SHOW data_checksums")"
stop

# Undone, in two halves as well, and done again.
mv /data/pgdata /data/pgdata.upgrade
does undo $from $to
is "undone"
does convert $from $to
start; sql "INSERT INTO t VALUES (5000, 'new')" shop; stop

# Back, forward, and back in two halves.
new=$(sed -n 's/^system=//p' /data/pgdata/zeroinfra.upgrade)
old=$(sed -n 's/^replaces=//p' /data/pgdata/zeroinfra.upgrade)
does rollback $from $to; does rollback $from $to
is "rolled back"
[ "$(sed -n 's/^replaces=//p' /data/pgdata/zeroinfra.upgrade | tr -d ' ')" = "$new" ] &&
  [ "$(sed -n 's/^system=//p' /data/pgdata/zeroinfra.upgrade)" = "$(echo $old)" ] &&
  say "the mark names what it replaces"
fails "twice" convert $from $to
does forward $from $to; does forward $from $to
is "forward"
mv /data/pgdata /data/pgdata.after
does rollback $from $to
is "rolled back"
start; case $(check) in *"run CommitUpgrade first"*) say "a way back is still open";; esac; stop
does_commit() { sh /tmp/commit.sh && sh /tmp/commit.sh; }
does_commit &&
  say "committed: $(sed -n 's/^state=//p' /data/pgdata/zeroinfra.upgrade) $(ls -d /data/pgdata.* 2>/dev/null)"
does convert $from $to
is "again"
does_commit
fails "nothing left" rollback $from $to
cat /tmp/said
`

// upgradeSays has what is in the way of this path alone, and its two versions.
const upgradeSays = `check: postgresql-upgrade: a database lets nobody in: closed: ALTER DATABASE … ` +
	`ALLOW_CONNECTIONS true, or drop it; ` +
	`there are logical replication slots, which an upgrade loses: have who reads from them catch up, and drop reader; ` +
	`%[1]s
check:  from=%[2]s
to the same: postgresql-upgrade: the primary runs version %[2]s, ` +
	`and version %[2]s can be reached from an earlier one alone
in use: postgresql-upgrade: a server has the volume: it has to be stopped
failed half-way
after a failure: version %[2]s, 1000 rows, 500500, 
the log of before waits for its archive
said: relations=3 reindexed=1 
mark: state=Upgraded from=%[2]s to=%[3]s pod=db-0 relations=3 reindexed=1  password 7 timelines 1 3
upgraded: version %[3]s, 1100 rows, 605550, /data/pgdata.before 
index: 100 1 large checksums on
undone: version %[2]s, 1100 rows, 605550, 
rolled back: version %[2]s, 1100 rows, 605550, /data/pgdata.after 
the mark names what it replaces
twice: postgresql-upgrade: the data of an upgrade before is in the volume: run CommitUpgrade first, which drops it
forward: version %[3]s, 1101 rows, 610550, /data/pgdata.before 
rolled back: version %[2]s, 1100 rows, 605550, /data/pgdata.after 
a way back is still open
committed: Committed 
again: version %[3]s, 1100 rows, 605550, /data/pgdata.before 
nothing left: postgresql-upgrade: the data of before the upgrade is not in this volume
`

// upgradeUser is the image's: pg_upgrade asks for the name of who runs it.
const upgradeUser = 999

// upgradePath is from one version to another.
type upgradePath struct {
	from, to string
	// gone is a column, and the view that has it in the former version alone.
	gone string
	// inTheWay is what check says of data that only this path has no way for.
	inTheWay string
}

// What check says of data of every former version that has it, and of what version 18 is the first to look at.
const (
	adminpackIsGone = "version %[1]s has no extension adminpack: drop it from database shop; version %[1]s has no " +
		"library adminpack, which functions of database shop are in; "
	unreadable = "a column of database shop has a type whose values another version cannot read: "
	nullable   = "; a column of database shop can be null in a table and not in the one that it inherits from: ALTER " +
		"TABLE … ALTER … SET NOT NULL for public.child.k"
)

// upgradePaths, each in the image whose tag is the later version. From 17 to 18 is what
// TestPostgreSQLMajorUpgradeToTheNewest goes, on a cluster.
var upgradePaths = []upgradePath{
	{"15", "17", "buffers_backend FROM pg_stat_bgwriter", fmt.Sprintf(adminpackIsGone, "17") + unreadable +
		"public.a.x (aclitem), public.a.y (regproc)"},
	{"15", "18", "wal_write FROM pg_stat_wal", fmt.Sprintf(adminpackIsGone, "18") + unreadable +
		"public.a.x (aclitem), public.a.y (regproc)" + nullable},
}

// TestPostgreSQLUpgrade upgrades real data, from the first version on to each that there is an image for, with failures
// and kills on the way, and goes back.
func TestPostgreSQLUpgrade(t *testing.T) {
	for _, path := range upgradePaths {
		t.Run("from "+path.from+" to "+path.to, func(t *testing.T) {
			root := unpacked(t, "zeroinfra/postgresql-upgrade:"+path.to)
			for _, version := range []string{path.from, path.to} {
				for _, program := range []string{"postgres", "initdb", "psql", "pg_ctl", "pg_upgrade", "pg_controldata", "pg_dump",
					"vacuumdb"} {
					out, err := inside(root, upgradeUser, "/usr/lib/postgresql/"+version+"/bin/"+program, "--version")
					if err != nil || !strings.Contains(out, ") "+version+".") {
						t.Errorf("%s --version printed %q, %v", program, out, err)
					}
				}
			}
			if os.Geteuid() == 0 {
				checkUpgrade(t, root, path)
			}
		})
	}
}

func checkUpgrade(t *testing.T, root string, path upgradePath) {
	t.Helper()
	var errs []error
	for _, folder := range []string{"dev/shm", "tmp", "data", "zeroinfra", "zeroinfra/run"} {
		at := filepath.Join(root, folder)
		errs = append(errs, os.MkdirAll(at, 0o755), os.Chown(at, upgradeUser, upgradeUser))
	}
	commit, err := os.ReadFile("../../postgresql/commit.sh")
	errs = append(errs, err)
	for file, content := range map[string]string{"dev/null": "", "tmp/commit.sh": string(commit)} {
		at := filepath.Join(root, file)
		errs = append(errs, os.WriteFile(at, []byte(content), 0o666), os.Chmod(at, 0o666))
	}
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	settings := fmt.Sprintf("from=%s to=%s gone='%s'\n", path.from, path.to, path.gone)
	says := fmt.Sprintf(upgradeSays, path.inTheWay, path.from, path.to)
	out, err := inside(root, upgradeUser, "/bin/sh", "-c", settings+upgradeScript)
	if err != nil || !strings.HasSuffix(out, says) {
		t.Errorf("got %v and\n%s\nwant\n%s", err, out, says)
	}
}
