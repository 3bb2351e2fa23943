// SPDX-License-Identifier: Apache-2.0

//go:build processes

package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/zeroinfra/agents/internal/driver/postgres/wal"
)

// strange is a name that a shell, an address of libpq or a statement could trip over.
const strange = `a b'c"d=x $PATH \é`

// in runs a statement in a database.
func (n *node) in(database, statement string) string {
	n.Helper()
	out, err := n.as("", "", database, statement)
	if err != nil {
		n.Fatalf("%s: %s in %s: %v: %s\n%s", n.pod, statement, database, err, out, n.said())
	}
	return out
}

// as runs a statement as another user, over the network, or as the superuser, who needs no password.
func (n *node) as(user, password, database, statement string) (string, error) {
	cmd := exec.Command(filepath.Join(n.programs, "psql"), "-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-c",
		statement)
	cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + n.root, "PGCONNECT_TIMEOUT=5", "PGHOST=" + n.path("run"),
		"PGUSER=postgres", "PGDATABASE=" + database}
	if user != "" {
		cmd.Env = append(cmd.Env, "PGHOST="+n.address, "PGUSER="+user, "PGPASSWORD="+password)
	}
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// dumped is the dump of a server, as a mover of the plugin makes it: over the network and with the password. It returns
// what is told of it.
func (n *node) dumped(file string) (facts map[string]string) {
	n.Helper()
	out, err := os.Create(file)
	if err != nil {
		n.Fatal(err)
	}
	defer out.Close()
	cmd := n.command("dump", "--facts", n.path("facts"))
	cmd.Env = append(cmd.Env, "PGHOST="+n.address, "PGUSER=postgres", "PGPASSWORD=boss", "PGSSLMODE=disable",
		"PGSSLROOTCERT=/zeroinfra/certs/ca.crt")
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = out, &said
	if err := cmd.Run(); err != nil {
		n.Fatalf("dump: %v: %s", err, said.String())
	}
	facts = map[string]string{}
	for line := range strings.Lines(string(must(os.ReadFile(n.path("facts"))))) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		facts[key] = value
	}
	return facts
}

// loaded makes the volume of another pod with what a dump has. It says what was said, and the exit code.
func (f *flock) loaded(ordinal int, dump io.Reader) (n *node, said string, code int) {
	f.Helper()
	members := f.nodes
	f.add(10 + ordinal)
	n = f.nodes[len(f.nodes)-1]
	f.nodes = members
	cmd := n.command("load", "--data", n.path("data/pgdata"), "--work", n.path("data/.load"))
	if f.keptFrom != "" {
		cmd.Args = append(cmd.Args, "--kept-from", f.keptFrom)
		// Beside that nothing new can be made.
		cmd.Env = append(cmd.Env, "TMPDIR="+n.path("run"))
	}
	cmd.Stdin = dump
	out, err := cmd.CombinedOutput()
	if exited := (*exec.ExitError)(nil); errors.As(err, &exited) {
		code = exited.ExitCode()
	} else if err != nil {
		f.Fatal(err)
	}
	if has(n.path("data/.load")) {
		f.Errorf("load leaves its folder: %s", out)
	}
	return n, string(out), code
}

// takes has a dump be loaded, and the server serve it as one that begins: with passwords of its own.
func (f *flock) takes(ordinal int, file string) *node {
	f.Helper()
	dump, err := os.Open(file)
	if err != nil {
		f.Fatal(err)
	}
	defer dump.Close()
	n, said, code := f.loaded(ordinal, dump)
	if code != 0 {
		f.Fatalf("load ends with %d: %s", code, said)
	}
	for _, verifier := range []string{"SCRAM-SHA-256$", "PASSWORD"} {
		if strings.Contains(said, verifier) {
			f.Errorf("it tells what the server keeps of passwords: %s", said)
		}
	}
	n.secret("superuser", "other boss", "7")
	n.secret("pooler", "other pool", "7")
	n.start()
	n.answers()
	return n
}

