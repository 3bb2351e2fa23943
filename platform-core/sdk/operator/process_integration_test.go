// SPDX-License-Identifier: Apache-2.0

//go:build integration

package operator_test

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/platform-core/sdk/operator"
	"github.com/zeroinfra/platform-core/sdk/testkit"
	"github.com/zeroinfra/platform-core/sdk/testkit/example"
	"github.com/zeroinfra/platform-core/sdk/typed"
)

// asOperator has this test binary be the operator instead of testing it.
const asOperator = "TEST_RUNS_AS_OPERATOR"

var env *testkit.Env

func TestMain(m *testing.M) {
	if os.Getenv(asOperator) != "" {
		operator.Main(operator.Options{
			Domain:      "database",
			AddToScheme: []func(*runtime.Scheme) error{example.AddToScheme},
			Kinds:       []typed.Registration{typed.Register(example.Kind{})},
			CRDs:        []fs.FS{example.CRDs},
			Version:     "1.2.3",
		})
		return
	}
	testkit.Main(m, &env, testkit.EnvOptions{Own: "an operator installs its definitions and serves all namespaces",
		AddToScheme: []func(*runtime.Scheme) error{example.AddToScheme}})
}

// process is a running operator.
type process struct {
	*testing.T
	command        *exec.Cmd
	output         *lockedBuffer
	health, metric string
	// account is who it is for the API server.
	account *testkit.Operator
	ended   chan struct{}
}

// accounts are those of the operators, by namespace: a restart makes no new one.
var accounts = map[string]*testkit.Operator{}

func accountOf(t *testing.T, namespace string) *testkit.Operator {
	t.Helper()
	if accounts[namespace] == nil {
		account, err := env.Operator(t.Context(), namespace, example.Role())
		if err != nil {
			t.Fatal(err)
		}
		accounts[namespace] = account
	}
	return accounts[namespace]
}

// run starts an operator as a process of its own.
func run(t *testing.T, namespace string, arguments ...string) *process {
	t.Helper()
	account := accountOf(t, namespace)
	p := &process{account: account, T: t, output: &lockedBuffer{}, health: testkit.FreeAddress(t),
		metric: testkit.FreeAddress(t), ended: make(chan struct{})}
	p.command = exec.Command(os.Args[0], append([]string{
		"--kubeconfig=" + env.KubeconfigOf(t, account), "--namespace=" + namespace, "--agent-image=agent:test",
		"--health-probe-bind-address=" + p.health, "--metrics-bind-address=" + p.metric, "--log-format=console",
	}, arguments...)...)
	p.command.Env = append(os.Environ(), asOperator+"=1")
	p.command.Stdout, p.command.Stderr = p.output, p.output
	if err := p.command.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		_ = p.command.Wait() // Its code is read from ProcessState.
	}()
	t.Cleanup(func() {
		p.end(syscall.SIGKILL)
		// The operator of the next test, in a namespace of its own, has nobody to wait for.
		if err := client.IgnoreNotFound(env.Client.Delete(context.Background(), registry())); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("the operator said:\n%s", p.output)
		}
	})
	return p
}

// registry is where operators of the domain register.
func registry() *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Namespace: "kube-system", Name: "database-scopes.zeroinfra.github.com",
	}}
}

// end sends a signal, waits for the end and returns the exit code.
func (p *process) end(signal syscall.Signal) int {
	p.Helper()
	select {
	case <-p.ended:
	default:
		if err := p.command.Process.Signal(signal); err != nil {
			p.Logf("cannot signal the operator: %v", err)
		}
	}
	return p.exitCode()
}

func (p *process) exitCode() int {
	p.Helper()
	select {
	case <-p.ended:
	case <-time.After(testkit.Patience):
		p.Errorf("the operator did not end within %v", testkit.Patience)
		_ = p.command.Process.Kill() // What it left of it.
		<-p.ended
	}
	return p.command.ProcessState.ExitCode()
}

func (p *process) waitReady() {
	p.Helper()
	testkit.Eventually(p, "/readyz", func(ctx context.Context) error {
		select {
		case <-p.ended:
			p.Fatalf("the operator ended:\n%s", p.output)
		default:
		}
		_, err := testkit.Get(ctx, "http://"+p.health+"/readyz")
		return err
	})
}

// lockedBuffer takes the output of a process while the test reads it.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(data []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(data)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// expectNothingDenied fails when the account of an operator asked for what it has no right to.
func expectNothingDenied(t *testing.T, p *process) {
	t.Helper()
	found, err := env.Accesses(p.account.User)
	if err != nil {
		t.Fatal(err)
	}
	if len(found) == 0 {
		t.Error("the operator has asked for nothing: it is not who the test takes it for")
	}
	for access := range found {
		if access.Refused {
			t.Errorf("it was denied to %s %s/%s in namespace %q", access.Verb, access.Group, access.Resource, access.Namespace)
		}
	}
}
