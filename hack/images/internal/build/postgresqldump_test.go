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

// dumpScript dumps a server of one version and has one of another take it, and writes a line for each of what that has
// then.
const dumpScript = `
agent=/zeroinfra/bin/agent-ops
export PGHOST=/zeroinfra/run PGUSER=postgres
say() { echo "$*"; }
bin() { echo /usr/lib/postgresql/$1/bin; }
sql() { $(bin $(cat /data/pgdata/PG_VERSION))/psql -X -A -t -q -d "${2:-postgres}" -c "$1" 2>&1; }
start() { $(bin $(cat /data/pgdata/PG_VERSION))/pg_ctl -D /data/pgdata -w -l /tmp/server.log \
  -o "-c listen_addresses='' -c unix_socket_directories=/zeroinfra/run -c hba_file=/tmp/hba" start >/dev/null ||
  { cat /tmp/server.log; exit 1; }; }
stop() { $(bin $(cat /data/pgdata/PG_VERSION))/pg_ctl -D /data/pgdata -w -m fast stop >/dev/null; }
takes() { cd /data && $agent postgresql load "--programs=$(bin $1)" </tmp/dump >/tmp/said 2>&1; }
rm -rf /data/pgdata
echo "local all all trust" >/tmp/hba
printf secret >/tmp/password
$(bin $from)/initdb -D /data/pgdata -U postgres --pwfile=/tmp/password --auth=scram-sha-256 --encoding=UTF8 \
  --locale=C.UTF-8 --data-checksums >/tmp/initdb || { cat /tmp/initdb; exit 1; }
start
sql "CREATE ROLE dba SUPERUSER"; sql "CREATE ROLE app LOGIN PASSWORD 'x'"
sql "CREATE ROLE \"zeroinfra_pooler\" LOGIN PASSWORD 'y'"
sql "SET ROLE dba; GRANT pg_monitor TO app"; sql "ALTER ROLE app SET work_mem = '8MB'"
sql "CREATE DATABASE shop OWNER app"
sql "CREATE DATABASE \"a b'c\" TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'en-US'"
sql "CREATE EXTENSION hstore; CREATE EXTENSION pg_stat_statements; CREATE EXTENSION postgres_fdw" shop
sql "CREATE TABLE t (n serial PRIMARY KEY, s text COLLATE \"en-x-icu\", h hstore DEFAULT 'a=>1');
  INSERT INTO t (s) SELECT repeat(n::text, 700) FROM generate_series(1, 3000) n; ALTER TABLE t OWNER TO app;
  CREATE INDEX ON t (left(s, 20) COLLATE \"en-x-icu\")" shop
sql "CREATE TABLE parts (d date, n int GENERATED ALWAYS AS IDENTITY) PARTITION BY RANGE (d);
  CREATE TABLE parts_a PARTITION OF parts FOR VALUES FROM ('2020-01-01') TO ('2030-01-01');
  INSERT INTO parts VALUES ('2025-05-05')" shop
sql "CREATE VIEW v AS SELECT s, row_number() OVER (ORDER BY n) FROM t; CREATE PUBLICATION p FOR TABLE t" shop
sql "CREATE SUBSCRIPTION sub CONNECTION 'host=nowhere' PUBLICATION p
  WITH (connect = false, slot_name = NONE)" shop >/dev/null
sql "SELECT lo_from_bytea(0, 'large')" shop >/dev/null
$agent postgresql dump "--programs=$(bin $from)" --facts=/tmp/facts >/tmp/dump 2>/tmp/said || { cat /tmp/said; exit 1; }
say "facts: $(sed "s/=$from[.][0-9]*$/=$from.x/" /tmp/facts | tr '\n' ' ')"
# By hand, with what any machine has.
tar -xOf /tmp/dump dump.json | grep -q '"shop"' && tar -tf /tmp/dump | grep -q '^0004/database/000001$' &&
  say "by hand: $(tar -xOf /tmp/dump 0004/database/000001 | head -c 5)" \
    "$(tar -xOf /tmp/dump 0001/globals.sql | grep -c '^CREATE ROLE app;')"
stop
if [ -n "$older" ]; then
  rm -rf /data/pgdata; takes $older && say "an older server took it"
  say "older: $(tail -n 1 /tmp/said) $(ls -A /data)"
fi
rm -rf /data/pgdata
takes $to || { cat /tmp/said; exit 1; }
start
say "version $(sql "SHOW server_version" | cut -d . -f 1), checksums $(sql "SHOW data_checksums")"
say "rows $(sql "SELECT count(*) || ' ' || sum(length(s)) || ' ' || sum((h -> 'a')::int) FROM t" shop)" \
  "$(sql "SELECT nextval('t_n_seq')" shop)" \
  "$(sql "SELECT convert_from(lo_get(oid), 'UTF8') FROM pg_largeobject_metadata" shop)" \
  "$(sql "SELECT d || ' ' || n FROM parts" shop)"
say "index $(sql "SET enable_seqscan = off;
  SELECT count(*) FROM t WHERE left(s, 20) COLLATE \"en-x-icu\" = repeat('7', 20)" shop)" \
  "$(sql "SELECT count(*) FROM pg_index WHERE NOT indisvalid" shop)"
say "extensions $(sql "SELECT string_agg(extname, ' ' ORDER BY extname) FROM pg_extension" shop)"
say "roles $(sql "SELECT r.rolname || ' ' || pg_has_role('app', r.oid, 'MEMBER')
  FROM pg_roles r WHERE rolname = 'pg_monitor'") $(sql "SELECT setconfig FROM pg_db_role_setting")" \
  "$(sql "SELECT string_agg(rolname, ' ' ORDER BY rolname) FROM pg_authid WHERE rolpassword IS NOT NULL")"
say "databases $(sql "SELECT
  string_agg(datname || ' ' || datdba::regrole || ' ' || datlocprovider::text, ', ' ORDER BY datname)
  FROM pg_database WHERE NOT datistemplate")"
say "subscription $(sql "SELECT subname || ' ' || subenabled FROM pg_subscription")" \
  "and publication $(sql "SELECT pubname FROM pg_publication" shop)"
say "own: $(cat /data/pgdata/zeroinfra.restored | wc -c) $(cat /data/pgdata/zeroinfra.archive | wc -c) $(ls -A /data)"
# It can be dumped like any other.
$agent postgresql dump "--programs=$(bin $to)" --facts=/tmp/facts >/tmp/dump 2>/tmp/said || { cat /tmp/said; exit 1; }
say "again: $(grep databases /tmp/facts)"
stop
`

