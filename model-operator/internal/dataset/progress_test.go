// SPDX-License-Identifier: Apache-2.0

package dataset

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/transfer"

	aiv1 "github.com/zeroinfra/model-operator/api/v1"
)

func TestSentenceOf(t *testing.T) {
	for want, p := range map[string]transfer.Progress{
		"fetch: 0 B":                      {Of: 1},
		"fetch: 1.5 KiB":                  {Bytes: 1536, Of: 1},
		"fetch: 1.2 GiB of 4.0 GiB, 30 %": {Bytes: 1288490189, Total: 4 << 30, Of: 1},
		"fetch: 2.0 MiB of 2.0 MiB, 100 %, 3 of 3 files": {Bytes: 2 << 20, Total: 2 << 20, Files: 3, Of: 3},
		"fetch: 2.0 MiB of 1.0 MiB, 100 %":               {Bytes: 2 << 20, Total: 1 << 20, Of: 1},
		"fetch: 5.0 TiB, 1 of 2 files":                   {Bytes: 5 << 40, Files: 1, Of: 2},
	} {
		if got := sentenceOf(p); got != want {
			t.Errorf("%+v: got %q, want %q", p, got, want)
		}
	}
}

// A pod is asked every 10 s. What it said last holds meanwhile, and while it does not answer.
func TestProgressIsAskedForSeldom(t *testing.T) {
	asked, bytes, failing := 0, int64(0), false
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		bytes += 10
		if failing || r.URL.Path != transfer.Path {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		fmt.Fprintf(w, `{"bytes":%d,"total":100,"of":1}`, bytes)
	}))
	t.Cleanup(server.Close)
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	pod := func(name, step string, phase corev1.PodPhase) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, Labels: map[string]string{
			platformv1.OperationLabel: "points-1", platformv1.StepLabel: step}},
			Status: corev1.PodStatus{Phase: phase, PodIP: "192.0.2.1"}}
	}
	now := time.Unix(0, 0)
	c := &Controller{client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(pod("lost", "fetch", corev1.PodFailed),
		pod("other", "seal", corev1.PodRunning), pod("fetch", "fetch", corev1.PodRunning)).Build(),
		ask: newAsker(), now: func() time.Time { return now }}
	c.ask.client.Transport = to(server.Listener.Addr().String())
	op := &platformv1.Operation{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "points-1"}}
	ds := &aiv1.Dataset{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "points"}}
	expect := func(after time.Duration, text string, times int) {
		t.Helper()
		now = now.Add(after)
		got, err := c.progress(t.Context(), ds, map[string]*platformv1.Operation{op.Name: op})
		if err != nil || got[op.Name] != text || asked != times {
			t.Errorf("got %q and %v after %d requests, want %q after %d", got, err, asked, text, times)
		}
	}
	expect(0, "", 0)
	op.Status.Phase = platformv1.OperationRunning
	expect(0, "fetch: 10 B of 100 B, 10 %", 1)
	expect(askEvery-1, "fetch: 10 B of 100 B, 10 %", 1)
	expect(1, "fetch: 20 B of 100 B, 20 %", 2)
	failing = true
	expect(askEvery, "fetch: 20 B of 100 B, 20 %", 3)
	op.Status.Phase = platformv1.OperationSucceeded
	expect(askEvery, "", 3)
	if len(c.ask.said) != 0 {
		t.Errorf("it remembers %v", c.ask.said)
	}
}

// to sends all requests to an address.
func to(address string) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		r.URL.Host = address
		return http.DefaultTransport.RoundTrip(r)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
