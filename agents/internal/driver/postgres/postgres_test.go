// SPDX-License-Identifier: Apache-2.0

//go:build processes

package postgres_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/zeroinfra/agents/internal/driver"
	"github.com/zeroinfra/agents/internal/driver/postgres"
	"github.com/zeroinfra/agents/internal/driver/postgres/link"
	"github.com/zeroinfra/agents/internal/testpod"
	"github.com/zeroinfra/agents/internal/testpostgres"
)

// server is a real PostgreSQL with a driver for it.
type server struct {
	*testpostgres.Server
	*postgres.Driver
}

func newServer(t *testing.T, settings ...string) *server {
	t.Helper()
	s := &server{Server: testpostgres.New(t, settings...)}
	s.Driver = postgres.New(postgres.Options{Verified: &postgres.Verified{},
		Target: link.Target{Address: s.Address, Username: "postgres",
			Password: func() (string, error) { return testpostgres.Password, nil }}})
	return s
}

func (s *server) change(kind string, changes ...driver.Change) driver.Problems {
	s.Helper()
	problems, err := s.Change(s.Context(), kind, changes)
	if err != nil {
		s.Fatal(err)
	}
	return problems
}

// must changes without a problem.
func (s *server) must(kind string, changes ...driver.Change) {
	s.Helper()
	if problems := s.change(kind, changes...); len(problems) > 0 {
		s.Fatal(problems)
	}
}

func (s *server) observe(kind string, queries ...driver.Query) map[string]driver.State {
	s.Helper()
	states, err := s.Observe(s.Context(), kind, queries)
	if err != nil {
		s.Fatal(err)
	}
	all := map[string]driver.State{}
	for _, state := range states {
		all[state.Name] = state
	}
	return all
}

func named(name string) driver.Query { return driver.Query{Name: name} }

// wanted is an object with parameters, given in pairs.
func wanted(intent driver.Intent, name string, pairs ...string) driver.Change {
	change := driver.Change{Query: named(name), Intent: intent, Parameters: map[string]string{}}
	for i := 0; i < len(pairs); i += 2 {
		change.Parameters[pairs[i]] = pairs[i+1]
	}
	return change
}

func withPassword(change driver.Change, password string) driver.Change {
	change.Password = password
	return change
}

var person = []string{"login", "yes", "inherit", "yes", "attributes", "createdb", "connection-limit", "7",
	"valid-until", "2099-01-31T12:00:00Z", "member-of", "readers"}

func TestRoleIsWhatItsParametersSay(t *testing.T) {
	s := newServer(t)
	s.Start()
	s.must(postgres.KindRole, wanted(driver.Create, "readers", "login", "no"),
		withPassword(wanted(driver.Create, `Al"ice`, person...), "secret1"))
	query := driver.Query{Name: `Al"ice`, Password: "secret1"}
	got := s.observe(postgres.KindRole, query, named("nobody"))
	if len(got) != 1 || got[query.Name].Password != driver.SamePassword ||
		!maps.Equal(got[query.Name].Parameters, wanted("", "", person...).Parameters) {
		t.Fatalf("got %+v", got)
	}
	if said := s.As(`Al"ice`, "secret1", "postgres", "SELECT current_user"); said != `Al"ice` {
		t.Errorf("it logs in as %q", said)
	}
	// The password is rotated, and what is not asked for any more goes.
	s.must(postgres.KindRole, withPassword(wanted(driver.Update, query.Name, "login", "yes"), "secret2"))
	said := s.As(query.Name, "secret1", "postgres", "SELECT 1")
	if !strings.Contains(said, "password authentication failed") {
		t.Errorf("the old password still does: %s", said)
	}
	got = s.observe(postgres.KindRole, query)
	state := got[query.Name]
	if state.Password != driver.OtherPassword || state.Parameters["member-of"] != "" ||
		state.Parameters["attributes"] != "" || state.Parameters["connection-limit"] != "-1" ||
		state.Parameters["valid-until"] != "" {
		t.Errorf("got %+v", state)
	}
	// Nobody asks for a password any more, and for something else: whoever logs in goes on to.
	s.must(postgres.KindRole, wanted(driver.Update, query.Name, "login", "yes", "connection-limit", "7"))
	if said := s.As(query.Name, "secret2", "postgres", "SELECT current_user"); said != query.Name {
		t.Errorf("it logs in as %q", said)
	}
	for _, secret := range []string{"secret1", "secret2"} {
		if strings.Contains(s.Said(), secret) {
			t.Errorf("the log has %s", secret)
		}
	}
	s.must(postgres.KindRole, wanted(driver.Delete, query.Name), wanted(driver.Delete, "nobody"))
	if got := s.observe(postgres.KindRole, query); len(got) > 0 {
		t.Errorf("it is still there: %+v", got)
	}
}

