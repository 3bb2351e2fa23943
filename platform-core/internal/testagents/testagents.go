// SPDX-License-Identifier: Apache-2.0

// Package testagents runs real agents for tests of controllers, where no kubelet does: each pod has a loopback address
// of its own, and its agents are processes of the test.
package testagents

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/zeroinfra/platform-core/agentproto/plan"
	"github.com/zeroinfra/platform-core/internal/pki"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// source is where the agents' module lies: beside the module of the test that runs.
func source() (string, error) {
	for dir := "."; ; dir = filepath.Join("..", dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return filepath.Join(dir, "..", "agents"), nil
		}
		if here, err := filepath.Abs(dir); err != nil || here == filepath.Dir(here) {
			return "", errors.New("the test does not run in a folder of a module")
		}
	}
}

// Main is the body of TestMain of a package whose tests run an agent of the module beside this one: it is built for
// them, and its path put into *path. The rest is testkit.Main's.
func Main(m *testing.M, agent string, path *string, env **testkit.Env, o testkit.EnvOptions) {
	dir, err := os.MkdirTemp("", "agent")
	if err == nil {
		*path, err = Build(dir, agent)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, errors.Join(err, os.RemoveAll(dir)))
		os.Exit(1)
	}
	o.After = func(*testkit.Env) error { return os.RemoveAll(dir) }
	testkit.Main(m, env, o)
}

// programsVariable names a folder with programs that were built for all packages.
const programsVariable = "TEST_PROGRAMS"

// Prebuilt returns the path of a program that was built for all packages, and whether it was.
func Prebuilt(name string) (string, bool) {
	path := filepath.Join(os.Getenv(programsVariable), name)
	_, err := os.Stat(path)
	return path, err == nil && filepath.IsAbs(path)
}

// Build builds an agent of that module into a folder, unless it was built for all packages, and returns its path.
func Build(dir, name string) (string, error) {
	if path, found := Prebuilt(name); found {
		return path, nil
	}
	from, err := source()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, name)
	command := exec.Command("go", "build", "-o", path, "./cmd/"+name)
	command.Dir, command.Env = from, append(os.Environ(), "GOWORK=off")
	if output, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("cannot build %s from %s: %w\n%s", name, from, err, output)
	}
	return path, nil
}

// Authority makes one of a domain.
func Authority(t testing.TB, domain string) *pki.Authority {
	t.Helper()
	data, err := pki.Generate(domain, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	authority, err := pki.Parse(domain, data)
	if err != nil {
		t.Fatal(err)
	}
	return authority
}

// FreePort is one that nobody listens on now.
func FreePort(t testing.TB) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().(*net.TCPAddr).Port
}

// networkPort is the port at which a test program claims a network: a listener there, which ends with the program, is
// the claim.
const networkPort = 4879

// network claims one of the loopback networks 127.1.0.0/16 to 127.254.0.0/16, which no other test program that runs
// has: agents listen on the same ports in all of them. The listener is kept, so that it is not collected.
var network = sync.OnceValue(func() net.Listener {
	for n := 1; n <= 254; n++ {
		if claim, err := net.Listen("tcp", fmt.Sprintf("127.%d.0.1:%d", n, networkPort)); err == nil {
			return claim
		}
	}
	panic(fmt.Sprintf("cannot claim a loopback network: port %d is in use in all of 127.1.0.0/16 to 127.254.0.0/16",
		networkPort))
})

// lastAddress is the last one that Address returned.
var lastAddress atomic.Int32

// Address is a loopback address that no other pod has, of this test program or of one that runs beside it.
func Address() string {
	n := lastAddress.Add(1)
	return fmt.Sprintf("127.%d.%d.%d", network().Addr().(*net.TCPAddr).IP.To4()[1], 7+n/250, 1+n%250)
}

// Pod is the folders of a pod.
type Pod struct {
	testing.TB
	// Root holds them.
	Root string
}

// NewPod makes the folders of a pod, with its plan and its certificate.
func NewPod(t testing.TB, authority *pki.Authority, namespace, name string, planJSON []byte) *Pod {
	t.Helper()
	p := &Pod{TB: t, Root: t.TempDir()}
	certificate, key, _, err := authority.IssueServer([]string{pki.AgentServerName(name, namespace)}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for path, data := range map[string][]byte{"plan/" + plan.PlanFile: planJSON, "tls/tls.crt": certificate,
		"tls/tls.key": key, "tls/ca.crt": authority.Bundle(),
		"run/.keep": nil, "config/.keep": nil, "secrets/.keep": nil} {
		p.Write(data, path)
	}
	return p
}

// Path is a file of the pod.
func (p *Pod) Path(parts ...string) string {
	return filepath.Join(append([]string{p.Root}, parts...)...)
}

// Write writes a file of the pod, and makes its folder.
func (p *Pod) Write(data []byte, parts ...string) {
	p.Helper()
	path := p.Path(parts...)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		p.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		p.Fatal(err)
	}
}

// Flags are those that all agents share.
func (p *Pod) Flags() []string {
	return []string{"--plan-dir", p.Path("plan"), "--run-dir", p.Path("run"), "--config-dir", p.Path("config"),
		"--secrets-dir", p.Path("secrets"),
		"--socket", p.Path("run", "s")}
}

// Start starts an agent with the arguments and Flags. It gets the variables beside those of the test. stop ends it
// gracefully and waits.
func (p *Pod) Start(agent string, variables []string, arguments ...string) (stop func()) {
	p.Helper()
	cmd := exec.Command(agent, append(arguments, p.Flags()...)...)
	cmd.Env = append(os.Environ(), variables...)
	cmd.Stdout, cmd.Stderr = p.Output(), p.Output()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := cmd.Start(); err != nil {
		p.Fatal(err)
	}
	ended := false
	stop = func() {
		if !ended {
			ended = true
			_ = cmd.Process.Signal(syscall.SIGTERM)
			_ = cmd.Wait()
		}
	}
	p.Cleanup(stop)
	return stop
}
