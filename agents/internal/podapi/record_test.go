// SPDX-License-Identifier: Apache-2.0

package podapi_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/zeroinfra/platform-core/agentproto/permission"
)

// answering is an API server that gives one answer to a GET of a set, and knows nothing else.
func answering(t *testing.T, code int, body string) *server {
	t.Helper()
	s := &server{}
	s.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		const path = "/apis/platform.zeroinfra.github.com/v1/namespaces/demo/workloadsets/redis-a"
		if r.Method != http.MethodGet || r.URL.String() != path ||
			r.Header.Get("Authorization") != "Bearer first" || strings.Contains(r.Header.Get("Accept"), "Partial") {
			w.WriteHeader(http.StatusTeapot)
			return
		}
		w.WriteHeader(code)
		fmt.Fprint(w, body)
	}))
	t.Cleanup(s.Close)
	return s
}

func TestRecord(t *testing.T) {
	primary := permission.Member{Name: "redis-a-0", Identity: "i"}
	for name, test := range map[string]struct {
		body string
		want permission.Record
	}{
		"a writer": {
			`{"kind":"WorkloadSet","status":{"replicas":2,"primary":{"term":7,"member":{"name":"redis-a-0","identity":"i"},` +
				`"list":{"version":3,"members":[{"name":"redis-a-0","identity":"i"}]},"since":"2026-01-01T00:00:00Z"}}}`,
			permission.Record{Term: 7, Primary: &primary,
				List: permission.List{Version: 3, Members: []permission.Member{primary}}}},
		"nobody": {`{"status":{"primary":{"term":8,"list":{"version":0,"members":null}}}}`,
			permission.Record{Term: 8}},
		"never a writer":   {`{"status":{}}`, permission.Record{}},
		"no status at all": {`{}`, permission.Record{}},
	} {
		pod, _ := account(t, answering(t, http.StatusOK, test.body))
		got, err := pod.Record(t.Context(), "redis-a")
		if err != nil || !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: got %+v, %v; want %+v", name, got, err, test.want)
		}
	}
}

func TestRecordThatCannotBeReadIsNone(t *testing.T) {
	for name, test := range map[string]struct {
		code int
		body string
		want string
	}{
		"forbidden": {http.StatusForbidden, `{"kind":"Status","message":"no such right"}`, "no such right"},
		"gone":      {http.StatusNotFound, `{"message":"not found"}`, "not found"},
		"half":      {http.StatusOK, `{"status":{"primary":{"term":7`, "unexpected EOF"},
		"no JSON":   {http.StatusOK, `<html>`, "invalid character"},
		"endless":   {http.StatusOK, `{"x":"` + strings.Repeat("y", 5<<20), "unexpected EOF"},
	} {
		pod, _ := account(t, answering(t, test.code, test.body))
		if got, err := pod.Record(t.Context(), "redis-a"); err == nil || !strings.Contains(err.Error(), test.want) ||
			!strings.Contains(err.Error(), `"demo/redis-a"`) {
			t.Errorf("%s: got %+v, %v; want an error with %q", name, got, err, test.want)
		}
	}
}