func TestChangesOfRolesByHandAreSeenAndUndone(t *testing.T) {
	s := newServer(t)
	s.Start()
	query := driver.Query{Name: "alice", Password: "secret"}
	s.must(postgres.KindRole, wanted(driver.Create, "readers"), wanted(driver.Create, "writers"),
		withPassword(wanted(driver.Create, "alice", person...), "secret"))
	before := fmt.Sprint(s.observe(postgres.KindRole, query))
	for what, statement := range map[string]string{
		"superuser": "ALTER ROLE alice SUPERUSER", "createrole": "ALTER ROLE alice CREATEROLE",
		"replication": "ALTER ROLE alice REPLICATION", "no login": "ALTER ROLE alice NOLOGIN",
		"another password": "ALTER ROLE alice PASSWORD 'guess'", "no password": "ALTER ROLE alice PASSWORD NULL",
		"a group": "GRANT writers TO alice", "no group": "REVOKE readers FROM alice",
		"admin": "GRANT readers TO alice WITH ADMIN OPTION", "for ever": "ALTER ROLE alice VALID UNTIL 'infinity'",
		"inherit": "ALTER ROLE alice NOINHERIT", "connections": "ALTER ROLE alice CONNECTION LIMIT 0",
		"md5": "SET password_encryption = 'md5'; ALTER ROLE alice PASSWORD 'secret'",
	} {
		s.SQL("postgres", statement)
		if after := fmt.Sprint(s.observe(postgres.KindRole, query)); after == before {
			t.Errorf("%s is not seen", what)
		}
		s.must(postgres.KindRole, withPassword(wanted(driver.Update, "alice", person...), "secret"))
		if after := fmt.Sprint(s.observe(postgres.KindRole, query)); after != before {
			t.Errorf("%s is not undone: got %s, want %s", what, after, before)
		}
	}
}

func TestDatabasesExtensionsAndGrants(t *testing.T) {
	s := newServer(t)
	s.Start()
	s.must(postgres.KindRole, withPassword(wanted(driver.Create, "app", "login", "yes"), "secret"),
		withPassword(wanted(driver.Create, "reader", "login", "yes"), "secret"))
	s.must(postgres.KindDatabase, wanted(driver.Create, "shop", "owner", "app", "encoding", "UTF8", "locale", "C.UTF-8",
		"connection-limit", "20"))
	got := fmt.Sprint(s.observe(postgres.KindDatabase, named("shop"), named("none"))["shop"].Parameters)
	if got != "map[connection-limit:20 encoding:UTF8 locale:C.UTF-8 owner:app]" {
		t.Errorf("got %s", got)
	}
	s.must(postgres.KindDatabase, wanted(driver.Update, "shop", "owner", "reader", "locale", "C.UTF-8"))
	shop := s.observe(postgres.KindDatabase, named("shop"))["shop"]
	if got := fmt.Sprint(shop.Parameters); got != "map[connection-limit:-1 encoding:UTF8 locale:C.UTF-8 owner:reader]" {
		t.Errorf("got %s", got)
	}
	s.must(postgres.KindDatabase, wanted(driver.Update, "shop", "owner", "app"))

	s.must(postgres.KindExtension, wanted(driver.Create, "shop/hstore", "version", "1.7"))
	if got := fmt.Sprint(s.observe(postgres.KindExtension, named("shop/hstore"), named("shop/citext"),
		named("none/hstore"))); got != "map[shop/hstore:{shop/hstore map[schema:public version:1.7] map[]  Same}]" {
		t.Errorf("got %s", got)
	}
	s.must(postgres.KindExtension, wanted(driver.Update, "shop/hstore", "version", "1.8"))
	if got := s.SQL("shop", "SELECT extversion FROM pg_extension WHERE extname = 'hstore'"); got != "1.8" {
		t.Errorf("it is version %s", got)
	}

	s.SQL("shop", "CREATE TABLE public.goods (id int); INSERT INTO public.goods VALUES (1)")
	if said := s.As("reader", "secret", "shop", "SELECT id FROM goods"); !strings.Contains(said, "permission denied") {
		t.Errorf("without a grant: %s", said)
	}
	grants := []driver.Change{wanted(driver.Create, "reader/shop", "privileges", "CONNECT"),
		wanted(driver.Create, "reader/shop/public", "privileges", "USAGE"),
		wanted(driver.Create, "reader/shop/public/goods", "privileges", "INSERT SELECT")}
	s.must(postgres.KindGrant, grants...)
	all := []driver.Query{named("reader/shop"), named("reader/shop/public"), named("reader/shop/public/goods"),
		named("reader/shop/public/bads")}
	before := fmt.Sprint(s.observe(postgres.KindGrant, all...))
	if want := "map[reader/shop:{reader/shop map[privileges:CONNECT] map[]  Same} " +
		"reader/shop/public:{reader/shop/public map[privileges:USAGE] map[]  Same} " +
		"reader/shop/public/goods:{reader/shop/public/goods map[privileges:INSERT SELECT] map[]  Same}]"; before != want {
		t.Errorf("got %s, want %s", before, want)
	}
	if said := s.As("reader", "secret", "shop", "SELECT id FROM goods"); said != "1" {
		t.Errorf("with a grant: %s", said)
	}
	s.SQL("shop", "GRANT UPDATE ON goods TO reader WITH GRANT OPTION")
	if after := fmt.Sprint(s.observe(postgres.KindGrant, all...)); !strings.Contains(after, "UPDATE*") {
		t.Errorf("what somebody granted is not seen: %s", after)
	}
	s.must(postgres.KindGrant, grants...)
	if after := fmt.Sprint(s.observe(postgres.KindGrant, all...)); after != before {
		t.Errorf("it is not undone: %s", after)
	}
	s.must(postgres.KindGrant, wanted(driver.Delete, "reader/shop/public/goods"),
		wanted(driver.Delete, "reader/shop/public/bads"), wanted(driver.Delete, "reader/none"))
	if said := s.As("reader", "secret", "shop", "SELECT id FROM goods"); !strings.Contains(said, "permission denied") {
		t.Errorf("after the grant: %s", said)
	}

	s.must(postgres.KindExtension, wanted(driver.Delete, "shop/hstore"), wanted(driver.Delete, "none/hstore"))
	s.must(postgres.KindDatabase, wanted(driver.Delete, "shop"), wanted(driver.Delete, "none"))
	if got := s.observe(postgres.KindDatabase, named("shop")); len(got) > 0 {
		t.Errorf("it is still there: %v", got)
	}
}

