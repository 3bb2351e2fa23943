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

	aiv1 "github.com/zeroinfra/model-operator/api/v1"
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

// Counters of a server are added over what the annotations name. One that tells none has failed.
func TestReadCounters(t *testing.T) {
	told := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metrics" || r.Method != http.MethodGet {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		fmt.Fprint(w, "# HELP requests_total All.\n# TYPE requests_total counter\n"+
			`requests_total{path="/a,b}",status="200"} 7`+"\n"+`requests_total{path="/a",status="500"} 2 1700000000`+"\n"+
			"requests_total_created 9\nrequests 4\nfailures 1.0\nseconds_sum 2.5\n")
	}))
	gone := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(told.Close)
	gone.Close()
	for name, c := range map[string]struct {
		server   *httptest.Server
		of       counters
		want     sample
		failures string
	}{
		"a sum of series": {told, counters{requests: "requests_total", failed: `requests_total{status="500"}`},
			sample{requests: 9, failed: 2}, ""},
		"two labels": {told, counters{requests: "requests_total", failed: `requests_total{status="500",path="/a"}`},
			sample{requests: 9, failed: 2}, ""},
		"a part of a label": {told, counters{requests: "requests_total", failed: `requests_total{status="50"}`},
			sample{requests: 9}, ""},
		"a list": {told, counters{requests: "requests failures", failed: "failures"},
			sample{requests: 5, failed: 1}, ""},
		"no such metric yet": {told, counters{requests: "requests", failed: "errors"}, sample{requests: 4}, ""},
		"seconds": {told, counters{requests: "requests", seconds: "seconds_sum"},
			sample{requests: 4, requestSeconds: 2.5}, ""},
		"is gone": {gone, counters{requests: "requests", failed: "failures"}, sample{}, "connection refused"},
	} {
		c.want.clients = c.failures == ""
		got := newAsker().read(t.Context(), c.server.Listener.Addr().String(), c.of)
		failure := got.failure
		got.failure = ""
		if got != c.want || (failure == "") != (c.failures == "") || !strings.Contains(failure, c.failures) {
			t.Errorf("%s: got %+v and %q, want %+v and %q", name, got, failure, c.want, c.failures)
		}
	}
}

// The gate of a runtime whose plugin names no counters cannot be measured, and says so.
func TestUnmeasurable(t *testing.T) {
	naming := func(annotations ...string) corev1.Pod {
		pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{}}}
		for _, annotation := range annotations {
			pod.Annotations[annotation] = "a_total"
		}
		return pod
	}
	requests, failed, seconds := aiv1.RequestsMetricAnnotation, aiv1.FailedRequestsMetricAnnotation,
		aiv1.RequestSecondsMetricAnnotation
	with, half := naming(requests, failed), naming(requests)
	errors := aiv1.InferenceCanaryGate{MaxErrorRate: new(int32(5))}
	time := aiv1.InferenceCanaryGate{MaxTimePerRequest: &metav1.Duration{Duration: 1}}
	for name, c := range map[string]struct {
		runtime string
		gate    aiv1.InferenceCanaryGate
		pods    []corev1.Pod
		want    string
	}{
		"the default runtime": {"", errors, []corev1.Pod{{}}, ""},
		"llama-cpp":           {"llama-cpp", errors, []corev1.Pod{{}}, ""},
		"counters":            {"onnxruntime", errors, []corev1.Pod{with}, ""},
		"no pods yet":         {"onnxruntime", errors, nil, ""},
		"one counter": {"triton", errors, []corev1.Pod{with, half},
			`maxErrorRate cannot be measured: the plugin "triton" names no counters of requests`},
		"seconds": {"onnxruntime", time, []corev1.Pod{naming(requests, seconds)}, ""},
		"no seconds": {"triton", time, []corev1.Pod{with},
			`maxTimePerRequest cannot be measured: the plugin "triton" names no counters of requests`},
		"seconds of what": {"triton", time, []corev1.Pod{naming(seconds)}, "take maxTimePerRequest out, or name a version " +
			"of the plugin that has them, and delete the annotation ai.zeroinfra.github.com/canary-progress"},
	} {
		i := &aiv1.Inference{Spec: aiv1.InferenceSpec{Runtime: c.runtime, Canary: &aiv1.InferenceCanary{Gate: &c.gate}}}
		if got := unmeasurable(i, c.pods); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
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
