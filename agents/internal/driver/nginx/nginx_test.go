// SPDX-License-Identifier: Apache-2.0

package nginx

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/zeroinfra/agents/internal/driver"
)

func TestQueryReadsThePageOfStatus(t *testing.T) {
	const whole = "Active connections: 291 \nserver accepts handled requests\n 16630948 16630947 31070465 \nReading: 6 " +
		"Writing: 179 Waiting: 106 \n"
	says, code := whole, http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != Status {
			t.Errorf("it asks for %s", r.URL.Path)
		}
		w.WriteHeader(code)
		_, _ = w.Write([]byte(says))
	}))
	defer server.Close()
	d := New(strings.TrimPrefix(server.URL, "http://"))
	table, err := d.Query(t.Context(), driver.Statement{Text: Status, Access: driver.ReadOnly})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for i, column := range table.Columns {
		got[column] = *table.Rows[0][i]
	}
	for column, want := range map[string]string{"active": "291", "accepted": "16630948", "handled": "16630947",
		"requests": "31070465", "reading": "6", "writing": "179", "waiting": "106"} {
		if got[column] != want {
			t.Errorf("%s is %q, want %s", column, got[column], want)
		}
	}

	for name, c := range map[string]struct {
		says string
		code int
		ask  driver.Statement
		want string
	}{
		"another page":      {"hello", http.StatusOK, driver.Statement{Text: Status}, "no page of stub_status"},
		"not there":         {whole, http.StatusNotFound, driver.Statement{Text: Status}, "404"},
		"another statement": {whole, http.StatusOK, driver.Statement{Text: "/"}, "for nothing else"},
		"with arguments": {whole, http.StatusOK, driver.Statement{Text: Status, Arguments: []string{"a"}},
			"for nothing else"},
	} {
		says, code = c.says, c.code
		if _, err := d.Query(t.Context(), c.ask); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: it says %v, want %q", name, err, c.want)
		}
	}
}
