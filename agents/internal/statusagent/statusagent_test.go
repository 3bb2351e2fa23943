// SPDX-License-Identifier: Apache-2.0

package statusagent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"

	"github.com/zeroinfra/agents/internal/planfile"
	"github.com/zeroinfra/agents/internal/publish"
	"github.com/zeroinfra/agents/internal/reaper"
	"github.com/zeroinfra/agents/internal/statusagent"
	"github.com/zeroinfra/agents/internal/testpod"
	"github.com/zeroinfra/platform-core/agentproto/permission"
	"github.com/zeroinfra/platform-core/agentproto/plan"
	"github.com/zeroinfra/platform-core/agentproto/report"
	agentv1 "github.com/zeroinfra/platform-core/agentproto/v1"
)

var shared = sync.OnceValues(func() (*reaper.Reaper, error) { return reaper.New(slog.New(slog.DiscardHandler)) })

// manager is a process manager that says what the test wants.
type manager struct {
	agentv1.UnimplementedProcessServiceServer
	mu      sync.Mutex
	status  *agentv1.ProcessStatus
	changed chan struct{}
}

func (m *manager) set(status *agentv1.ProcessStatus) {
	m.mu.Lock()
	defer m.mu.Unlock()
	close(m.changed)
	m.status, m.changed = status, make(chan struct{})
}

func (m *manager) WatchStatus(_ *agentv1.WatchStatusRequest,
	stream grpc.ServerStreamingServer[agentv1.ProcessStatus]) error {
	for {
		m.mu.Lock()
		status, changed := m.status, m.changed
		m.mu.Unlock()
		if err := stream.Send(status); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-stream.Context().Done():
			return nil
		}
	}
}

// pod is a status agent with a process manager and a reader of its reports.
type pod struct {
	*testing.T
	dirs    planfile.Dirs
	manager *manager
	ready   string

	mu      sync.Mutex
	reports []report.Report
}

func start(t *testing.T, probe plan.Probe) *pod {
	t.Helper()
	root := t.TempDir()
	p := &pod{T: t, dirs: planfile.Dirs{Plan: root, Config: root + "/config", Run: root, Secrets: root, Pod: root},
		manager: &manager{status: up(7, 1), changed: make(chan struct{})}}
	p.mount(probe)
	socket := filepath.Join(root, "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	agentv1.RegisterProcessServiceServer(server, p.manager)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})

	log := slog.New(slog.DiscardHandler)
	publisher, err := publish.New(filepath.Join(root, "report"), p.write, log)
	if err != nil {
		t.Fatal(err)
	}
	reap, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	readyz, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p.ready = readyz.Addr().String()
	ready := &statusagent.Readiness{}
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() {
		if err := ready.Serve(ctx, readyz, log); err != nil {
			t.Error(err)
		}
	})
	group.Go(func() {
		statusagent.Agent{Dirs: p.dirs, Socket: socket, Starter: reap, Publisher: publisher, Read: noRead, Ready: ready,
			Log: log}.Run(ctx)
	})
	t.Cleanup(func() { cancel(); group.Wait() })
	return p
}

func up(pid, starts int64) *agentv1.ProcessStatus {
	return &agentv1.ProcessStatus{State: agentv1.ProcessState_PROCESS_STATE_RUNNING, Pid: pid, Starts: starts}
}

func (p *pod) mount(probe plan.Probe) {
	p.Helper()
	data, err := json.Marshal(&plan.Plan{Version: 1, Digest: fmt.Sprintf("sha256:%064x", 1),
		Process: plan.Process{Command: []string{"x"}}, Probe: probe})
	if err != nil {
		p.Fatal(err)
	}
	p.put(string(data))
}

// put replaces the mounted plan as the kubelet does: with another file.
func (p *pod) put(content string) {
	p.Helper()
	next := p.dirs.MountedPath() + ".next"
	if err := os.WriteFile(next, []byte(content), 0o600); err != nil {
		p.Fatal(err)
	}
	if err := os.Rename(next, p.dirs.MountedPath()); err != nil {
		p.Fatal(err)
	}
}

