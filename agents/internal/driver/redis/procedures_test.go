// SPDX-License-Identifier: Apache-2.0

//go:build processes

package redis_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/zeroinfra/agents/internal/driver"
)

// clustered are members of a cluster that has not begun.
func clustered(t *testing.T, n int) (members []*server, addresses []string) {
	t.Helper()
	for range n {
		s := newServer(t)
		data, err := os.ReadFile(s.conf)
		if err != nil {
			t.Fatal(err)
		}
		bus := newServer(t).port
		options := fmt.Sprintf("masterauth hunter2\ncluster-enabled yes\ncluster-port %s\ncluster-node-timeout 1000\n", bus)
		if err := os.WriteFile(s.conf, append(data, options...), 0o600); err != nil {
			t.Fatal(err)
		}
		s.start()
		members, addresses = append(members, s), append(addresses, "127.0.0.1:"+s.port)
	}
	return members, addresses
}

// What an action asks for: a plan of what is to come, the steps, and what came of it.
func TestProceduresOfACluster(t *testing.T) {
	members, addresses := clustered(t, 3)
	shape, err := json.Marshal(map[string]any{"shards": [][]string{addresses[:1], addresses[1:2], addresses[2:]}})
	if err != nil {
		t.Fatal(err)
	}
	var reports int
	ask := func(text string, access driver.Access, arguments ...string) (driver.Table, error) {
		return members[0].Query(t.Context(),
			driver.Statement{Text: text, Arguments: arguments, Access: access, Report: func(driver.Table) { reports++ }})
	}
	value := func(table driver.Table, row int, column string) string {
		t.Helper()
		i := slices.Index(table.Columns, column)
		if i < 0 || row >= len(table.Rows) {
			t.Fatalf("got %v, want a column %q", table, column)
		}
		return *table.Rows[row][i]
	}
	planned, err := ask("cluster-plan", driver.ReadOnly, string(shape))
	if err != nil || len(planned.Rows) != 3 || !strings.HasPrefix(value(planned, 0, "step"), "SetEpoch on "+addresses[0]) {
		t.Fatalf("got %v, %v", planned, err)
	}
	if _, err := ask("cluster-step", driver.ReadOnly, string(shape)); err == nil ||
		!strings.Contains(err.Error(), "does more than read") {
		t.Errorf("got %v", err)
	}
	done, err := ask("cluster-step", driver.ReadWrite, string(shape))
	if err != nil || value(done, 0, "phase") != "Done" || reports < 3 {
		t.Fatalf("got %v, %v, and %d reports", done, err, reports)
	}
	view, err := ask("cluster-view", driver.ReadOnly, string(shape))
	if err != nil || len(view.Rows) != 3 {
		t.Fatalf("got %v, %v", view, err)
	}
	for i, slots := range []string{"5462", "5461", "5461"} {
		if value(view, i, "member") != addresses[i] || value(view, i, "role") != "primary" ||
			value(view, i, "slots") != slots || value(view, i, "state") != "ok" {
			t.Errorf("row %d of %v", i, view)
		}
	}
	for argument, says := range map[string]string{
		"": "no JSON", `{"shards": []}`: "at least 3", `{"shards": [["a"],["b"],["a"]]}`: "there twice",
		`{"shards": [["a"],["b"],["c:x"]]}`:              "no host:port",
		`{"shards": [["a"],["b"],[]]}`:                   "has no members",
		`{"shards": [["a"],["b"],["c"]], "goal": "Fly"}`: "must be Converge or GiveUp",
		`{"shape": 1}`: "no JSON that can be read",
		`{"shards": [["a"],["b"],["c"]], "yield": ["d"]}`: "is in no shard",
	} {
		if _, err := ask("cluster-step", driver.ReadWrite, argument); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: got %v, want %q", argument, err, says)
		}
	}
	if _, err := ask("cluster-step", driver.ReadWrite); err == nil ||
		!strings.Contains(err.Error(), "one argument is wanted") {
		t.Errorf("got %v", err)
	}
}
