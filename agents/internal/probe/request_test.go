// SPDX-License-Identifier: Apache-2.0

package probe_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zeroinfra/agents/internal/probe"
	"github.com/zeroinfra/platform-core/agentproto/plan"
)

// portOf is the port of a server of a test.
func portOf(t *testing.T, address net.Addr) int32 {
	t.Helper()
	_, text, err := net.SplitHostPort(address.String())
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return int32(port)
}

// ask runs a probe of a server.
func ask(t *testing.T, p plan.Probe) probe.Outcome {
	t.Helper()
	compiled, err := probe.New(p, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return compiled.Run(t.Context())
}

func TestRequestsAreJudgedAsCommandsAre(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/health", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "role: %s\nversion: 1.2\n", r.URL.Query().Get("as"))
	})
	mux.HandleFunc("/moved", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/nowhere", http.StatusFound)
	})
	mux.HandleFunc("/busy", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "too many clients", http.StatusServiceUnavailable)
	})
	mux.HandleFunc("/long", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, strings.Repeat("x", 128<<10+1)) })
	mux.HandleFunc("/hung", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	mux.HandleFunc("/cut", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	for name, start := range map[string]func(*httptest.Server){"http": (*httptest.Server).Start,
		"https": (*httptest.Server).StartTLS} {
		server := httptest.NewUnstartedServer(mux)
		start(server)
		defer server.Close()
		at := func(path string) plan.Probe {
			return plan.Probe{TimeoutSeconds: 1,
				HTTP: &plan.HTTPProbe{Port: portOf(t, server.Listener.Addr()), Path: path, TLS: name == "https"}}
		}
		described := at("/health?as=leader")
		described.Role, described.Version = "fields['role']", "fields['version']"
		demanding := at("/health?as=none")
		demanding.Healthy = "exitCode == 0 && fields['role'] != 'none'"
		away := at("/busy")
		away.OutOfConnections = "exitCode == 503 && stdout.contains('too many clients')"
		closed := at("/cut")
		closed.OutOfConnections = "stderr.contains('EOF')"
		for of, tc := range map[string]struct {
			probe plan.Probe
			want  probe.Outcome
		}{
			"an answer":     {described, probe.Outcome{Role: "leader", Version: "1.2"}},
			"a redirection": {at("/moved"), probe.Outcome{}},
			"no such path": {at("/nowhere"),
				probe.Outcome{Cause: "status 404", Message: "the probe failed with status 404: 404 page not found"}},
			"an unfit answer": {demanding, probe.Outcome{Cause: probe.CauseUnhealthy,
				Message: "the probe says that it is not healthy: role: none"}},
			"too much": {at("/long"), probe.Outcome{Cause: probe.CauseStart,
				Message: "the probe got an answer of more than 128 KiB"}},
			"nothing in time": {at("/hung"), probe.Outcome{Cause: probe.CauseTimeout,
				Message: "the probe got no answer within 1s"}},
			"a connection less": {at("/cut"), probe.Outcome{Cause: "no answer",
				Message: "the probe failed with no answer: EOF"}},
			"turned away": {away, probe.Outcome{Cause: probe.CauseOutOfConnections, OutOfConnections: "too many clients",
				Message: "there is no connection left for the probe: too many clients"}},
			"closed at once": {closed, probe.Outcome{Cause: probe.CauseOutOfConnections, OutOfConnections: "EOF",
				Message: "there is no connection left for the probe: EOF"}},
		} {
			t.Run(name+"/"+of, func(t *testing.T) {
				if got := ask(t, tc.probe); !reflect.DeepEqual(got, tc.want) {
					t.Errorf("got %+v, want %+v", got, tc.want)
				}
			})
		}
	}
}

func TestRequestsWithoutAServer(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := portOf(t, listener.Addr())
	listener.Close()
	got := ask(t, plan.Probe{TimeoutSeconds: 30, HTTP: &plan.HTTPProbe{Port: port, Path: "/"}})
	if got.Cause != "no answer" || !strings.Contains(got.Message, "connection refused") {
		t.Errorf("got %+v", got)
	}
}

// A command has to succeed once for each process; from then on the request alone is made, and what the command said of
// the middleware stays.
func TestRequestFollowsACommandThatHasSucceeded(t *testing.T) {
	var status atomic.Int32
	status.Store(http.StatusOK)
	server := httptest.NewServer(http.HandlerFunc(
		func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(int(status.Load())) }))
	t.Cleanup(server.Close)
	runs, flag := filepath.Join(t.TempDir(), "runs"), filepath.Join(t.TempDir(), "flag")
	r, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	script := `echo >>"$0"; echo version=1.2; test -e "$1"`
	p, err := probe.New(plan.Probe{Command: []string{"sh", "-c", script, runs, flag}, Version: "fields['version']",
		IntervalSeconds: 1, TimeoutSeconds: 30,
		HTTP: &plan.HTTPProbe{Port: portOf(t, server.Listener.Addr()), Path: "/", IntervalSeconds: 9}}, nil, r)
	if err != nil {
		t.Fatal(err)
	}
	check := func(pid int64, cause probe.Cause, commands int, interval time.Duration) {
		t.Helper()
		p.Of(pid)
		got := p.Run(t.Context())
		lines, err := os.ReadFile(runs)
		if err != nil || got.Cause != cause || cause == "" && got.Version != "1.2" || len(lines) != commands ||
			p.Interval() != interval {
			t.Errorf("process %d: %+v after %d commands, then %v, %v", pid, got, len(lines), p.Interval(), err)
		}
	}
	check(7, "exit code 1", 1, time.Second)
	if err := os.WriteFile(flag, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	check(7, "", 2, 9*time.Second)
	check(7, "", 2, 9*time.Second)
	status.Store(http.StatusServiceUnavailable)
	check(7, "status 503", 2, 9*time.Second)
	status.Store(http.StatusOK)
	check(7, "", 2, 9*time.Second)
	check(8, "", 3, 9*time.Second)
}