func (p *pod) write(_ context.Context, text string) error {
	r, err := report.Parse(text)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reports = append(p.reports, r)
	return nil
}

// await waits until the latest report fulfils the condition.
func (p *pod) await(what string, holds func(report.Report) bool) {
	p.Helper()
	testpod.Eventually(p.T, func() error {
		p.mu.Lock()
		defer p.mu.Unlock()
		if n := len(p.reports); n > 0 && holds(p.reports[n-1]) {
			return nil
		}
		return fmt.Errorf("waiting for %s; the reports are %+v", what, p.reports)
	})
}

func isHealthy(r report.Report) bool { return r.Health == report.Healthy }

// slow is an interval that no test waits for.
const slow = 3600

func TestProbesSoonWhileNotHealthy(t *testing.T) {
	count := filepath.Join(t.TempDir(), "count")
	p := start(t, plan.Probe{Command: []string{"sh", "-c", `echo >>"` + count + `"; [ $(wc -l <"` + count + `") -ge 4 ]`},
		IntervalSeconds: slow})
	p.await("health", isHealthy)
	if data, err := os.ReadFile(count); err != nil || len(data) != 4 {
		t.Errorf("the probe ran %d times, %v", len(data), err)
	}
}

func TestProbesAtOnceWhenTheProcessChanges(t *testing.T) {
	role := filepath.Join(t.TempDir(), "role")
	set := func(text string) {
		if err := os.WriteFile(role, []byte("role="+text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	set("primary")
	p := start(t, plan.Probe{Command: []string{"cat", role}, Role: "fields['role']", IntervalSeconds: slow})
	p.await("the first role", func(r report.Report) bool { return r.Role == "primary" && r.Starts == 1 })
	set("secondary")
	p.manager.set(up(8, 2))
	p.await("the second role", func(r report.Report) bool { return r.Role == "secondary" && r.Starts == 2 })
	p.manager.set(&agentv1.ProcessStatus{State: agentv1.ProcessState_PROCESS_STATE_STOPPED, Starts: 2})
	p.await("the stop", func(r report.Report) bool { return r.Health == report.Stopped && r.Role == "" })
	p.manager.set(up(9, 3))
	p.await("the third start", func(r report.Report) bool { return isHealthy(r) && r.Starts == 3 })
}

func TestProbeOfAProcessThatIsGoneIsCutShort(t *testing.T) {
	hang := filepath.Join(t.TempDir(), "hang")
	if err := os.WriteFile(hang, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	started := hang + ".started"
	p := start(t, plan.Probe{Command: []string{"sh", "-c", `[ ! -e "` + hang + `" ] || { touch "` + started +
		`"; exec sleep 1000; }`}, TimeoutSeconds: slow, IntervalSeconds: slow})
	testpod.Eventually(t, func() error {
		_, err := os.Stat(started)
		return err
	})
	if err := os.Remove(hang); err != nil {
		t.Fatal(err)
	}
	p.manager.set(up(8, 2))
	p.await("health of the second process", func(r report.Report) bool { return isHealthy(r) && r.Starts == 2 })
}

func TestPlanThatCannotBeUsed(t *testing.T) {
	p := start(t, plan.Probe{Command: []string{"true"}, Healthy: "exitCode"})
	p.await("the reason", func(r report.Report) bool {
		return r.Health == report.Unhealthy && strings.Contains(r.Message, "cannot compile expression healthy")
	})
	p.mount(plan.Probe{Command: []string{"true"}, Version: "'1'", IntervalSeconds: 1})
	p.await("the mended plan", func(r report.Report) bool { return isHealthy(r) && r.Version == "1" })
	// A later plan that cannot be used leaves the last one in place; the next good one is taken.
	p.put("{")
	p.mount(plan.Probe{Command: []string{"true"}, Version: "'2'", IntervalSeconds: 1})
	p.await("the next plan", func(r report.Report) bool { return isHealthy(r) && r.Version == "2" })
	p.mu.Lock()
	defer p.mu.Unlock()
	if got := len(p.reports); got != 3 {
		t.Errorf("%d reports: %+v", got, p.reports)
	}
}

// A plan that asks for the zone of the node is used once the operator has told the pod, although it is the same file.
func TestPlanThatAsksForTheZone(t *testing.T) {
	p := start(t, plan.Probe{Command: []string{"echo", "zone=${pod.zone}"},
		Attributes: map[string]string{"zone": "fields['zone']"}})
	p.await("the reason", func(r report.Report) bool {
		return r.Health == report.Unhealthy && strings.Contains(r.Message, "zone of the pod's node is not known yet")
	})
	if err := os.WriteFile(filepath.Join(p.dirs.Pod, plan.ZoneFile), []byte(`"eu-1a"`), 0o600); err != nil {
		t.Fatal(err)
	}
	p.await("the zone", func(r report.Report) bool { return isHealthy(r) && r.Attributes["zone"] == "eu-1a" })
}

func TestReadyz(t *testing.T) {
	flag := filepath.Join(t.TempDir(), "ok")
	p := start(t, plan.Probe{Command: []string{"test", "-e", flag}, IntervalSeconds: 1, FailureThreshold: 1})
	want := func(code int, text string) {
		t.Helper()
		testpod.Eventually(t, func() error {
			response, err := http.Get("http://" + p.ready + "/readyz")
			if err != nil {
				return err
			}
			defer response.Body.Close()
			body, err := io.ReadAll(response.Body)
			if err != nil || response.StatusCode != code || !strings.Contains(string(body), text) {
				return fmt.Errorf("got %d, %q, %w; want %d, %q", response.StatusCode, body, err, code, text)
			}
			return nil
		})
	}
	want(http.StatusServiceUnavailable, "Starting: the probe failed with exit code 1")
	if err := os.WriteFile(flag, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	want(http.StatusOK, "Healthy")
	if err := os.Remove(flag); err != nil {
		t.Fatal(err)
	}
	want(http.StatusServiceUnavailable, "Unhealthy: the probe failed with exit code 1")
	if response, err := http.Post("http://"+p.ready+"/readyz", "text/plain", nil); err != nil ||
		response.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST: got %v, %v", response, err)
	}
}

// A password that changes in the pod before it does in the process fails no probe; and the process that has it is well
// at once.
func TestProbesWithThePasswordOfTheProcess(t *testing.T) {
	server := filepath.Join(t.TempDir(), "server")
	put := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path+".next", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".next", path); err != nil {
			t.Fatal(err)
		}
	}
	count := server + ".count"
	put(server, "old")
	p := start(t, plan.Probe{
		Command:         []string{"sh", "-c", `echo >>"` + count + `"; [ "$PASSWORD" = "$(cat "` + server + `")" ]`},
		Env:             []plan.EnvVar{{Name: "PASSWORD", Secret: &plan.SecretRef{Credential: "default", Key: "password"}}},
		IntervalSeconds: 1, FailureThreshold: 1,
	})
	mounted := filepath.Join(p.dirs.Secrets, "default", "password")
	put(mounted, "old")
	p.await("health", isHealthy)
	put(mounted, "new")
	probed := func() int {
		data, err := os.ReadFile(count)
		if err != nil {
			t.Fatal(err)
		}
		return len(data)
	}
	before := probed()
	testpod.Eventually(t, func() error {
		if n := probed() - before; n < 2 {
			return fmt.Errorf("%d probes with another password in the pod", n)
		}
		return nil
	})
	// A crash: the process has the old one still.
	p.manager.set(up(8, 2))
	p.await("health after a crash", func(r report.Report) bool { return isHealthy(r) && r.Starts == 2 })
	put(server, "new")
	p.manager.set(up(9, 3))
	p.await("health with the new password", func(r report.Report) bool { return isHealthy(r) && r.Starts == 3 })
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.reports {
		if r.Health == report.Unhealthy {
			t.Errorf("it was reported as %+v", r)
		}
	}
}

// noRead is for a process manager that wants none.
func noRead(context.Context, string) (permission.Record, error) {
	return permission.Record{}, errors.New("no read was expected")
}
