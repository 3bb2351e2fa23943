// SPDX-License-Identifier: Apache-2.0

//go:build processes

package main

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/zeroinfra/agents/internal/testnet"
	"github.com/zeroinfra/platform-core/agentproto/plan"
	"github.com/zeroinfra/platform-core/agentproto/report"
	agentv1 "github.com/zeroinfra/platform-core/agentproto/v1"
)

// password tries to leave its place in the configuration file.
const password = "p\"w'\\ \tüñ\r\nmaxmemory 1\n# x"

// api keeps the reports that are written to the pod's annotation.
type api struct {
	*httptest.Server

	mu      sync.Mutex
	reports []report.Report
	away    bool
}

func newAPI(p *pod) *api {
	a := &api{}
	a.Server = httptest.NewTLSServer(http.HandlerFunc(a.patch))
	p.Cleanup(a.Close)
	p.write("account/ca.crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.Certificate().Raw})))
	p.write("account/token", "token")
	return a
}

func (a *api) patch(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var patch struct {
		Metadata struct{ Annotations map[string]string }
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.away || err != nil || r.Header.Get("Authorization") != "Bearer token" || json.Unmarshal(body, &patch) != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	got, err := report.Parse(patch.Metadata.Annotations[report.Annotation])
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	a.reports = append(a.reports, got)
	io.WriteString(w, "{}")
}

func (a *api) setAway(away bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.away = away
}

func (a *api) all() []report.Report {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.reports)
}

// await waits until the latest report fulfils the condition.
func (a *api) await(p *pod, what string, holds func(report.Report) bool) report.Report {
	p.Helper()
	var last report.Report
	eventually(p.T, func() error {
		all := a.all()
		if len(all) > 0 {
			last = all[len(all)-1]
			if holds(last) {
				return nil
			}
		}
		return fmt.Errorf("waiting for %s; the reports are %+v; log:\n%s", what, all, p.stderr)
	})
	return last
}

// redisPod is a pod with a real Redis.
type redisPod struct {
	*pod
	api   *api
	port  string
	ready string
}

func newRedisPod(t *testing.T) *redisPod {
	t.Helper()
	for _, tool := range []string{"redis-server", "redis-cli"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Fatalf("%v: install Debian's package redis-server", err)
		}
	}
	p := &redisPod{pod: newPod(t), ready: testnet.FreeAddress(t)}
	p.api = newAPI(p.pod)
	_, port, err := net.SplitHostPort(testnet.FreeAddress(t))
	if err != nil {
		t.Fatal(err)
	}
	p.port = port
	p.write("secrets/default/password", password)
	p.mount(p.plan(1, "50mb"))
	return p
}

func (p *redisPod) plan(number int, maxmemory string) *plan.Plan {
	secret := &plan.SecretRef{Credential: "default", Key: "password"}
	conf := p.path("config/redis.conf")
	return &plan.Plan{
		Version: 1, Digest: digest(number),
		Process: plan.Process{Command: []string{"redis-server", conf}},
		Files: []plan.File{{Path: conf, Format: plan.FormatRedis, Entries: []plan.Entry{
			{Key: "bind", Args: []string{"127.0.0.1"}}, {Key: "port", Args: []string{p.port}},
			{Key: "dir", Args: []string{p.path("data")}},
			{Key: "appendonly", Args: []string{"yes"}}, {Key: "appendfsync", Args: []string{"always"}},
			{Key: "save", Args: []string{""}},
			{Key: "requirepass", Secret: secret}, {Key: "maxmemory", Args: []string{maxmemory}}}}},
		Probe: plan.Probe{
			Command: []string{"redis-cli", "-p", p.port, "INFO"}, Env: []plan.EnvVar{{Name: "REDISCLI_AUTH", Secret: secret}},
			IntervalSeconds: 1,
			Healthy:         "exitCode == 0 && fields['loading'] == '0'",
			Role:            "fields['role'] == 'master' ? 'primary' : 'secondary'",
			Version:         "fields['redis_version']", Attributes: map[string]string{"maxmemory": "fields['maxmemory_human']"},
		},
	}
}

func (p *redisPod) status() *container {
	p.Helper()
	return p.statusOf(ownPath(p.T))
}

// statusOf starts a binary as the status agent.
func (p *redisPod) statusOf(binary string) *container {
	p.Helper()
	host, port, err := net.SplitHostPort(p.api.Listener.Addr().String())
	if err != nil {
		p.Fatal(err)
	}
	env := []string{"POD_NAME=redis-0", "POD_NAMESPACE=demo", "KUBERNETES_SERVICE_HOST=" + host,
		"KUBERNETES_SERVICE_PORT=" + port}
	argv := append([]string{binary, "status", "--listen", p.ready, "--service-account-dir", p.path("account")},
		p.flags()...)
	return p.start(p.stderr, p.stderr, env, argv)
}

