// SPDX-License-Identifier: Apache-2.0

package mysqlrouter

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/zeroinfra/agents/internal/driver"
)

// written is a table with a line for each row, in which - stands for what a row has not.
func written(t driver.Table) string {
	lines := []string{strings.Join(t.Columns, " ")}
	for _, row := range t.Rows {
		values := make([]string, len(row))
		for i, value := range row {
			values[i] = "-"
			if value != nil {
				values[i] = *value
			}
		}
		lines = append(lines, strings.Join(values, " "))
	}
	return strings.Join(lines, "\n")
}

// answers of the Router by path.
var answers = map[string]string{
	"/routing/status": `{"currentTotalConnections":3,"maxTotalConnections":1000}`,
	"/routes":         `{"items":[{"name":"primary"},{"name":"a b"}]}`,
	"/routes/primary/status": `{"activeConnections":12345678901234567890,"name":null,"more":{"x":1},"list":[1],` +
		`"isAlive":true,"at":"now"}`,
	"/routes/a b/status":    `{"activeConnections":0}`,
	"/lame":                 `{"items":[{"name":"primary"}]}`,
	"/lame/primary/health":  `{"isAlive":false}`,
	"/odd":                  `{"items":[{"name":"primary"}]}`,
	"/odd/primary/health":   `{"title":"something"}`,
	"/connection_pool":      `{"items":[]}`,
	"/metadata":             `{"items":[{"name":"gone"}]}`,
	"/metadata/gone/status": "",
	"/router/status":        `hello`,
}

func TestQueryMakesRowsOfObjects(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "reader" || password != `a"b` {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		path, below := strings.CutPrefix(r.URL.Path, API)
		switch path {
		case "/lame/primary/health":
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusInternalServerError)
		case "/odd/primary/health":
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusInternalServerError)
		}
		if answer := answers[path]; below && answer != "" {
			_, _ = w.Write([]byte(answer))
			return
		}
		w.WriteHeader(http.StatusNotFound)
	}))
	defer server.Close()
	password := `a"b`
	d := New(Options{Address: strings.TrimPrefix(server.URL, "http://"), Username: "reader",
		Password: func() (string, error) {
			if password == "" {
				return "", errors.New("there is no password")
			}
			return password, nil
		}})
	for statement, want := range map[string]string{
		"/routing/status": "currentTotalConnections maxTotalConnections\n3 1000",
		"/routes/{route}/status": "activeConnections at isAlive route\n12345678901234567890 now true primary\n" +
			"0 - - a b",
		"/connection_pool/{pool}/status": "",
		"/lame/{route}/health":           "isAlive route\nfalse primary",
	} {
		got, err := d.Query(t.Context(), driver.Statement{Text: statement, Access: driver.ReadOnly})
		if err != nil || written(got) != want {
			t.Errorf("%s: got %v\n%s\nwant\n%s", statement, err, written(got), want)
		}
	}
	for name, c := range map[string]struct {
		ask      driver.Statement
		password string
		want     string
	}{
		"an object that is gone": {driver.Statement{Text: "/metadata/{cache}/status"}, `a"b`, "404"},
		"an error":               {driver.Statement{Text: "/odd/{route}/health"}, `a"b`, "500"},
		"no object":              {driver.Statement{Text: "/router/status"}, `a"b`, "cannot be read"},
		"a path that is none":    {driver.Statement{Text: "/../etc"}, `a"b`, "is asked for a path"},
		"arguments": {driver.Statement{Text: "/router/status", Arguments: []string{"a"}}, `a"b`,
			"without arguments"},
		"another password":         {driver.Statement{Text: "/routing/status"}, "x", "401"},
		"a password that is not":   {driver.Statement{Text: "/routing/status"}, "", "there is no password"},
		"a list that is not there": {driver.Statement{Text: "/nothing/{x}/status"}, `a"b`, "404"},
	} {
		password = c.password
		if _, err := d.Query(t.Context(), c.ask); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: it says %v, want %q", name, err, c.want)
		}
	}
}
