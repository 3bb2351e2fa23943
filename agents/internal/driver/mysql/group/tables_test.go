// SPDX-License-Identifier: Apache-2.0

//go:build processes

package group_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/zeroinfra/agents/internal/driver/mysql/group"
	"github.com/zeroinfra/agents/internal/driver/mysql/server"
)

// tables by whether the group takes a row; each has a column n.
var tables = map[string]bool{
	"CREATE TABLE app.a_key (n INT PRIMARY KEY)":                                       true,
	"CREATE TABLE app.b_unique (n INT NOT NULL UNIQUE)":                                true,
	"CREATE TABLE app.c_none (n INT)":                                                  false,
	"CREATE TABLE app.d_null (n INT UNIQUE)":                                           false,
	"CREATE TABLE app.e_prefix (n VARCHAR(40) NOT NULL, UNIQUE (n(3)))":                false,
	"CREATE TABLE app.f_expression (n INT NOT NULL, UNIQUE ((n + 1)))":                 false,
	"CREATE TABLE app.g_engine (n INT PRIMARY KEY) ENGINE = MyISAM":                    false,
	"CREATE TABLE app.h_index (n INT NOT NULL, KEY (n))":                               false,
	"CREATE TABLE app.i_two (n INT, m INT NOT NULL DEFAULT 0, UNIQUE (n), UNIQUE (m))": true,
	"CREATE TABLE app.j_pair (n INT, m INT NOT NULL DEFAULT 0, UNIQUE (m, n))":         false,
	"CREATE TABLE app.k_generated (n INT)":                                             true,
}

// What is said of tables is what the group does.
func TestTablesThatAGroupTakesNoWritesTo(t *testing.T) {
	c := newCluster(t)
	c.settle(group.Unformed)
	s := c.servers["a"]
	watching, stop := context.WithCancel(t.Context())
	defer stop()
	go func() { _ = s.Server.Watch(watching) }()
	file := filepath.Join(s.Server.Run, server.TablesFile)
	s.Until("it is said that all tables are replicable", func(context.Context) error {
		if text, err := os.ReadFile(file); err != nil || !strings.HasPrefix(string(text), "unreplicable=none\ncertificate=") {
			return fmt.Errorf("the file has %q, %w", text, err)
		}
		return nil
	})
	var want []string
	for statement, replicable := range tables {
		var name string
		if _, err := fmt.Sscanf(statement, "CREATE TABLE app.%s ", &name); err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, "_generated") {
			statement = "SET SESSION sql_generate_invisible_primary_key = ON; " + statement
		}
		s.SQL(statement)
		_, err := s.TrySQL("INSERT INTO app." + name + " (n) VALUES (1)")
		if (err == nil) != replicable {
			t.Errorf("a write to %s gives %v", name, err)
		}
		if !replicable {
			want = append(want, "app."+name)
		}
	}
	slices.Sort(want)
	got, others, err := s.Driver("").Unreplicable(t.Context(), len(tables))
	if err != nil || others || !slices.Equal(got, want) {
		t.Errorf("got %v, %t, %v; want %v", got, others, err, want)
	}
	if got, others, err = s.Driver("").Unreplicable(t.Context(), 2); err != nil || !others ||
		!slices.Equal(got, want[:2]) {
		t.Errorf("got %v, %t, %v", got, others, err)
	}
}