// cli is one command of a real client.
func (p *redisPod) cli(args ...string) (string, error) { return p.cliAs(password, args...) }

func (p *redisPod) cliAs(password string, args ...string) (string, error) {
	cmd := exec.Command("redis-cli", append([]string{"-p", p.port}, args...)...)
	cmd.Env = append(cmd.Environ(), "REDISCLI_AUTH="+password)
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func (p *redisPod) wantReply(want string, args ...string) {
	p.Helper()
	if got, err := p.cli(args...); err != nil || got != want {
		p.Errorf("%v: got %q, %v; want %q", args, got, err, want)
	}
}

// readyz asks as the kubelet does.
func (p *redisPod) readyz() (int, string) {
	p.Helper()
	response, err := http.Get("http://" + p.ready + "/readyz")
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		p.Fatal(err)
	}
	return response.StatusCode, string(body)
}

func (p *redisPod) awaitReady(code int) {
	p.Helper()
	eventually(p.T, func() error {
		if got, said := p.readyz(); got != code {
			return fmt.Errorf("/readyz is %d, %s; log:\n%s", got, said, p.stderr)
		}
		return nil
	})
}

func isHealthy(r report.Report) bool { return r.Health == report.Healthy }

func TestRedis(t *testing.T) {
	p := newRedisPod(t)
	p.status()
	p.run()
	begin := time.Now()
	first := p.api.await(p.pod, "health", isHealthy)
	t.Logf("reported healthy %v after the start of the container", time.Since(begin))
	if first.Role != "primary" || first.Version == "" || first.ConfigDigest != digest(1) || first.Starts != 1 ||
		first.Attributes["maxmemory"] != "50.00M" {
		t.Errorf("report is %+v", first)
	}
	p.awaitReady(http.StatusOK)
	if got := len(p.api.all()); got != 1 {
		t.Errorf("%d writes until healthy: %+v", got, p.api.all())
	}
	// The password is one value, and nothing of it became a setting.
	p.wantReply("maxmemory\n52428800", "CONFIG", "GET", "maxmemory")
	p.wantReply("OK", "SET", "key", "value")

	t.Run("kill -9", p.testKill)
	t.Run("Restart with a plan", p.testRestart)
	t.Run("Stop and Start", p.testStop)
	t.Run("API away", p.testAway)
	t.Run("hung process", p.testHung)
}