// content is what source and target of a dump have to have in common, by database: statements that give lines.
var content = map[string][]string{
	"postgres": {
		"SELECT rolname || ' ' || rolsuper || rolcreatedb || rolcanlogin || rolinherit || rolbypassrls || rolconnlimit || " +
			"coalesce(rolvaliduntil::text, '') FROM pg_roles WHERE rolname !~ '^pg_'",
		"SELECT roleid::regrole || ' to ' || member::regrole || admin_option FROM pg_auth_members",
		"SELECT coalesce(datname, '') || ' ' || setrole::regrole || setconfig::text FROM pg_db_role_setting s LEFT JOIN " +
			"pg_database d ON d.oid = setdatabase",
		"SELECT rolname || ' ' || rolpassword FROM pg_authid WHERE rolpassword IS NOT NULL AND rolname !~ " +
			"'^(postgres|zeroinfra_.*)$'",
		"SELECT shobj_description(oid, 'pg_authid') FROM pg_roles WHERE rolname = 'app'",
		"SELECT datname || ' ' || datdba::regrole || pg_encoding_to_char(encoding) || datcollate || datistemplate || " +
			"datconnlimit FROM pg_database WHERE datname <> 'template0'",
		"SELECT datname || ' ' || unnest(datacl) FROM pg_database WHERE datname <> 'template0'",
		"SELECT 'rows ' || count(*) FROM t",
		"SELECT p.oid::regprocedure || ' ' || unnest(proacl) FROM pg_proc p WHERE proname IN ('pg_ls_dir', 'pg_read_file', " +
			"'pooler_user')",
	},
	"shop": {
		"SELECT count(*) || md5(string_agg(n || s, ',' ORDER BY n)) FROM kept",
		"SELECT last_value || ',' || is_called FROM kept_n_seq",
		"SELECT extname::text FROM pg_extension",
		"SELECT ('a=>1'::hstore -> 'a') || convert_from(lo_get(oid), 'UTF8') || lomowner::regrole || lomacl::text FROM " +
			"pg_largeobject_metadata",
		"SELECT relname || ' ' || relkind::text || relowner::regrole || relrowsecurity FROM pg_class WHERE relnamespace = " +
			"'public'::regnamespace",
		"SELECT attname || ' ' || unnest(attacl) FROM pg_attribute WHERE attrelid = 'kept'::regclass",
		"SELECT pg_get_indexdef(indexrelid) FROM pg_index WHERE indrelid = 'kept'::regclass",
		"SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal",
		"SELECT sum(n)::text FROM squares",
		"SELECT defaclrole::regrole || ' ' || unnest(defaclacl) FROM pg_default_acl",
	},
	strange: {`SELECT "ü b" FROM "T=1"`},
}