func TestRefusalsAreOfOneObject(t *testing.T) {
	s := newServer(t)
	s.Start()
	s.must(postgres.KindRole, wanted(driver.Create, "there"))
	s.must(postgres.KindDatabase, wanted(driver.Create, "shop"))
	s.must(postgres.KindExtension, wanted(driver.Create, "shop/hstore"))
	s.SQL("shop", "CREATE TABLE public.t (h hstore); ALTER TABLE public.t OWNER TO there")
	create := driver.Create
	for kind, cases := range map[string]map[string]driver.Change{
		postgres.KindRole: {
			"the instance's own": wanted(create, "postgres"), "PostgreSQL's own": wanted(create, "pg_monitor"),
			"must be yes or no":                               wanted(create, "a1", "login", "true"),
			`cannot be given "superuser"`:                     wanted(create, "a2", "attributes", "superuser"),
			"must be createdb or bypassrls":                   wanted(create, "a3", "attributes", "nonsense"),
			"cannot be a member of":                           wanted(create, "a4", "member-of", "pg_execute_server_program"),
			`role "none" does not exist`:                      wanted(create, "a5", "member-of", "none"),
			`"zeroinfra_pooler": it would be past the engine`: wanted(create, "b1", "member-of", "pg_monitor zeroinfra_pooler"),
			"whole number":                                    wanted(create, "a6", "connection-limit", "many"),
			"must be a time in UTC":                           wanted(create, "a7", "valid-until", "tomorrow'"),
			"printable ones of ASCII":                         withPassword(wanted(create, "a8"), "pässword"),
			"is not known":                                    wanted(create, "a9", "superuser", "yes"),
			"some objects depend on it":                       wanted(driver.Delete, "there"),
		},
		postgres.KindDatabase: {
			"PostgreSQL's own": wanted(create, "template1"), `role "none" does not exist`: wanted(create, "d1", "owner", "none"),
			"encoding":                      wanted(create, "d2", "encoding", "x'; DROP ROLE there"),
			"cannot change once it is made": wanted(driver.Update, "shop", "encoding", "LATIN1"),
		},
		postgres.KindExtension: {
			"is not available": wanted(create, "shop/nonsense"), "must be <database>/<extension>": wanted(create, "shop/"),
			`there is no database "none"`: wanted(create, "none/hstore"),
			"objects depend on it":        wanted(driver.Delete, "shop/hstore"),
		},
		postgres.KindGrant: {
			"for everybody":                         wanted(create, "public/shop", "privileges", "CONNECT"),
			"is no name of a grant":                 wanted(create, "there", "privileges", "CONNECT"),
			"nothing of it is granted":              wanted(create, "there/shop/pg_catalog/pg_authid", "privileges", "SELECT"),
			"is empty":                              wanted(create, "there/shop"),
			"on a schema there is CREATE, USAGE":    wanted(create, "there/shop/public", "privileges", "SELECT"),
			`relation "public.none" does not exist`: wanted(create, "there/shop/public/none", "privileges", "SELECT"),
			"PostgreSQL's own":                      wanted(create, "pg_monitor/shop", "privileges", "CREATE"),
		},
	} {
		problems := s.change(kind, slices.Collect(maps.Values(cases))...)
		for says, change := range cases {
			if !strings.Contains(problems[change.Name], says) {
				t.Errorf("%s %q: got %q, want %q", kind, change.Name, problems[change.Name], says)
			}
		}
	}
	// The rest of a change that is refused in part is not made, and nobody else's is touched.
	if got := s.observe(postgres.KindRole, named("a5"), named("there")); len(got) != 1 {
		t.Errorf("got %v", got)
	}
}

