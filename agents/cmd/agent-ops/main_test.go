// SPDX-License-Identifier: Apache-2.0

//go:build processes

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/zeroinfra/agents/internal/testnet"
	"github.com/zeroinfra/agents/internal/testpki"
	"github.com/zeroinfra/agents/internal/testpod"
	"github.com/zeroinfra/platform-core/agentproto/plan"
	agentv1 "github.com/zeroinfra/platform-core/agentproto/v1"
)

// patience bounds every wait for a condition.
const patience = testpod.Patience

// asAgent has the test program be the agent.
const asAgent = "AGENT_OPS_TEST_AS_AGENT"

func TestMain(m *testing.M) {
	if os.Getenv(asAgent) != "" {
		os.Exit(execute())
	}
	os.Exit(m.Run())
}

// pod is a pod's folders, with its ops container as a process.
type pod struct {
	*testing.T
	root, listen string
	ca           *testpki.Authority
	said         bytes.Buffer
	// pid of the container's process.
	pid int
}

func newPod(t *testing.T, actions ...plan.Action) *pod {
	t.Helper()
	p := &pod{T: t, root: t.TempDir(), listen: testnet.FreeAddress(t), ca: testpki.New(t)}
	for _, dir := range []string{"plan", "config", "run", "tls"} {
		if err := os.MkdirAll(p.path(dir), 0o750); err != nil {
			t.Fatal(err)
		}
	}
	p.ca.Mount(t, p.path("tls"), p.ca)
	p.plan(plan.Plan{Actions: actions})
	return p
}

// plan has the pod mount a plan.
func (p *pod) plan(declared plan.Plan) {
	p.Helper()
	declared.Version, declared.Digest, declared.Process.Command = 1, "sha256:"+strings.Repeat("0", 64), []string{"true"}
	if err := os.WriteFile(p.path("plan", "plan.json"), must(json.Marshal(declared)), 0o600); err != nil {
		p.Fatal(err)
	}
}

// password has the pod mount one.
func (p *pod) password(credential, password string) {
	p.Helper()
	if err := os.MkdirAll(p.path("secrets", credential), 0o750); err != nil {
		p.Fatal(err)
	}
	if err := os.WriteFile(p.path("secrets", credential, "password"), []byte(password), 0o600); err != nil {
		p.Fatal(err)
	}
}

func (p *pod) path(parts ...string) string {
	return filepath.Join(append([]string{p.root}, parts...)...)
}

// start starts the container with more flags; stop ends it with a signal.
func (p *pod) start(flags ...string) (stop func(syscall.Signal)) {
	p.Helper()
	own, err := os.Executable()
	if err != nil {
		p.Fatal(err)
	}
	cmd := exec.Command(own, append([]string{"ops", "--plan-dir", p.path("plan"), "--config-dir", p.path("config"),
		"--run-dir", p.path("run"),
		"--secrets-dir", p.path("secrets"), "--tls-dir", p.path("tls"), "--socket", p.path("run", "process.sock"), "--listen",
		p.listen}, flags...)...)
	cmd.Env = append(os.Environ(), asAgent+"=1", "POD_NAME=etcd-0")
	cmd.Stdout = &p.said
	if err := cmd.Start(); err != nil {
		p.Fatal(err)
	}
	p.pid = cmd.Process.Pid
	ended := false
	stop = func(sig syscall.Signal) {
		if ended {
			return
		}
		ended = true
		if err := cmd.Process.Signal(sig); err != nil {
			p.Error(err)
		}
		err := cmd.Wait()
		if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
			p.Error(err)
		}
	}
	p.Cleanup(func() { stop(syscall.SIGTERM) })
	return stop
}

func (p *pod) client(issuer *testpki.Authority, name string) agentv1.OpsServiceClient {
	p.Helper()
	return agentv1.NewOpsServiceClient(p.conn(issuer, name))
}

func (p *pod) conn(issuer *testpki.Authority, name string) *grpc.ClientConn {
	p.Helper()
	config := p.ca.ClientConfig(p.T, issuer, testpki.Client(name))
	conn, err := grpc.NewClient(p.listen, grpc.WithTransportCredentials(credentials.NewTLS(config)),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() { conn.Close() })
	return conn
}

func (p *pod) operator() agentv1.OpsServiceClient { return p.client(p.ca, testpki.Operator) }

// run follows a call to its end, or to the first word of output where there is a until.
func (p *pod) run(c agentv1.OpsServiceClient, key, action, until string) (*agentv1.ActionRecord, string, error) {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.Context(), patience)
	defer cancel()
	return followRun(ctx, c, key, action, until)
}

