// SPDX-License-Identifier: Apache-2.0

//go:build processes

package mysql_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zeroinfra/agents/internal/driver"
	"github.com/zeroinfra/agents/internal/driver/mysql"
	"github.com/zeroinfra/agents/internal/testmysql"
)

// started is a server that answers, and the driver of its account root.
type started struct {
	*testmysql.Server
	driver *mysql.Driver
}

func start(t *testing.T, options ...string) *started {
	t.Helper()
	s := testmysql.New(t, options...)
	s.Start()
	return &started{s, s.Driver("")}
}

func (s *started) change(kind string, change driver.Change) string {
	s.Helper()
	problems, err := s.driver.Change(s.Context(), kind, []driver.Change{change})
	if err != nil {
		s.Fatalf("%s %s: %v", change.Intent, change.Name, err)
	}
	return problems[change.Name]
}

// must makes a change and returns what is there then; nil for nothing.
func (s *started) must(kind string, change driver.Change) *driver.State {
	s.Helper()
	if problem := s.change(kind, change); problem != "" {
		s.Fatalf("%s %s: %s", change.Intent, change.Name, problem)
	}
	return s.observe(kind, change.Query)
}

func (s *started) observe(kind string, query driver.Query) *driver.State {
	s.Helper()
	states, err := s.driver.Observe(s.Context(), kind, []driver.Query{query})
	if err != nil {
		s.Fatal(err)
	}
	if len(states) == 0 {
		return nil
	}
	return &states[0]
}

// answers says whether somebody is let in.
func (s *started) answers(username, password string) error {
	_, err := s.As(username, password, s.Address, "").Query(s.Context(), driver.Statement{Text: "SELECT 1"})
	return err
}

func TestObjects(t *testing.T) {
	s := start(t)
	t.Run("databases", s.databases)
	t.Run("users", s.users)
	t.Run("grants", s.grants)
	t.Run("queries", s.queries)
	t.Run("parameters", s.parameters)
	t.Run("own accounts", s.rotation)
}

func create(name, password string, parameters map[string]string) driver.Change {
	return driver.Change{Query: driver.Query{Name: name, Password: password}, Intent: driver.Create,
		Parameters: parameters}
}

func (s *started) databases(t *testing.T) {
	name := "sh`op_1"
	got := s.must(mysql.KindDatabase, create(name, "", map[string]string{"charset": "latin1", "collation": ""}))
	if got == nil || got.Parameters["charset"] != "latin1" || got.Parameters["collation"] != "latin1_swedish_ci" {
		t.Fatalf("got %+v", got)
	}
	if again := s.must(mysql.KindDatabase,
		create(name, "", map[string]string{"charset": "utf8mb4"})); again.Parameters["charset"] != "utf8mb4" {
		t.Errorf("got %+v", again)
	}
	if problem := s.change(mysql.KindDatabase,
		create(name, "", map[string]string{"charset": "klingon"})); !strings.Contains(problem, "Unknown character set") {
		t.Errorf("got %q", problem)
	}
	gone := s.must(mysql.KindDatabase, driver.Change{Query: driver.Query{Name: name}, Intent: driver.Delete})
	if gone != nil {
		t.Errorf("there is %+v", gone)
	}
}

func (s *started) users(t *testing.T) {
	old, fresh := `it's "\ old`, `it's "\ new`
	wanted := map[string]string{"locked": "no", "require-tls": "no", "max-connections": "3",
		"keep-previous-password": "yes", "global-privileges": "PROCESS REPLICATION_CLIENT"}
	got := s.must(mysql.KindUser, create("clerk", old, wanted))
	if got == nil || got.Password != driver.SamePassword || !maps.Equal(got.Parameters, wanted) {
		t.Fatalf("got %+v", got)
	}
	other := s.observe(mysql.KindUser, driver.Query{Name: "clerk", Password: fresh})
	if other.Password != driver.OtherPassword {
		t.Errorf("another password is the same: %+v", other)
	}
	if got = s.must(mysql.KindUser, create("clerk", fresh, wanted)); got.Password != driver.SamePassword ||
		got.Facts["previousPassword"] != "valid" {
		t.Errorf("got %+v", got)
	}
	for _, password := range []string{old, fresh} {
		if err := s.answers("clerk", password); err != nil {
			t.Errorf("the password %q is not valid: %v", password, err)
		}
	}
	s.SQL("GRANT SUPER, BACKUP_ADMIN ON *.* TO clerk WITH GRANT OPTION")
	drifted := s.observe(mysql.KindUser, driver.Query{Name: "clerk"})
	if !strings.Contains(drifted.Parameters["global-privileges"], "SUPER GRANT_OPTION") {
		t.Errorf("got %+v", drifted)
	}
	wanted["keep-previous-password"], wanted["global-privileges"], wanted["locked"] = "no", "PROCESS", "no"
	if got = s.must(mysql.KindUser, create("clerk", fresh, wanted)); !maps.Equal(got.Parameters, wanted) ||
		got.Facts["previousPassword"] != "" {
		t.Errorf("got %+v", got)
	}
	if err := s.answers("clerk", old); err == nil || !strings.Contains(err.Error(), "Access denied") {
		t.Errorf("the former password is valid: %v", err)
	}
	gone := s.must(mysql.KindUser, driver.Change{Query: driver.Query{Name: "clerk"}, Intent: driver.Delete})
	if gone != nil {
		t.Errorf("there is %+v", gone)
	}
	s.must(mysql.KindUser, driver.Change{Query: driver.Query{Name: "clerk"}, Intent: driver.Delete})
}