// TestADatabaseThatLetsNobodyIn holds up nothing but what is in it.
func TestADatabaseThatLetsNobodyIn(t *testing.T) {
	s := newServer(t)
	s.Start()
	s.SQL("postgres", "CREATE DATABASE open")
	s.SQL("postgres", "CREATE DATABASE closed WITH ALLOW_CONNECTIONS false")
	s.must(postgres.KindExtension, wanted(driver.Create, "open/hstore"))
	if got := s.observe(postgres.KindExtension, named("open/hstore"), named("closed/hstore")); len(got) != 1 ||
		got["open/hstore"].Name == "" {
		t.Errorf("got %v", got)
	}
	problems := s.change(postgres.KindExtension, wanted(driver.Create, "open/citext"),
		wanted(driver.Create, "closed/hstore"))
	if len(problems) != 1 || !strings.Contains(problems["closed/hstore"], "set ALLOW_CONNECTIONS true") {
		t.Errorf("got %v", problems)
	}
}

func TestManyRolesInOneCall(t *testing.T) {
	s := newServer(t)
	s.Start()
	var changes []driver.Change
	var queries []driver.Query
	for i := range 1000 {
		changes = append(changes, withPassword(wanted(driver.Create, fmt.Sprintf("user-%d", i), "login", "yes"), "secret"))
		queries = append(queries, changes[i].Query)
	}
	begin := time.Now()
	s.must(postgres.KindRole, changes...)
	changed := time.Since(begin)
	if got := s.observe(postgres.KindRole, queries...); len(got) != 1000 {
		t.Errorf("%d are there", len(got))
	}
	observed := time.Since(begin) - changed
	begin = time.Now()
	for name, state := range s.observe(postgres.KindRole, queries...) {
		if state.Password != driver.SamePassword {
			t.Errorf("%s has another password", name)
		}
	}
	t.Logf("1000 roles: changed in %v, observed in %v, and again in %v", changed, observed, time.Since(begin))
}

// TestOutOfConnections: a server whose connections clients have is told apart from one that does not answer.
func TestOutOfConnections(t *testing.T) {
	s := newServer(t, "max_connections = 5", "superuser_reserved_connections = 1")
	stop, _ := s.Start()
	var sessions []*pgconn.PgConn
	testpod.Eventually(t, func() error {
		session, err := pgconn.Connect(t.Context(), "postgres://postgres:"+testpostgres.Password+"@"+s.Address+"/postgres")
		if err != nil {
			return nil
		}
		sessions = append(sessions, session)
		return fmt.Errorf("%d sessions do not take all connections", len(sessions))
	})
	observe := func() error {
		_, err := s.Observe(t.Context(), postgres.KindRole, []driver.Query{{Name: "app"}})
		return err
	}
	full := (*driver.OutOfConnections)(nil)
	err := observe()
	if !errors.As(err, &full) || !strings.Contains(err.Error(), "too many clients") {
		t.Errorf("got %v", err)
	}
	stop()
	if err := observe(); err == nil || errors.As(err, &full) {
		t.Errorf("without a server: got %v", err)
	}
}