// lines that a statement gives, in order.
func (n *node) lines(database, statement string) string {
	n.Helper()
	lines := strings.Split(n.in(database, statement), "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// fills a server with what a dump could lose.
func (n *node) fills() {
	n.Helper()
	for _, statement := range []string{
		`CREATE ROLE app LOGIN PASSWORD 'it''s' CONNECTION LIMIT 7 VALID UNTIL '2099-01-01'`,
		`CREATE ROLE "Read-er 1" NOINHERIT BYPASSRLS`, `CREATE ROLE dba SUPERUSER`,
		"COMMENT ON ROLE app IS E'it''s;\\n-- none\\nCREATE ROLE postgres;\\n\\\\restrict x'",
		`ALTER ROLE app SET work_mem = '8MB'`, `GRANT app TO "Read-er 1" WITH ADMIN OPTION`,
		`SET ROLE dba; GRANT pg_monitor TO app`, `CREATE DATABASE shop OWNER app CONNECTION LIMIT 9`,
		`ALTER ROLE app IN DATABASE shop SET lock_timeout = '1s'`, `ALTER ROLE postgres SET statement_timeout = '1h'`,
		`REVOKE CONNECT ON DATABASE postgres FROM PUBLIC`, `GRANT CONNECT ON DATABASE postgres TO app`,
		`CREATE DATABASE "` + strings.ReplaceAll(strange, `"`, `""`) + `"`, `ALTER SYSTEM SET work_mem = '5MB'`,
	} {
		n.sql(statement)
	}
	for _, statement := range []string{
		`CREATE EXTENSION hstore; CREATE EXTENSION pg_trgm`,
		`CREATE TABLE kept (n serial PRIMARY KEY, s text); INSERT INTO kept (s) SELECT repeat(md5(i::text), 4) FROM ` +
			`generate_series(1, 80000) i; ALTER TABLE kept OWNER TO app; SELECT setval('kept_n_seq', 424242)`,
		`GRANT SELECT (s) ON kept TO "Read-er 1"; ALTER TABLE kept ENABLE ROW LEVEL SECURITY; CREATE POLICY own ON kept ` +
			`USING (n > 0)`,
		`CREATE FUNCTION square(x int) RETURNS bigint LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN x::bigint * x; END $$; ` +
			`CREATE INDEX ON kept (square(n)); CREATE INDEX ON kept USING gin (s gin_trgm_ops)`,
		`CREATE TABLE numbers (n int CHECK (square(n) > 0)); INSERT INTO numbers VALUES (3), (4); CREATE MATERIALIZED VIEW ` +
			`squares AS SELECT square(n) AS n FROM numbers`,
		`CREATE FUNCTION stop() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no row is made'; END $$; ` +
			`CREATE TRIGGER stops BEFORE INSERT ON numbers FOR EACH ROW EXECUTE FUNCTION stop()`,
		`SELECT lo_from_bytea(0, 'large'); ALTER DEFAULT PRIVILEGES FOR ROLE app GRANT SELECT ON TABLES TO "Read-er 1"`,
		`DO $$ BEGIN EXECUTE format('ALTER LARGE OBJECT %s OWNER TO app', (SELECT oid FROM pg_largeobject_metadata)); ` +
			`EXECUTE format('GRANT SELECT ON LARGE OBJECT %s TO "Read-er 1"', ` +
			`(SELECT oid FROM pg_largeobject_metadata)); END $$`,
		`CREATE UNLOGGED TABLE passing AS SELECT 1 AS n`,
	} {
		n.in("shop", statement)
	}
	n.sql("ALTER DATABASE shop SET default_transaction_read_only = on")
	n.in(strange, `CREATE TABLE "T=1" ("ü b" text); INSERT INTO "T=1" VALUES (E'a\tb\n\\.'), ('é')`)
}

// TestDumpOfPostgreSQL: what is in a server is in another one afterwards, but for the passwords of the platform's own
// roles, which are that one's.
func TestDumpOfPostgreSQL(t *testing.T) {
	t.Parallel()
	f := newFlock(t, 2)
	a, others := f.begin(1)
	a.fills()
	want := map[string][]string{}
	for database, statements := range content {
		for _, statement := range statements {
			want[database] = append(want[database], a.lines(database, statement))
		}
	}
	file := filepath.Join(f.root, "dump")
	facts := a.dumped(file)
	if facts["source"] != "primary" || facts["databases"] != "4" ||
		!strings.HasPrefix(facts["serverVersion"], a.sql("SHOW server_version_num")[:2]+".") ||
		!strings.HasPrefix(facts["names"], `template1,"a b'c\"d=x $PATH`) ||
		!strings.HasSuffix(facts["names"], "postgres,shop") {
		t.Errorf("what is told is %q", facts)
	}
	n := f.takes(0, file)
	for database, statements := range content {
		for i, statement := range statements {
			if got := n.lines(database, statement); got != want[database][i] || got == "" {
				t.Errorf("%s in %s gives %q, and gave %q", statement, database, got, want[database][i])
			}
		}
	}
	n.servesAsItsOwn(a)
	// A replica has all but what it never gets.
	if facts := others[0].dumped(file); facts["source"] != "replica" {
		t.Errorf("what is told of a replica is %q", facts)
	}
	n = f.takes(1, file)
	for i, statement := range content["shop"] {
		if got := n.lines("shop", statement); got != want["shop"][i] && !strings.Contains(statement, "last_value") {
			t.Errorf("of a replica: %s gives %q, and gave %q", statement, got, want["shop"][i])
		}
	}
	if got := n.in("shop", "SELECT count(*) FROM passing"); got != "0" {
		t.Errorf("of a replica there are %s rows of an unlogged table", got)
	}
}

// servesAsItsOwn: it is another server than the one that was dumped.
func (n *node) servesAsItsOwn(source *node) {
	n.Helper()
	for _, login := range []struct {
		user, password string
		let            bool
	}{{"postgres", "other boss", true}, {"postgres", "boss", false}, {"app", "it's", true},
		{"zeroinfra_replication", "fol:low", true}, {"zeroinfra_pooler", "other pool", true},
		{"zeroinfra_pooler", "swim", false}} {
		out, err := n.as(login.user, login.password, "template1", "SELECT current_user")
		if (out == login.user) != login.let || (err == nil) != login.let {
			n.Errorf("%s with %q: %v: %s", login.user, login.password, err, out)
		}
	}
	const system = "SELECT system_identifier FROM pg_control_system()"
	if n.sql(system) == source.sql(system) {
		n.Error("it has the number of the server before")
	}
	const state = "SELECT current_setting('data_checksums') || current_setting('work_mem') || pg_is_in_recovery()"
	if got := n.sql(state); got != "on4MBfalse" {
		n.Errorf("it has %s", got)
	}
	if got := n.in("shop", "SELECT reltuples > 0 FROM pg_class WHERE relname = 'kept'"); got != "t" {
		n.Error("it does not know what its tables hold")
	}
	if !has(n.path("data/pgdata/"+wal.RestoredFile)) || !has(n.path("data/pgdata/"+wal.ArchiveFile)) {
		n.Error("its archive is that of any other server")
	}
	if got, err := n.as("app", "it's", "shop",
		"SET transaction_read_only = off; INSERT INTO kept (s) VALUES ('new') RETURNING n"); err != nil || got != "424243" {
		n.Errorf("a new row is %s, %v", got, err)
	}
}

// TestDumpWhileRolesComeAndGo: what is in the dump of a database is of roles that are in the dump, whoever comes and
// goes meanwhile.
func TestDumpWhileRolesComeAndGo(t *testing.T) {
	t.Parallel()
	f := newFlock(t, 1)
	a, _ := f.begin(0)
	a.sql("CREATE DATABASE shop")
	a.in("shop", "CREATE TABLE kept AS SELECT generate_series(1, 200000) AS n")
	stop := make(chan struct{})
	var ended sync.WaitGroup
	for what, change := range map[string]func(r string) []string{
		"roles that come with a table": func(r string) []string {
			return []string{fmt.Sprintf("CREATE ROLE %[1]s; CREATE TABLE %[1]s (n int); ALTER TABLE %[1]s OWNER TO %[1]s", r)}
		},
		"roles that go": func(r string) []string {
			return []string{fmt.Sprintf("CREATE ROLE %[1]s; GRANT SELECT ON kept TO %[1]s; SELECT pg_sleep(4)", r),
				fmt.Sprintf("REVOKE SELECT ON kept FROM %[1]s; DROP ROLE %[1]s", r)}
		},
		"tables that go": func(r string) []string {
			return []string{fmt.Sprintf("CREATE TABLE %s (n int)", r), "SELECT pg_sleep(4)", "DROP TABLE " + r}
		},
		"databases": func(r string) []string {
			return []string{"CREATE DATABASE " + r, "SELECT pg_sleep(0.5)", "DROP DATABASE " + r}
		},
	} {
		ended.Go(func() {
			for k := 0; ; k++ {
				for _, statement := range change(fmt.Sprintf("%s_%d", strings.ReplaceAll(what, " ", "_"), k)) {
					select {
					case <-stop:
						return
					default:
					}
					// Nobody makes a database while somebody is in the one that it is made after.
					_, _ = a.as("", "", "shop", statement)
				}
			}
		})
	}
	for i := range 3 {
		file := filepath.Join(f.root, fmt.Sprint("dump", i))
		a.dumped(file)
		n := f.takes(i, file)
		if got := n.in("shop", "SELECT count(*) FROM kept"); got != "200000" {
			t.Errorf("there are %s rows", got)
		}
		n.signal(syscall.SIGKILL)
	}
	close(stop)
	ended.Wait()
}

// without is a dump without some of its files, or with others in their place.
func without(t *testing.T, file string, change func(name string, content []byte) (string, []byte)) *bytes.Reader {
	t.Helper()
	var changed bytes.Buffer
	to := tar.NewWriter(&changed)
	from := tar.NewReader(bytes.NewReader(must(os.ReadFile(file))))
	for {
		h, err := from.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		name, content := change(h.Name, must(io.ReadAll(from)))
		if name == "" {
			continue
		}
		h.Name, h.Size = name, int64(len(content))
		if err := errors.Join(to.WriteHeader(h), second(to.Write(content))); err != nil {
			t.Fatal(err)
		}
	}
	if err := to.Close(); err != nil {
		t.Fatal(err)
	}
	return bytes.NewReader(changed.Bytes())
}

func second[T any](_ T, err error) error { return err }

// TestBadDumps: what is no whole dump, or cannot be loaded to its end, is no data.
func TestBadDumps(t *testing.T) {
	t.Parallel()
	f := newFlock(t, 1)
	a, _ := f.begin(0)
	a.sql("CREATE DATABASE shop")
	a.in("shop", "CREATE TABLE kept AS SELECT n, repeat('x', 100) AS s FROM generate_series(1, 100000) n")
	file := filepath.Join(f.root, "dump")
	a.dumped(file)
	drop := func(part string) *bytes.Reader {
		return without(t, file, func(name string, content []byte) (string, []byte) {
			if strings.Contains(name, part) {
				return "", nil
			}
			return name, content
		})
	}
	replace := func(part, old, new string) *bytes.Reader {
		return without(t, file, func(name string, content []byte) (string, []byte) {
			if strings.Contains(name, part) {
				content = bytes.Replace(content, []byte(old), []byte(new), 1)
			}
			return name, content
		})
	}
	whole := must(os.ReadFile(file))
	// It is not to be restored, and says so when it is: the rows are not what the table takes.
	a.in("shop", "CREATE FUNCTION small(n int) RETURNS bool LANGUAGE sql AS 'SELECT n < 1000000'; ALTER TABLE kept ADD "+
		"CHECK (small(n)); CREATE OR REPLACE FUNCTION small(n int) RETURNS bool LANGUAGE sql AS 'SELECT n < 1000'")
	bad := filepath.Join(f.root, "bad")
	a.dumped(bad)
	i := 0
	for name, tc := range map[string]struct {
		dump io.Reader
		says string
	}{
		"nothing":          {strings.NewReader(""), "EOF"},
		"something else":   {strings.NewReader(strings.Repeat("PGDMP", 1000)), "the dump cannot be read"},
		"half of it":       {bytes.NewReader(whole[:len(whole)/2]), "cannot be read: unexpected EOF"},
		"no end":           {drop("whole.json"), "the dump is incomplete"},
		"no first piece":   {drop("/database/000001"), "goes on with piece 2 after piece 0"},
		"no second piece":  {drop("/database/000002"), "goes on with piece 3 after piece 1"},
		"no last database": {drop("0003/database"), "and was to have"},
		"a later version":  {replace("dump.json", `"version":"1`, `"version":"21`), "which is older"},
		"a later format":   {replace("dump.json", `"format":1`, `"format":2`), "use a newer operator"},
		"another statement": {replace("globals.sql", "CREATE ROLE zeroinfra_pooler;",
			"CREATE ROLE zeroinfra_pooler IN ROLE nobody;"), `role "nobody" does not exist`},
		"rows that fail": {bytes.NewReader(must(os.ReadFile(bad))), `pg_restore of database "shop"`},
	} {
		n, said, code := f.loaded(i, tc.dump)
		if i++; code == 0 || !strings.Contains(said, tc.says) {
			t.Errorf("%s: load ends with %d: %s", name, code, said)
		}
		if has(n.path("data/pgdata/postmaster.pid")) {
			t.Errorf("%s: a server is left", name)
		}
		if err := os.RemoveAll(n.root); err != nil {
			t.Fatal(err)
		}
	}
}

// TestClosedDatabaseIsNoDump: a database that lets nobody in cannot be read, and a dump without it is none.
func TestClosedDatabaseIsNoDump(t *testing.T) {
	t.Parallel()
	f := newFlock(t, 1)
	a, _ := f.begin(0)
	a.sql("CREATE DATABASE shut ALLOW_CONNECTIONS false")
	cmd := a.command("dump", "--facts", a.path("facts"))
	cmd.Env = append(cmd.Env, "PGHOST="+a.path("run"), "PGUSER=postgres")
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err == nil || !strings.Contains(said.String(), `the database "shut" lets nobody in`) || len(out) > 0 ||
		has(a.path("facts")) {
		t.Errorf("it ends with %v, after %d bytes: %s", err, len(out), said.String())
	}
}

// TestDumpIsKeptFromWhatTheMoverHas: a function of somebody who owns a table runs as the superuser while the table is
// loaded, and reads nothing of the mover's.
func TestDumpIsKeptFromWhatTheMoverHas(t *testing.T) {
	t.Parallel()
	f := newFlock(t, 1)
	a, _ := f.begin(0)
	secret := filepath.Join(f.root, "keys", "secretKey")
	err := errors.Join(os.Mkdir(filepath.Dir(secret), 0o755), os.WriteFile(secret, []byte("hunter2"), 0o644))
	if err != nil {
		t.Fatal(err)
	}
	a.sql("CREATE DATABASE shop")
	a.in("shop", fmt.Sprintf(`CREATE FUNCTION curious(n int) RETURNS bool LANGUAGE plpgsql AS $$ DECLARE found text; BEGIN
		IF current_setting('listen_addresses') <> '' THEN RETURN true; END IF;
		BEGIN found := pg_read_file('%[1]s'); EXCEPTION WHEN OTHERS THEN found := SQLERRM; END;
		INSERT INTO public.seen VALUES (found);
		COPY public.seen FROM PROGRAM 'cat %[1]s 2>&1 || true';
		RETURN true; END $$;
		CREATE TABLE seen (s text); CREATE TABLE t (n int CHECK (curious(n))); INSERT INTO t VALUES (1)`, secret))
	file := filepath.Join(f.root, "dump")
	a.dumped(file)
	f.keptFrom = filepath.Dir(secret)
	n := f.takes(0, file)
	if got := n.in("shop", "SELECT string_agg(s, ',') FROM seen"); strings.Count(got, "ermission denied") != 2 ||
		strings.Contains(got, "hunter2") {
		t.Errorf("it has seen %q", got)
	}
}
