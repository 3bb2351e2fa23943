// SPDX-License-Identifier: Apache-2.0

//go:build integration

package workflow

import (
	"context"
	"io/fs"
	"os"
	"os/exec"
	"sync"
	"testing"

	batchv1api "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/zeroinfra/platform-core/sdk/operator"
	"github.com/zeroinfra/platform-core/sdk/testkit"

	batchv1 "github.com/zeroinfra/batch-operator/api/v1"
	"github.com/zeroinfra/batch-operator/config/crd"
	"github.com/zeroinfra/batch-operator/internal/cronjob"
)

const (
	// asOperator has this test binary be the operator instead of testing it.
	asOperator = "TEST_RUNS_AS_OPERATOR"
	system     = "zeroinfra-system"
)

var env *testkit.Env

func TestMain(m *testing.M) {
	if os.Getenv(asOperator) != "" {
		operator.Main(operator.Options{
			Domain: domain, AddToScheme: []func(*runtime.Scheme) error{batchv1.AddToScheme},
			Controllers: []operator.Controller{Kind{}, cronjob.Kind{}}, CRDs: []fs.FS{crd.FS}, Version: "1.2.3",
		})
		return
	}
	testkit.Main(m, &env, testkit.EnvOptions{
		Own:         "an operator installs its definitions and serves all namespaces",
		AddToScheme: []func(*runtime.Scheme) error{batchv1.AddToScheme},
		CRDs:        []fs.FS{os.DirFS("../../../platform-core/config/crd/bases"), crd.FS},
		System:      system, Roles: []fs.FS{os.DirFS("../../config/rbac")},
	})
}

// serve runs the whole operator as a process until the test ends, or kill is called: it has no time to put anything in
// order, and the next one leads at once.
func serve(t testing.TB) (kill func()) {
	t.Helper()
	return startAs(t, env.System).kill
}

// start is serve, and tells which process it is.
func start(t testing.TB) (pid int, kill func()) {
	t.Helper()
	p := startAs(t, env.System)
	return p.command.Process.Pid, p.kill
}

// process is the whole operator as a process.
type process struct {
	testing.TB
	command *exec.Cmd
	// output is the name of the file that has what it says.
	output string
	// ended is closed once it has.
	ended chan struct{}
	once  sync.Once
}

// startAs runs the whole operator as a process of an account until the test ends.
func startAs(t testing.TB, account *testkit.Operator) *process {
	t.Helper()
	command := exec.Command(os.Args[0], "--kubeconfig="+env.KubeconfigOf(t, account), "--namespace="+system,
		"--agent-image=agent:test",
		"--health-probe-bind-address=0", "--metrics-bind-address=0", "--log-format=console", "--log-level=warn")
	command.Env = append(os.Environ(), asOperator+"=1")
	output, err := os.CreateTemp(t.TempDir(), "log")
	if err != nil {
		t.Fatal(err)
	}
	command.Stdout, command.Stderr = output, output
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{TB: t, command: command, output: output.Name(), ended: make(chan struct{})}
	go func() {
		_ = command.Wait() // It is killed.
		close(p.ended)
	}()
	t.Cleanup(p.kill)
	return p
}

// die kills the process, whose leases stay.
func (p *process) die() {
	_ = p.command.Process.Kill() // It may have ended.
	<-p.ended
}

// kill kills the process, and has the next one lead at once. A second time it does nothing.
func (p *process) kill() {
	p.Helper()
	p.once.Do(func() {
		p.die()
		leases := []client.ObjectKey{
			{Namespace: system, Name: domain + "-operator.zeroinfra.github.com"},
			{Namespace: "kube-system", Name: domain + "-scopes.zeroinfra.github.com"},
		}
		for _, key := range leases {
			lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
			if err := client.IgnoreNotFound(env.Client.Delete(context.Background(), lease)); err != nil {
				p.Error(err)
			}
		}
		if said, err := os.ReadFile(p.output); p.Failed() && err == nil {
			p.Logf("the operator said:\n%s", said)
		}
	})
}

// bench is a namespace with an account that may do what tasks do.
type bench struct {
	testing.TB
	namespace string
}

func newBench(t testing.TB) *bench {
	t.Helper()
	b := &bench{TB: t, namespace: env.Namespace(t)}
	b.create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "worker"}})
	b.allow("tasks",
		rbacv1.PolicyRule{APIGroups: []string{"batch"}, Resources: []string{"jobs"}, Verbs: []string{"create"}},
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"},
			Verbs: []string{"get", "create", "patch", "delete"}})
	return b
}

// allow gives the account rights by a Role of a name.
func (b *bench) allow(name string, rules ...rbacv1.PolicyRule) {
	b.Helper()
	meta := metav1.ObjectMeta{Namespace: b.namespace, Name: name}
	b.create(&rbacv1.Role{ObjectMeta: meta, Rules: rules}, &rbacv1.RoleBinding{ObjectMeta: meta,
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: b.namespace, Name: "worker"}}})
}

func (b *bench) create(objects ...client.Object) {
	b.Helper()
	for _, object := range objects {
		if err := env.Client.Create(b.Context(), object); err != nil {
			b.Fatalf("cannot create %T %q: %v", object, object.GetName(), err)
		}
	}
}

// person is a client of somebody who may do everything, under a name.
func (b *bench) person(name string) client.Client {
	b.Helper()
	config := rest.CopyConfig(env.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: name, Groups: []string{"system:masters"}}
	c, err := client.New(config, client.Options{Scheme: env.Scheme})
	if err != nil {
		b.Fatal(err)
	}
	return c
}

// workflow is a Workflow with a spec in YAML; it is not created.
func (b *bench) workflow(name, spec string) *batchv1.Workflow {
	b.Helper()
	wf := &batchv1.Workflow{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: name}}
	if err := yaml.UnmarshalStrict([]byte(spec), &wf.Spec); err != nil {
		b.Fatal(err)
	}
	return wf
}

// run creates a Workflow of ada, with the account.
func (b *bench) run(name, spec string) *batchv1.Workflow {
	b.Helper()
	wf := b.workflow(name, spec)
	if !wf.Spec.TemplateOnly {
		wf.Spec.Author, wf.Spec.ServiceAccountName = "ada", "worker"
	}
	if err := b.person("ada").Create(b.Context(), wf); err != nil {
		b.Fatal(err)
	}
	return wf
}

// jobs of the namespace by name.
func (b *bench) jobs() map[string]*batchv1api.Job {
	b.Helper()
	var list batchv1api.JobList
	if err := env.Client.List(b.Context(), &list, client.InNamespace(b.namespace)); err != nil {
		b.Fatal(err)
	}
	jobs := map[string]*batchv1api.Job{}
	for i := range list.Items {
		jobs[list.Items[i].Name] = &list.Items[i]
	}
	return jobs
}
