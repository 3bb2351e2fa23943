// SPDX-License-Identifier: Apache-2.0

//go:build processes

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/zeroinfra/agents/internal/testnet"
	"github.com/zeroinfra/agents/internal/testpki"
	"github.com/zeroinfra/agents/internal/testpod"
	"github.com/zeroinfra/platform-core/agentproto/plan"
	agentv1 "github.com/zeroinfra/platform-core/agentproto/v1"
)

// patience bounds every wait for a condition.
const patience = testpod.Patience

// asAgent has the test program be the agent.
const asAgent = "AGENT_TEST_AS_AGENT"

func TestMain(m *testing.M) {
	if as := os.Getenv(asMiddleware); as != "" {
		os.Exit(middleware(as, os.Args[1:]))
	}
	if os.Getenv(asAgent) != "" {
		os.Exit(execute())
	}
	os.Exit(m.Run())
}

// pod is a pod's folders, with its containers as processes.
type pod struct {
	*testing.T
	root   string
	listen string
	ca     *testpki.Authority
	// stdout and stderr are of the middleware's container.
	stdout, stderr *output
}

func newPod(t *testing.T) *pod {
	t.Helper()
	p := &pod{T: t, root: t.TempDir(), listen: testnet.FreeAddress(t), ca: testpki.New(t), stdout: &output{},
		stderr: &output{}}
	for _, dir := range []string{"plan", "config", "run", "secrets/default", "tls", "certs", "account", "data"} {
		if err := os.MkdirAll(p.path(dir), 0o750); err != nil {
			t.Fatal(err)
		}
	}
	p.ca.Mount(t, p.path("tls"), p.ca)
	return p
}

func (p *pod) path(parts ...string) string {
	return filepath.Join(append([]string{p.root}, parts...)...)
}

func (p *pod) write(path, content string) {
	p.Helper()
	if err := os.WriteFile(p.path(path), []byte(content), 0o600); err != nil {
		p.Fatal(err)
	}
}

func (p *pod) mount(pl *plan.Plan) {
	p.Helper()
	p.write("plan/plan.json", string(encode(p.T, pl)))
}

func encode(t *testing.T, pl *plan.Plan) []byte {
	t.Helper()
	data, err := json.Marshal(pl)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func digest(number int) string { return fmt.Sprintf("sha256:%064x", number) }

// script is a plan that runs a shell script as the middleware.
func script(text string) *plan.Plan {
	return &plan.Plan{Version: 1, Digest: digest(1), RestartDigest: digest(1000),
		Process: plan.Process{Command: []string{"sh", "-c", text}}}
}

func (p *pod) flags() []string {
	return []string{"--plan-dir", p.path("plan"), "--config-dir", p.path("config"), "--run-dir", p.path("run"),
		"--secrets-dir", p.path("secrets"), "--certificates-dir", p.path("certs"), "--socket", p.path("run/process.sock")}
}

// container is a running agent.
type container struct {
	*exec.Cmd
	t    *testing.T
	done chan struct{}
}

// run starts the middleware's container; the prefix is a command that runs it.
func (p *pod) run(prefix ...string) *container {
	p.Helper()
	argv := append(append(prefix, ownPath(p.T), "run", "--tls-dir", p.path("tls"), "--listen", p.listen), p.flags()...)
	return p.start(p.stdout, p.stderr, []string{"POD_NAME=redis-0"}, argv)
}

func (p *pod) start(stdout, stderr io.Writer, env, argv []string) *container {
	p.Helper()
	c := &container{Cmd: exec.Command(argv[0], argv[1:]...), t: p.T, done: make(chan struct{})}
	c.Env = append(append(os.Environ(), asAgent+"=1"), env...)
	c.Stdout, c.Stderr = stdout, stderr
	c.WaitDelay = time.Second
	if err := c.Start(); err != nil {
		p.Fatal(err)
	}
	go func() {
		defer close(c.done)
		// The exit code is read from the state.
		_ = c.Wait()
	}()
	p.Cleanup(func() { c.stop(syscall.SIGTERM) })
	return c
}

// stop sends a signal and returns the exit code.
func (c *container) stop(sig syscall.Signal) int {
	c.t.Helper()
	if err := c.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		c.t.Fatal(err)
	}
	return c.code()
}

