// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

const page = `# TYPE workqueue_depth gauge
workqueue_depth{controller="application",name="application",priority="0"} 2
workqueue_depth{controller="component",name="component",priority="0"} 1
# TYPE controller_runtime_active_workers gauge
controller_runtime_active_workers{controller="application"} 4
# TYPE controller_runtime_reconcile_total counter
controller_runtime_reconcile_total{controller="application",result="success"} 10
controller_runtime_reconcile_total{controller="application",result="error"} 1
`

func TestParse(t *testing.T) {
	got, err := parse([]byte(page))
	if want := (Work{Queued: 3, Active: 4, Reconciled: 11}); err != nil || got != want {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
	if got.Idle() {
		t.Error("an operator with a queue is not idle")
	}
	if !(Work{Reconciled: 11}).Idle() {
		t.Error("an operator without a queue is idle")
	}
}

func TestParseRefuses(t *testing.T) {
	if _, err := parse([]byte(strings.ReplaceAll(page, "workqueue_depth", "depth"))); err == nil ||
		!strings.Contains(err.Error(), "workqueue_depth") {
		t.Errorf("a missing metric: got %v", err)
	}
	if _, err := parse([]byte("{")); err == nil {
		t.Error("a broken page is taken")
	}
}

func TestRead(t *testing.T) {
	answer := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metrics" {
			t.Errorf("asked for %s", r.URL.Path)
		}
		w.WriteHeader(answer)
		_, _ = w.Write([]byte(page)) // The client says so when it does not arrive.
	}))
	defer server.Close()
	address := strings.TrimPrefix(server.URL, "http://")
	if got, err := Read(t.Context(), address); err != nil || got.Reconciled != 11 {
		t.Errorf("got %+v, %v", got, err)
	}
	answer = http.StatusServiceUnavailable
	if _, err := Read(t.Context(), address); err == nil || !strings.Contains(err.Error(), "503") {
		t.Errorf("an error page: got %v", err)
	}
}
