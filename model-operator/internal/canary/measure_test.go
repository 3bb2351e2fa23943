// SPDX-License-Identifier: Apache-2.0

package canary

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// completion is a test request.
var completion = meters{testPath: "/completion", testBody: `{"prompt":"Hello"}`, tokens: "tokens_total",
	tokenSeconds: "token_seconds_total"}

// serve answers requests with a status, which is that of completions and of what is asked without the key.
func serving(t *testing.T, status int, key string) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		said, _ := io.ReadAll(r.Body)
		switch asked := r.Method + " " + r.URL.Path + string(said); {
		case key != "" && r.Header.Get("Authorization") != "Bearer "+key:
			w.WriteHeader(http.StatusUnauthorized)
		case asked == "GET /metrics":
			fmt.Fprint(w, "# HELP requests_total All.\n# TYPE requests_total counter\n"+
				`requests_total{path="/a,b}",status="200"} 7`+"\n"+`requests_total{path="/a",status="500"} 2 1700000000`+"\n"+
				"requests_total_created 9\nrequests 4\nfailures 1.0\nseconds_sum 2.5\ntokens_total 120\n"+
				"token_seconds_total 3.5\n")
		case asked == "POST "+completion.testPath+completion.testBody, asked == "GET /ready":
			w.WriteHeader(status)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// What a server shows is what the annotations name: counters are added, and the test request counts where the server
// does not count requests that failed.
func TestMeasure(t *testing.T) {
	told, failing := serving(t, http.StatusOK, ""), serving(t, http.StatusInternalServerError, "")
	behind, gone := serving(t, http.StatusOK, "s3cret"), serving(t, http.StatusOK, "")
	gone.Close()
	counted := completion
	counted.requests, counted.failed = "requests", "failures"
	both := sample{requests: 4, failed: 1, clients: true, tokens: 120, seconds: 3.5, counted: true}
	tokens := sample{tokens: 120, seconds: 3.5, counted: true}
	for name, c := range map[string]struct {
		server  *httptest.Server
		key     string
		by      meters
		want    sample
		failure string
	}{
		"a sum of series": {told, "", meters{requests: "requests_total", failed: `requests_total{status="500"}`},
			sample{requests: 9, failed: 2, clients: true}, ""},
		"two labels": {told, "", meters{requests: "requests_total", failed: `requests_total{status="500",path="/a"}`},
			sample{requests: 9, failed: 2, clients: true}, ""},
		"a part of a label": {told, "", meters{requests: "requests_total", failed: `requests_total{status="50"}`},
			sample{requests: 9, clients: true}, ""},
		"a list": {told, "", meters{requests: "requests failures", failed: "failures"},
			sample{requests: 5, failed: 1, clients: true}, ""},
		"no such metric yet": {told, "", meters{requests: "requests", failed: "errors"},
			sample{requests: 4, clients: true}, ""},
		"seconds": {told, "", meters{requests: "requests", requestSeconds: "seconds_sum"},
			sample{requests: 4, requestSeconds: 2.5, timed: true}, ""},
		"counters are gone": {gone, "", meters{requests: "requests", failed: "failures"}, sample{}, "connection refused"},
		"answers":           {told, "", completion, tokens, ""},
		"is ready":          {told, "", meters{testPath: "/ready"}, sample{}, ""},
		"fails":             {failing, "", completion, tokens, `it is answered with "500 Internal Server Error"`},
		"fails, and counts": {failing, "", counted, both, ""},
		"is gone":           {gone, "", completion, sample{}, "connection refused"},
		"shows the key":     {behind, "s3cret", completion, tokens, ""},
		"has another key":   {behind, "other", completion, sample{}, `it is answered with "401 Unauthorized"`},
	} {
		got := newAsker().measure(t.Context(), target{c.server.Listener.Addr().String(), c.key}, c.by)
		failure := got.failure
		got.failure = ""
		if got != c.want || (failure == "") != (c.failure == "") || !strings.Contains(failure, c.failure) {
			t.Errorf("%s: got %+v and %q, want %+v and %q", name, got, failure, c.want, c.failure)
		}
	}
}

// Each pod is measured by its own annotations.
func TestRound(t *testing.T) {
	named := func(name, path string) corev1.Pod {
		return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{
			"ai.zeroinfra.github.com/test-request-path": path}}, Status: corev1.PodStatus{PodIP: "192.0.2.1"}}
	}
	asked := make(chan string, 2)
	a := newAsker()
	a.client.Transport = roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.URL.Path != "/metrics" {
			asked <- r.Method + " " + r.URL.String()
		}
		return nil, io.ErrUnexpectedEOF
	})
	got := a.round(t.Context(), []corev1.Pod{named("a", "/one"), named("b", "")}, "")
	if len(got) != 2 || !strings.Contains(got["a"].failure, "/one") || !strings.Contains(got["b"].failure, "/metrics") ||
		len(asked) != 1 {
		t.Errorf("got %+v, and %d test requests", got, len(asked))
	}
	if url := <-asked; url != "GET http://192.0.2.1:8080/one" {
		t.Errorf("asked %s", url)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