// code waits for the end and returns the exit code.
func (c *container) code() int {
	c.t.Helper()
	select {
	case <-c.done:
	case <-time.After(patience):
		if err := c.Process.Kill(); err != nil {
			c.t.Error(err)
		}
		c.t.Fatal("the container did not end")
	}
	return c.ProcessState.ExitCode()
}

func ownPath(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// client calls the process manager as an operator.
func (p *pod) client() agentv1.ProcessServiceClient {
	p.Helper()
	config := p.ca.ClientConfig(p.T, p.ca, testpki.Client(testpki.Operator))
	conn, err := grpc.NewClient(p.listen, grpc.WithTransportCredentials(credentials.NewTLS(config)),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() { conn.Close() })
	return agentv1.NewProcessServiceClient(conn)
}

func (p *pod) ctx() context.Context {
	ctx, cancel := context.WithTimeout(p.Context(), patience)
	p.Cleanup(cancel)
	return ctx
}

// await follows the status until the condition holds.
func (p *pod) await(client agentv1.ProcessServiceClient, what string,
	holds func(*agentv1.ProcessStatus) bool) *agentv1.ProcessStatus {
	p.Helper()
	stream, err := client.WatchStatus(p.ctx(), &agentv1.WatchStatusRequest{})
	if err != nil {
		p.Fatal(err)
	}
	var last *agentv1.ProcessStatus
	for {
		status, err := stream.Recv()
		if err != nil {
			p.Fatalf("waiting for %s: %v; the status was %v; log:\n%s", what, err, last, p.stderr)
		}
		if last = status; holds(status) {
			return status
		}
	}
}

func isRunning(s *agentv1.ProcessStatus) bool {
	return s.GetState() == agentv1.ProcessState_PROCESS_STATE_RUNNING
}

// callDone waits until the call with the key is over, and returns its record.
func (p *pod) callDone(client agentv1.ProcessServiceClient, key string) *agentv1.CallRecord {
	p.Helper()
	return p.await(client, "call "+key, func(s *agentv1.ProcessStatus) bool {
		return s.GetLastCall().GetIdempotencyKey() == key &&
			s.GetLastCall().GetPhase() != agentv1.CallPhase_CALL_PHASE_RUNNING
	}).GetLastCall()
}

// eventually waits until the condition holds; it returns an error while it does not.
var eventually = testpod.Eventually

// output collects what a container writes.
type output struct {
	mu   sync.Mutex
	text strings.Builder
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// awaitOutput waits until the container has written the text.
func (p *pod) awaitOutput(text string) {
	p.Helper()
	eventually(p.T, func() error {
		if !strings.Contains(p.stdout.String(), text) {
			return fmt.Errorf("%q is not in the output %q; log:\n%s", text, p.stdout, p.stderr)
		}
		return nil
	})
}

// namespace runs a command as PID 1 of a PID namespace; without root, in a user namespace, too.
func namespace() []string {
	argv := []string{"unshare", "--pid", "--fork", "--kill-child", "--mount-proc"}
	if os.Geteuid() != 0 {
		argv = append(argv, "--user", "--map-root-user")
	}
	return argv
}

// inner is the number of PID 1 of the namespace, as seen from outside.
func (c *container) inner() int {
	c.t.Helper()
	var pid int
	eventually(c.t, func() error {
		all := children(c.t, c.Process.Pid)
		if len(all) != 1 {
			return fmt.Errorf("children of unshare are %v", all)
		}
		pid = all[0]
		return nil
	})
	return pid
}

func children(t *testing.T, pid int) []int {
	t.Helper()
	var all []int
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		data, err := os.ReadFile(task)
		if err != nil {
			continue // the thread has ended
		}
		for _, field := range strings.Fields(string(data)) {
			child, err := strconv.Atoi(field)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, child)
		}
	}
	return all
}