func (p *redisPod) testKill(t *testing.T) {
	client := p.client()
	before := p.await(client, "the process", isRunning)
	writes := len(p.api.all())
	if err := syscall.Kill(int(before.GetPid()), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	eventually(t, func() error {
		if got, err := p.cli("GET", "key"); err != nil || got != "value" {
			return fmt.Errorf("got %q, %v", got, err)
		}
		return nil
	})
	took := time.Since(begin)
	t.Logf("answers again %v after kill -9", took)
	if took > 2*time.Second {
		t.Errorf("healing took %v", took)
	}
	after := p.api.await(p.pod, "the second start", func(r report.Report) bool { return isHealthy(r) && r.Starts == 2 })
	if after.Role != "primary" {
		t.Errorf("report is %+v", after)
	}
	status := p.await(client, "the process", isRunning)
	if status.GetLastExit() != "signal SIGKILL" || status.GetPid() == before.GetPid() {
		t.Errorf("status is %v", status)
	}
	t.Logf("%d API writes for it", len(p.api.all())-writes)
}

func (p *redisPod) testRestart(t *testing.T) {
	client := p.client()
	bad := p.plan(2, "60mb")
	bad.Files[0].Entries[6].Secret = &plan.SecretRef{Credential: "absent", Key: "password"}
	before := p.await(client, "the process", isRunning)
	restart := func(key string, pl *plan.Plan) *agentv1.CallRecord {
		header := &agentv1.CallHeader{IdempotencyKey: key, Term: 1}
		if _, err := client.Restart(p.ctx(),
			&agentv1.RestartRequest{Header: header, Plan: encode(t, pl)}); err != nil {
			t.Fatal(err)
		}
		return p.callDone(client, key)
	}
	if got := restart("bad", bad); got.GetPhase() != agentv1.CallPhase_CALL_PHASE_FAILED ||
		!strings.Contains(got.GetMessage(), "absent/password") {
		t.Errorf("got %v", got)
	}
	if now := p.await(client, "the process", isRunning); now.GetPid() != before.GetPid() {
		t.Errorf("the process was touched: %v", now)
	}
	begin := time.Now()
	if got := restart("good", p.plan(2, "60mb")); got.GetPhase() != agentv1.CallPhase_CALL_PHASE_SUCCEEDED {
		t.Errorf("got %v", got)
	}
	t.Logf("Restart took %v until its outcome", time.Since(begin))
	p.wantReply("maxmemory\n62914560", "CONFIG", "GET", "maxmemory")
	p.wantReply("value", "GET", "key")
	got := p.api.await(p.pod, "the outcome", func(r report.Report) bool {
		return isHealthy(r) && r.LastCall != nil && r.LastCall.Key == "good" && r.LastCall.Phase == report.CallSucceeded
	})
	if got.ConfigDigest != digest(2) {
		t.Errorf("report is %+v", got)
	}
}

func (p *redisPod) testStop(t *testing.T) {
	client := p.client()
	if _, err := client.Stop(p.ctx(), &agentv1.StopRequest{
		Header: &agentv1.CallHeader{IdempotencyKey: "stop", Term: 1}}); err != nil {
		t.Fatal(err)
	}
	p.api.await(p.pod, "the stop", func(r report.Report) bool {
		return r.Health == report.Stopped && r.LastCall.Phase == report.CallSucceeded
	})
	p.awaitReady(http.StatusServiceUnavailable)
	if _, err := client.Start(p.ctx(), &agentv1.StartRequest{
		Header: &agentv1.CallHeader{IdempotencyKey: "start", Term: 1}}); err != nil {
		t.Fatal(err)
	}
	p.api.await(p.pod, "the start", func(r report.Report) bool {
		return isHealthy(r) && r.LastCall.Key == "start" && r.LastCall.Phase == report.CallSucceeded
	})
	p.awaitReady(http.StatusOK)
	p.wantReply("value", "GET", "key")
}

func (p *redisPod) testAway(t *testing.T) {
	p.api.setAway(true)
	for _, memory := range []string{"70mb", "80mb"} {
		p.wantReply("OK", "CONFIG", "SET", "maxmemory", memory)
	}
	p.api.setAway(false)
	p.api.await(p.pod, "the latest report", func(r report.Report) bool { return r.Attributes["maxmemory"] == "80.00M" })
}

func (p *redisPod) testHung(t *testing.T) {
	pid := int(p.await(p.client(), "the process", isRunning).GetPid())
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	p.api.await(p.pod, "the hung process", func(r report.Report) bool {
		return r.Health == report.Unhealthy && strings.Contains(r.Message, "deadline") && r.Role == ""
	})
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	p.api.await(p.pod, "health", isHealthy)
}

func TestRestartOfTheStatusContainerAloneWritesNothing(t *testing.T) {
	p := newRedisPod(t)
	p.run()
	c := p.status()
	p.api.await(p.pod, "health", isHealthy)
	for range 2 {
		if got := c.stop(syscall.SIGTERM); got != 0 {
			t.Errorf("exit code is %d; log:\n%s", got, p.stderr)
		}
		c = p.status()
		p.awaitReady(http.StatusOK)
	}
	p.wantReply("OK", "CONFIG", "SET", "maxmemory", "90mb")
	p.api.await(p.pod, "the change", func(r report.Report) bool { return r.Attributes["maxmemory"] == "90.00M" })
	if got := len(p.api.all()); got != 2 {
		t.Errorf("%d writes: %+v", got, p.api.all())
	}
}

func TestProbeOfAChangedPlanIsUsed(t *testing.T) {
	p := newRedisPod(t)
	c := p.run()
	p.status()
	p.api.await(p.pod, "health", isHealthy)
	changed := p.plan(1, "50mb")
	changed.Probe.Attributes = map[string]string{"mode": "fields['redis_mode']"}
	p.mount(changed)
	p.api.await(p.pod, "the new attribute",
		func(r report.Report) bool { return r.Attributes["mode"] == "standalone" && r.Starts == 1 })
	// The container of the middleware goes and comes back.
	c.stop(syscall.SIGTERM)
	p.awaitReady(http.StatusServiceUnavailable)
	p.run()
	p.api.await(p.pod, "the next container", func(r report.Report) bool { return isHealthy(r) && r.Starts == 2 })
}

func TestStatusNeedsItsPod(t *testing.T) {
	p := newPod(t)
	argv := append([]string{ownPath(t), "status", "--listen", testnet.FreeAddress(t)}, p.flags()...)
	env := []string{"POD_NAME=", "POD_NAMESPACE=", "KUBERNETES_SERVICE_HOST=", "KUBERNETES_SERVICE_PORT="}
	if got := p.start(p.stderr, p.stderr, env, argv).code(); got != 1 || !strings.Contains(p.stderr.String(), "POD_NAME") {
		t.Errorf("exit code is %s, log:\n%s", strconv.Itoa(got), p.stderr)
	}
}