// followRun is run for as long as the context lasts.
func followRun(ctx context.Context, c agentv1.OpsServiceClient, key, action, until string) (*agentv1.ActionRecord,
	string, error) {
	stream, err := c.Run(ctx, &agentv1.RunRequest{Header: &agentv1.CallHeader{IdempotencyKey: key}, Action: action})
	if err != nil {
		return nil, "", err
	}
	var record *agentv1.ActionRecord
	output := ""
	for {
		update, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return record, output, nil
		}
		if err != nil {
			return record, output, err
		}
		if call := update.GetCall(); call != nil {
			record = call
		}
		output += string(update.GetOutput().GetStdout())
		if until != "" && strings.Contains(output, until) {
			return record, output, nil
		}
	}
}

func TestActionIsRunForOperatorsOnly(t *testing.T) {
	p := newPod(t, plan.Action{Name: "greet", Description: "Greets.", Command: []string{"echo", "hello", "${pod.name}"},
		Outputs: map[string]string{"text": "stdout"}})
	p.start()
	c := p.operator()
	can, err := c.Capabilities(t.Context(), &agentv1.CapabilitiesRequest{})
	if err != nil || len(can.GetActions()) != 1 || can.GetActions()[0].GetName() != "greet" ||
		can.GetActions()[0].GetTimeoutSeconds() != 30 {
		t.Fatalf("got %v, %v", can, err)
	}
	record, output, err := p.run(c, "k", "greet", "")
	if err != nil || output != "hello etcd-0\n" || record.GetOutputs()["text"] != output ||
		record.GetRecord().GetPhase() != agentv1.CallPhase_CALL_PHASE_SUCCEEDED {
		t.Errorf("got %v, %q, %v", record, output, err)
	}
	if _, _, err := p.run(c, "k2", "none", ""); status.Code(err) != codes.NotFound {
		t.Errorf("an unknown action: %v", err)
	}
	for name, intruder := range map[string]agentv1.OpsServiceClient{
		"a peer":        p.client(p.ca, "spiffe://zeroinfra.github.com/agent/etcd-1"),
		"another CA":    p.client(testpki.New(t), testpki.Operator),
		"no one at all": p.client(nil, ""),
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		if _, err := intruder.Capabilities(ctx, &agentv1.CapabilitiesRequest{}); err == nil {
			t.Errorf("%s gets in", name)
		}
		cancel()
	}
}

func TestCallSurvivesTheCallerAndTheContainer(t *testing.T) {
	p := newPod(t)
	gate := p.path("gate")
	q := newPod(t,
		plan.Action{Name: "waits", Command: []string{"sh", "-c", "echo begun; until [ -e " + gate +
			" ]; do sleep 0.01; done; echo ended"}, Outputs: map[string]string{"text": "stdout"}},
		plan.Action{Name: "hangs", Command: []string{"sh", "-c", "echo begun; sleep 1000"}})
	stop := q.start()
	c := q.operator()
	// The caller goes in the middle, and comes again.
	if _, _, err := q.run(c, "waits", "waits", "begun"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	record, _, err := q.run(c, "waits", "waits", "")
	if err != nil || record.GetOutputs()["text"] != "begun\nended\n" {
		t.Errorf("got %v, %v", record, err)
	}
	// The container is killed in the middle: nobody knows, and nothing is begun again.
	if _, _, err := q.run(c, "hangs", "hangs", "begun"); err != nil {
		t.Fatal(err)
	}
	stop(syscall.SIGKILL)
	q.start()
	// A connection of its own: on the former one a call may still go out before that is known to be dead.
	c = q.operator()
	record, output, err := q.run(c, "hangs", "hangs", "")
	if err != nil || output != "" || record.GetRecord().GetPhase() != agentv1.CallPhase_CALL_PHASE_INTERRUPTED {
		t.Errorf("got %v, %q, %v", record, output, err)
	}
	if record, _, err := q.run(c, "waits", "waits", ""); err != nil || record.GetOutputs()["text"] != "begun\nended\n" {
		t.Errorf("got %v, %v", record, err)
	}
}

// TestCost reads what the agent costs where it does nothing, after it has done something.
func TestCost(t *testing.T) {
	p := newPod(t, plan.Action{Name: "greet", Command: []string{"echo", "hello"},
		Outputs: map[string]string{"text": "stdout"}})
	p.start()
	c := p.operator()
	for n := range 20 {
		if _, _, err := p.run(c, fmt.Sprint(n), "greet", ""); err != nil {
			t.Fatal(err)
		}
	}
	kib := memoryOf(t, p.pid)
	t.Logf("%d KiB resident after 20 actions", kib)
	// The test program holds the testing package and a client, too.
	if kib > 48<<10 {
		t.Errorf("%d KiB are resident: at most 48 MiB are allowed", kib)
	}
}

// memoryOf reads VmRSS of a process.
func memoryOf(t *testing.T, pid int) int {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for text := range strings.Lines(string(data)) {
		var kib int
		if n, _ := fmt.Sscanf(text, "VmRSS: %d kB", &kib); n == 1 {
			return kib
		}
	}
	t.Fatalf("process %d is no more", pid)
	return 0
}
