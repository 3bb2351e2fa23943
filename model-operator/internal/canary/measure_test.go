// SPDX-License-Identifier: Apache-2.0

package canary

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// server answers completions with a status, and has metrics.
func server(t *testing.T, status int) (address string) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch said, _ := io.ReadAll(r.Body); {
		case r.URL.Path == "/metrics":
			fmt.Fprintf(w, "# TYPE %[1]s counter\n%[1]s 120\n%[2]s 3.5\n", tokensMetric, secondsMetric)
		case r.URL.Path == "/completion" && r.Method == http.MethodPost && string(said) == completion:
			w.WriteHeader(status)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

func TestAsk(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	for name, c := range map[string]struct {
		address string
		want    sample
		failure string
	}{
		"answers": {server(t, http.StatusOK), sample{tokens: 120, seconds: 3.5, counted: true}, ""},
		"fails": {server(t, http.StatusInternalServerError), sample{tokens: 120, seconds: 3.5, counted: true},
			`it is answered with "500 Internal Server Error"`},
		"is gone": {gone.Listener.Addr().String(), sample{}, "connection refused"},
	} {
		got := newAsker().ask(t.Context(), c.address)
		failure := got.failure
		got.failure = ""
		if got != c.want || (failure == "") != (c.failure == "") || !strings.Contains(failure, c.failure) {
			t.Errorf("%s: got %+v and %q, want %+v and %q", name, got, failure, c.want, c.failure)
		}
	}
}
