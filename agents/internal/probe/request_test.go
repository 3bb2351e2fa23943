// SPDX-License-Identifier: Apache-2.0

package probe_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strconv"
	"strings"
	"testing"

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
	mux.HandleFunc("/moved", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/nowhere", http.StatusFound) })
	mux.HandleFunc("/busy", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "too many clients", http.StatusServiceUnavailable)
	})
	mux.HandleFunc("/long", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, strings.Repeat("x", 128<<10+1)) })
	mux.HandleFunc("/hung", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	mux.HandleFunc("/cut", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	for name, start := range map[string]func(*httptest.Server){"http": (*httptest.Server).Start, "https": (*httptest.Server).StartTLS} {
		server := httptest.NewUnstartedServer(mux)
		start(server)
		defer server.Close()
		at := func(path string) plan.Probe {
			return plan.Probe{TimeoutSeconds: 1, HTTP: &plan.HTTPProbe{Port: portOf(t, server.Listener.Addr()), Path: path, TLS: name == "https"}}
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
			"an answer":         {described, probe.Outcome{Role: "leader", Version: "1.2"}},
			"a redirection":     {at("/moved"), probe.Outcome{}},
			"no such path":      {at("/nowhere"), probe.Outcome{Cause: "status 404", Message: "the probe failed with status 404: 404 page not found"}},
			"an unfit answer":   {demanding, probe.Outcome{Cause: probe.CauseUnhealthy, Message: "the probe says that it is not healthy: role: none"}},
			"too much":          {at("/long"), probe.Outcome{Cause: probe.CauseStart, Message: "the probe got an answer of more than 128 KiB"}},
			"nothing in time":   {at("/hung"), probe.Outcome{Cause: probe.CauseTimeout, Message: "the probe got no answer within 1s"}},
			"a connection less": {at("/cut"), probe.Outcome{Cause: "no answer", Message: "the probe failed with no answer: EOF"}},
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
