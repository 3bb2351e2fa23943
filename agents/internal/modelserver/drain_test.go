// SPDX-License-Identifier: Apache-2.0

package modelserver

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/zeroinfra/platform-core/agentproto/plan"
)

// busy is a server whose requests end one after the other, each time that it is asked how many there are.
func busy(t *testing.T, requests int) (*httptest.Server, *int) {
	t.Helper()
	return counting(t, func(asked int) (unfinished, tokens int) {
		return max(requests-asked, 0), min(asked, requests)
	})
}

// counting is a server that says of its requests what a function does of how often it was asked before.
func counting(t *testing.T, says func(asked int) (unfinished, tokens int)) (*httptest.Server, *int) {
	t.Helper()
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != metricsPath || r.Header.Get("Authorization") != "Bearer k" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		unfinished, tokens := says(asked)
		asked++
		for name, value := range map[string]int{"requests_processing": min(unfinished, 1),
			"requests_deferred": max(unfinished-1, 0), "prompt_tokens_total": 7, "tokens_predicted_total": tokens} {
			fmt.Fprintf(w, "# TYPE llamacpp:%s gauge\nllamacpp:%s %d\n", name, name, value)
		}
	}))
	t.Cleanup(server.Close)
	return server, &asked
}

// drainer waits for the requests of a server that was started.
func drainer(t *testing.T, server *httptest.Server, phase Phase, timeout time.Duration) *Drainer {
	t.Helper()
	f := files{t.TempDir()}
	if err := f.write(f.state(), State{Phase: phase}); err != nil {
		t.Fatal(err)
	}
	return &Drainer{Timeout: timeout, Unfinished: UnfinishedMetrics, Growing: GrowingMetrics,
		Probe: &Probe{Run: f.folder, Address: server.Listener.Addr().String(), Key: "k"}}
}

func TestDrainWaitsForRequests(t *testing.T) {
	server, asked := busy(t, 3)
	if err := drainer(t, server, Serving, 2*time.Minute).Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if *asked != 5 {
		t.Errorf("the server was asked %d times; want 3 with requests and 2 without", *asked)
	}
}

// Requests that come and go between two looks show in the tokens alone.
func TestDrainGoesOnWhileRequestsCome(t *testing.T) {
	server, asked := counting(t, func(asked int) (unfinished, tokens int) { return 0, min(asked, 4) * 32 })
	if err := drainer(t, server, Serving, 2*time.Minute).Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if *asked != 6 {
		t.Errorf("the server was asked %d times; want 5 with other tokens and 1 without", *asked)
	}
	server, _ = counting(t, func(asked int) (unfinished, tokens int) { return 0, asked })
	err := drainer(t, server, Serving, time.Second).Drain(t.Context())
	if err == nil || !strings.Contains(err.Error(), "was not without requests for 0s within 1s") {
		t.Errorf("got %v", err)
	}
}

// A process that is restarted in its pod gets requests until the kubelet has asked so often.
func TestSettleIsLongerThanReadinessTakes(t *testing.T) {
	if least := plan.ReadinessPeriodSeconds * plan.ReadinessFailures * time.Second; Settle <= least {
		t.Errorf("a server goes on for %s, and the kubelet takes up to %s to find out", Settle, least)
	}
}

func TestDrainEndsAtItsTimeout(t *testing.T) {
	server, _ := busy(t, 1<<30)
	err := drainer(t, server, Serving, time.Second).Drain(t.Context())
	if err == nil || !strings.Contains(err.Error(), "requests were not finished within 1s") {
		t.Errorf("got %v", err)
	}
}

func TestDrainHasNothingToWaitFor(t *testing.T) {
	server, asked := busy(t, 1)
	for name, d := range map[string]*Drainer{
		"downloading":  drainer(t, server, Downloading, 2*time.Minute),
		"switched off": drainer(t, server, Serving, 0),
		"not started":  {Timeout: 2 * time.Minute, Probe: &Probe{Run: t.TempDir()}},
	} {
		if err := d.Drain(t.Context()); err != nil || *asked != 0 {
			t.Errorf("%s: got %v, asked %d times", name, err, *asked)
		}
	}
}

// A server that is gone has no requests; the stop goes on, and says why nobody waited.
func TestDrainOfAServerThatDoesNotAnswer(t *testing.T) {
	server, _ := busy(t, 1)
	d := drainer(t, server, Serving, 2*time.Minute)
	server.Close()
	if err := d.Drain(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "cannot count the requests of the server") {
		t.Errorf("got %v", err)
	}
}