func (s *started) grants(t *testing.T) {
	s.SQL("CREATE DATABASE a_b; CREATE DATABASE axb; CREATE TABLE axb.t (id INT PRIMARY KEY); CREATE TABLE a_b.t (id " +
		"INT PRIMARY KEY); CREATE USER `g`@`%` IDENTIFIED BY 'g'")
	grant := func(name, privileges string) *driver.State {
		return s.must(mysql.KindGrant, create(name, "", map[string]string{"privileges": privileges}))
	}
	if got := grant("g/a_b", "SELECT INSERT CREATE_VIEW"); got == nil ||
		got.Parameters["privileges"] != "CREATE_VIEW INSERT SELECT" {
		t.Fatalf("got %+v", got)
	}
	as := s.As("g", "g", s.Address, "")
	if _, err := as.Query(t.Context(), driver.Statement{Text: "SELECT * FROM a_b.t"}); err != nil {
		t.Error(err)
	}
	if _, err := as.Query(t.Context(), driver.Statement{Text: "SELECT * FROM axb.t"}); err == nil ||
		!strings.Contains(err.Error(), "denied") {
		t.Errorf("an underscore stands for any character: %v", err)
	}
	if got := grant("g/a_b", "ALL"); got.Parameters["privileges"] != "ALL" {
		t.Errorf("got %+v", got)
	}
	if got := grant("g/axb/t", "SELECT UPDATE"); got == nil || got.Parameters["privileges"] != "SELECT UPDATE" {
		t.Errorf("got %+v", got)
	}
	s.SQL("GRANT DELETE ON `a\\_b`.* TO g WITH GRANT OPTION")
	if got := grant("g/a_b", "SELECT"); got.Parameters["privileges"] != "SELECT" {
		t.Errorf("got %+v", got)
	}
	for _, name := range []string{"g/a_b", "g/axb/t"} {
		gone := s.must(mysql.KindGrant, driver.Change{Query: driver.Query{Name: name}, Intent: driver.Delete})
		if gone != nil {
			t.Errorf("there is %+v", gone)
		}
	}
	if problem := s.change(mysql.KindGrant,
		create("nobody/a_b", "", map[string]string{"privileges": "SELECT"})); !strings.Contains(problem,
		"not allowed to create a user") {
		t.Errorf("got %q", problem)
	}
}

func (s *started) queries(t *testing.T) {
	got, err := s.driver.Query(t.Context(),
		driver.Statement{Text: "SELECT DATABASE() AS base, ? AS said, NULL AS nothing", Arguments: []string{"it's; DROP"},
			Database: "mysql", Access: driver.ReadOnly})
	if err != nil || !slices.Equal(got.Columns, []string{"base", "said", "nothing"}) || *got.Rows[0][0] != "mysql" ||
		*got.Rows[0][1] != "it's; DROP" || got.Rows[0][2] != nil {
		t.Errorf("got %v, %v", got, err)
	}
	writes := driver.Statement{Text: "CREATE DATABASE x", Access: driver.ReadOnly}
	if _, err := s.driver.Query(t.Context(), writes); err == nil ||
		!strings.Contains(err.Error(), "READ ONLY transaction") {
		t.Errorf("a query that only reads writes: %v", err)
	}
	if _, err := s.driver.Query(t.Context(), driver.Statement{Text: "SELECT 1; SELECT 2"}); err == nil {
		t.Error("there are two statements in one")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := s.driver.Query(ctx, driver.Statement{Text: "SELECT SLEEP(600)"}); err == nil ||
		!strings.Contains(err.Error(), "did not end in time") {
		t.Errorf("got %v", err)
	}
	s.Until("the server has ended the query", func(context.Context) error {
		return wantSQL(s, "SELECT COUNT(*) FROM performance_schema.processlist WHERE INFO LIKE 'SELECT SLEEP%'", "0")
	})
}
