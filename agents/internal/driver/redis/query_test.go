// SPDX-License-Identifier: Apache-2.0

//go:build processes

package redis_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/zeroinfra/agents/internal/driver"
)

func TestQueries(t *testing.T) {
	s := newServer(t)
	s.start()
	ask := func(text string, access driver.Access, arguments ...string) (driver.Table, error) {
		return s.Query(t.Context(), driver.Statement{Text: text, Arguments: arguments, Access: access})
	}
	info, err := ask("INFO memory", driver.ReadOnly)
	if i := slices.Index(info.Columns, "used_memory"); err != nil || i < 0 || len(info.Rows) != 1 ||
		*info.Rows[0][i] == "" {
		t.Errorf("got %v, %v", info, err)
	}
	if _, err := ask("SET", driver.ReadWrite, "a key", "a:value"); err != nil {
		t.Error(err)
	}
	for _, want := range []struct{ text, argument, value string }{{"DBSIZE", "", "1"}, {"KEYS", "*", "a key"},
		{"STRLEN", "a key", "7"}} {
		got, err := ask(want.text, driver.ReadOnly,
			slices.DeleteFunc([]string{want.argument}, func(a string) bool { return a == "" })...)
		if err != nil || len(got.Rows) != 1 || *got.Rows[0][0] != want.value {
			t.Errorf("%s: got %v, %v", want.text, got, err)
		}
	}
	if got, err := ask("GET none", driver.ReadOnly); err != nil || len(got.Rows) != 0 {
		t.Errorf("got %v, %v", got, err)
	}
	for text, says := range map[string]string{"SET a b": "does more than read", "CONFIG GET requirepass": "",
		"SHUTDOWN": "does more than read", "NONSENSE": "knows no command", "": "is no command"} {
		if _, err := ask(text, driver.ReadOnly); says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
			t.Errorf("%s: got %v, want %q", text, err, says)
		}
	}
}
