// SPDX-License-Identifier: Apache-2.0

package agentclient

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/zeroinfra/platform-core/agentproto/report"
	agentv1 "github.com/zeroinfra/platform-core/agentproto/v1"
	"github.com/zeroinfra/platform-core/internal/pki"
)

// aging is a process manager that learns: it has no Capabilities until it has some names.
type aging struct {
	*manager
	mu    sync.Mutex
	names []string
	fails error
	// asked counts the questions for capabilities, and told those for the status.
	asked, told int
}

func (a *aging) Capabilities(ctx context.Context,
	r *agentv1.CapabilitiesRequest) (*agentv1.ProcessCapabilities, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked++
	switch {
	case a.fails != nil:
		return nil, a.fails
	case a.names == nil:
		return a.manager.Capabilities(ctx, r)
	}
	return &agentv1.ProcessCapabilities{Names: a.names}, nil
}

func (a *aging) GetStatus(ctx context.Context, r *agentv1.GetStatusRequest) (*agentv1.ProcessStatus, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.told++
	now, err := a.manager.GetStatus(ctx, r)
	now.MemoryBytes = 4096
	return now, err
}

// becomes has it be of another version, and answers how often it was asked and told its status before.
func (a *aging) becomes(fails error, names ...string) (asked, told int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	asked, told = a.asked, a.told
	a.fails, a.names, a.asked, a.told = fails, names, 0, 0
	return asked, told
}

// held is a listener that can close what it has accepted, as when the agent ends.
type held struct {
	net.Listener
	mu    sync.Mutex
	conns []net.Conn
}

func (h *held) Accept() (net.Conn, error) {
	conn, err := h.Listener.Accept()
	h.mu.Lock()
	defer h.mu.Unlock()
	if err == nil {
		h.conns = append(h.conns, conn)
	}
	return conn, err
}

func (h *held) cut() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, conn := range h.conns {
		_ = conn.Close()
	}
	h.conns = nil
}

// agingPod serves one, and calls it.
func agingPod(t *testing.T) (*aging, *held, Process) {
	t.Helper()
	authority, listener := newAuthority(t), &held{}
	a := &aging{manager: &manager{records: map[string]*agentv1.CallRecord{}}}
	port := serveOn(t, authority, a, "127.0.0.1", pki.AgentServerName("pod", "team"), func(l net.Listener) net.Listener {
		listener.Listener = l
		return listener
	})
	_, process := dial(t, authority, port, podAt("pod", "127.0.0.1"))
	return a, listener, process
}

func (a *aging) wants(t *testing.T, process Process, want int64) {
	t.Helper()
	if got, err := process.Memory(t.Context()); err != nil || got != want {
		t.Errorf("memory is %d, %v, want %d", got, err, want)
	}
}

// TestAnAgentBeforeCapabilitiesIsServed: it does not know the question, which is the answer, and is asked for nothing
// else.
func TestAnAgentBeforeCapabilitiesIsServed(t *testing.T) {
	a, _, process := agingPod(t)
	for range 3 {
		a.wants(t, process, 0)
	}
	if _, err := process.Restart(t.Context(), "k", nil); err != nil {
		t.Errorf("what it can do: %v", err)
	}
	if asked, told := a.becomes(nil); asked != 1 || told != 0 {
		t.Errorf("it was asked %d times for capabilities and %d times for what it does not tell", asked, told)
	}
}

// TestAPlanThatAnOldAgentWouldNotHeedIsRefused, where it would run the process without its hooks and say nothing.
func TestAPlanThatAnOldAgentWouldNotHeedIsRefused(t *testing.T) {
	a, listener, process := agingPod(t)
	plain, hooked := []byte(`{"process":{"command":["a"]}}`),
		[]byte(`{"process":{"command":["a"],"hooks":{"preStart":{"command":["b"]}}}}`)
	if _, err := process.Restart(t.Context(), "plain", plain); err != nil {
		t.Errorf("a plan without hooks: %v", err)
	}
	if got := a.timesAsked(); got != 0 {
		t.Errorf("it was asked %d times for what no plan needs", got)
	}
	for name, call := range map[string]func(context.Context, string, []byte) (report.Call, error){
		"Restart": process.Restart, "Reload": process.Reload} {
		if _, err := call(t.Context(), "hooked", hooked); !IsRefused(err) || !IsOutdated(err) ||
			!strings.Contains(ProblemOf(err), "too old to run the hooks") {
			t.Errorf("%s with hooks: %v", name, err)
		}
	}
	if len(a.plans) != 1 {
		t.Errorf("it got the plans %q", a.plans)
	}
	a.becomes(nil, agentv1.CapabilityHooks)
	listener.cut()
	for t.Context().Err() == nil {
		if _, err := process.Restart(t.Context(), "later", hooked); err == nil {
			break
		} else if IsRefused(err) && a.timesAsked() > 0 {
			t.Fatal(err)
		}
	}
	if len(a.plans) != 2 || a.plans[1] != string(hooked) {
		t.Errorf("it got the plans %q", a.plans)
	}
}

func TestCapabilitiesAreAskedForOnceAndWhenNeeded(t *testing.T) {
	a, _, process := agingPod(t)
	a.becomes(nil, "another", agentv1.CapabilityMemory)
	if _, err := process.Status(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := process.Restart(t.Context(), "k", nil); err != nil {
		t.Fatal(err)
	}
	if asked, _ := a.becomes(nil, "another", agentv1.CapabilityMemory); asked != 0 {
		t.Errorf("it was asked %d times for what the first version had", asked)
	}
	for range 3 {
		a.wants(t, process, 4096)
	}
	if asked, told := a.becomes(nil); asked != 1 || told != 3 {
		t.Errorf("it was asked %d times for capabilities and %d times for the status", asked, told)
	}
}

// TestCapabilitiesLastAsLongAsTheConnection: another agent may come back in the same pod, a newer one or, after a
// rollback, an older one.
func TestCapabilitiesLastAsLongAsTheConnection(t *testing.T) {
	a, listener, process := agingPod(t)
	a.wants(t, process, 0)
	for _, version := range []struct {
		names []string
		want  int64
	}{{[]string{agentv1.CapabilityMemory}, 4096}, {[]string{}, 0}, {[]string{agentv1.CapabilityMemory}, 4096}, {nil, 0}} {
		a.becomes(nil, version.names...)
		listener.cut()
		// A call that was on the connection when that ended is lost; whoever wanted it calls again.
		for {
			got, err := process.Memory(t.Context())
			if a.timesAsked() > 0 && err == nil {
				if got != version.want {
					t.Errorf("an agent that can %v: memory is %d, want %d", version.names, got, version.want)
				}
				break
			}
			if t.Context().Err() != nil {
				t.Fatal(t.Context().Err())
			}
		}
	}
}

func (a *aging) timesAsked() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.asked
}

// TestAnAgentThatFailsToSayWhatItCan is none that can nothing: the question is asked again.
func TestAnAgentThatFailsToSayWhatItCan(t *testing.T) {
	a, _, process := agingPod(t)
	a.becomes(status.Error(codes.Unavailable, "going down"))
	if got, err := process.Memory(t.Context()); err == nil || IsRefused(err) {
		t.Errorf("memory is %d, %v", got, err)
	}
	a.becomes(nil, agentv1.CapabilityMemory)
	a.wants(t, process, 4096)
}