// dumpSays is what comes of it, for the two versions and an older one that refuses it.
const dumpSays = `facts: serverVersion=%[1]s.x source=primary databases=4 names=template1,"a b'c",postgres,shop 
by hand: PGDMP 1
%[3]sversion %[2]s, checksums on
rows 3000 7625100 3000 3001 large 2025-05-05 1
index 3 0
extensions hstore pg_stat_statements plpgsql postgres_fdw
roles pg_monitor true {work_mem=8MB} app
databases a b'c postgres i, postgres postgres c, shop app c
subscription sub false and publication p
own: 17 17 pgdata
again: databases=4
`

// TestPostgreSQLDump has a server take the dump of another one of each earlier version, and an older one refuse it.
func TestPostgreSQLDump(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("another user's processes in a folder of their own are for root")
	}
	root := unpacked(t, "zeroinfra/postgresql-upgrade:18")
	readies(t, root, filepath.Join(unpacked(t, "zeroinfra/agent:0.1.0"), "agent-ops"))
	for _, path := range []struct{ from, to, older string }{{"15", "17", ""}, {"15", "18", ""}, {"17", "18", "15"},
		{"18", "18", "17"}} {
		t.Run("from "+path.from+" to "+path.to, func(t *testing.T) {
			refused := ""
			if path.older != "" {
				refused = fmt.Sprintf("older: agent-ops: the dump is of PostgreSQL %s, and this is %s, which is older \n",
					path.from, path.older)
			}
			out, err := inside(root, upgradeUser, "/bin/sh", "-c",
				fmt.Sprintf("from=%s to=%s older='%s'\n", path.from, path.to, path.older)+dumpScript)
			if want := fmt.Sprintf(dumpSays, path.from, path.to, refused); err != nil || !strings.HasSuffix(out, want) {
				t.Errorf("got %v and\n%s\nwant\n%s", err, out, want)
			}
		})
	}
}

// readies gives an image what a pod has, with the agent.
func readies(t *testing.T, root, agent string) {
	t.Helper()
	var errs []error
	for _, folder := range []string{"dev/shm", "tmp", "data", "zeroinfra", "zeroinfra/run", "zeroinfra/bin"} {
		at := filepath.Join(root, folder)
		errs = append(errs, os.MkdirAll(at, 0o755), os.Chown(at, upgradeUser, upgradeUser))
	}
	program, err := os.ReadFile(agent)
	null := filepath.Join(root, "dev/null")
	errs = append(errs, err, os.WriteFile(filepath.Join(root, "zeroinfra/bin/agent-ops"), program, 0o755),
		os.WriteFile(null, nil, 0o666), os.Chmod(null, 0o666))
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}
