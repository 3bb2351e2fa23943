// SPDX-License-Identifier: Apache-2.0

//go:build integration

package operation

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"sync"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/zeroinfra/platform-core/agentproto/plan"
	agentv1 "github.com/zeroinfra/platform-core/agentproto/v1"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/agentclient"
	"github.com/zeroinfra/platform-core/internal/disruption"
	"github.com/zeroinfra/platform-core/internal/pki"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/internal/plugin/optemplate"
	"github.com/zeroinfra/platform-core/internal/render"
	"github.com/zeroinfra/platform-core/internal/settings"
	"github.com/zeroinfra/platform-core/internal/testagents"
	"github.com/zeroinfra/platform-core/internal/trim"
	"github.com/zeroinfra/platform-core/sdk/telemetry"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

const (
	testDomain = "database"
	setName    = "redis-a-redis-main"
)

// fixture is one Application with its pods in a namespace of its own. There is no kubelet: each
// pod is a real process manager and a real status agent on a loopback address of its own.
type fixture struct {
	t         testing.TB
	namespace string
	authority *pki.Authority
	locks     disruption.Locks
	port      int
	index     *plugin.Index
	// config and settings of the controller.
	config   *rest.Config
	settings *settings.Live
	// traces that the controller sends; nil for none.
	traces *telemetry.Traces
	// cached is what the controller that was started last reads.
	cached client.Reader
	// dial opens the connections of calls; nil for the controller's own way.
	dial func(ctx context.Context, network, address string) (net.Conn, error)
	// token of the status agents' ServiceAccount.
	token string

	mu     sync.Mutex
	agents map[string][]func()
}

// agentPath is the real agent, built by TestMain.
var agentPath string

func newFixture(t testing.TB, replicas int) *fixture {
	t.Helper()
	f := &fixture{t: t, namespace: env.Namespace(t), authority: testagents.Authority(t, testDomain),
		port:  testagents.FreePort(t),
		index: plugin.NewIndex(), config: env.System.Config, settings: settings.New(render.Settings{}),
		agents: map[string][]func(){}}
	f.index.Set("redis", "1.0.0", testBundle(), nil)
	f.token = f.serviceAccount()
	f.createApplication(replicas)
	for ordinal := range replicas {
		f.createPod(ordinal)
		f.startAgents(ordinal)
	}
	return f
}

func testBundle() *plugin.Bundle {
	step := func(name string, call optemplate.AgentCall) optemplate.Step {
		return optemplate.Step{Name: name, Agent: &optemplate.AgentStep{Call: call}}
	}
	return &plugin.Bundle{
		Manifest: plugin.Manifest{Name: "redis", Version: "1.0.0", Domain: testDomain},
		Digest:   "sha256:1",
		Operations: map[string]optemplate.Template{
			"Restart": {Name: "Restart", Steps: []optemplate.Step{step("restart", optemplate.AgentRestart)}},
			"Reload":  {Name: "Reload", Steps: []optemplate.Step{step("reload", optemplate.AgentReload)}},
			"Twice": {Name: "Twice", Steps: []optemplate.Step{step("first", optemplate.AgentRestart),
				step("second", optemplate.AgentRestart)}},
			"Sentinels": {Name: "Sentinels", Targets: []string{"sentinel"},
				Steps: []optemplate.Step{step("restart", optemplate.AgentRestart)}},
			"Ask": parsed("name: Ask\nsteps:\n  - {name: ask, approval: {message: restart it}}\n  - {name: restart, agent: " +
				"{call: Restart}}\n"),
			"Sign": parsed("name: Sign\nsteps:\n  - {name: restart, agent: {call: Restart}}\n  - {name: sign, timeout: 1s, " +
				"wait: {apiVersion: v1, kind: ConfigMap, name: sign, until: 'true'}}\n" +
				"  - {name: again, agent: {call: Restart}}\n"),
			"Within": parsed("name: Within\nsteps:\n  - {name: tell, operation: {templateRef: Restart}}\n"),
		},
	}
}

func parsed(text string) optemplate.Template {
	template, err := optemplate.Parse(text)
	if err != nil {
		panic(err)
	}
	return template
}

func (f *fixture) create(obj client.Object) {
	f.t.Helper()
	f.createAs(env.Client, obj)
}

func (f *fixture) createAs(c client.Client, obj client.Object) {
	f.t.Helper()
	if err := c.Create(f.t.Context(), obj); err != nil {
		f.t.Fatalf("cannot create %T %q: %v", obj, obj.GetName(), err)
	}
}

// client returns one with these credentials.
func (f *fixture) client(config *rest.Config) client.Client {
	f.t.Helper()
	c, err := client.New(config, client.Options{Scheme: env.Scheme})
	if err != nil {
		f.t.Fatal(err)
	}
	return c
}

// person is a client of somebody who may do everything, under a name: the policy on Operations asks who authors and
// approvers are.
func (f *fixture) person(name string) client.Client {
	f.t.Helper()
	config := rest.CopyConfig(env.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: name, Groups: []string{"system:masters"}}
	return f.client(config)
}

// asker is a client of whoever creates an Operation: its author, or the operator when it is a step of another.
func (f *fixture) asker(op *platformv1.Operation) client.Client {
	f.t.Helper()
	switch {
	case metav1.GetControllerOf(op) != nil:
		return f.client(env.System.Config)
	case op.Spec.Author != "":
		return f.person(op.Spec.Author)
	}
	return env.Client
}

// serviceAccount makes the account of the status agents and returns a token of it.
func (f *fixture) serviceAccount() string {
	f.t.Helper()
	meta := metav1.ObjectMeta{Namespace: f.namespace, Name: "agents"}
	account := &corev1.ServiceAccount{ObjectMeta: meta}
	f.create(account)
	f.create(&rbacv1.Role{ObjectMeta: meta,
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"patch"}}}})
	f.create(&rbacv1.RoleBinding{ObjectMeta: meta,
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "agents"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: f.namespace, Name: "agents"}}})
	request := &authenticationv1.TokenRequest{}
	if err := env.Client.SubResource("token").Create(f.t.Context(), account, request); err != nil {
		f.t.Fatal(err)
	}
	return request.Status.Token
}

func (f *fixture) labels(extra map[string]string) map[string]string {
	all := map[string]string{platformv1.DomainLabel: testDomain, platformv1.ApplicationLabel: "redis-a"}
	for key, value := range extra {
		all[key] = value
	}
	return all
}

// createApplication makes the Application of a typed object and what the engine makes of it.
func (f *fixture) createApplication(replicas int) {
	controller := true
	reference := platformv1.PluginReference{Name: "redis", Version: "1.0.0", Digest: "sha256:1"}
	f.create(testkit.BuildApplication(f.namespace, "redis-a").Domain(testDomain).OwnedBy(&metav1.OwnerReference{
		APIVersion: "database.zeroinfra.github.com/v1", Kind: "Redis", Name: "a", UID: "1", Controller: &controller}).Build())
	f.create(&platformv1.Component{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "redis-a-redis",
		Labels: f.labels(nil)},
		Spec: platformv1.ComponentSpec{Application: "redis-a", Component: "redis", Plugin: reference, Version: "7.0",
			Topology: "standalone",
			Sets:     []platformv1.ComponentSet{{Name: platformv1.DefaultSet}}}})
	f.create(&platformv1.WorkloadSet{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: setName,
		Labels: f.labels(nil)},
		Spec: platformv1.WorkloadSetSpec{
			Application: "redis-a", Component: "redis", Set: "main", Plugin: reference, Version: "7.0",
			Replicas: int32(replicas), Revision: "1",
			Template: runtime.RawExtension{Raw: []byte(`{}`)}, Plan: runtime.RawExtension{Raw: []byte(`{}`)},
			Roles: []platformv1.SetRole{{Name: "primary", Access: platformv1.RoleReadWrite},
				{Name: "replica", Access: platformv1.RoleReadOnly}},
		}})
}

// createPod makes a pod; pod 0 is the writer.
func (f *fixture) createPod(ordinal int) {
	f.t.Helper()
	role := "replica"
	if ordinal == 0 {
		role = "primary"
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: podName(ordinal), Labels: f.labels(map[string]string{
			platformv1.ComponentLabel: "redis", platformv1.SetLabel: platformv1.DefaultSet, platformv1.RoleLabel: role})},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "redis", Image: "redis"}}, NodeName: "node"},
	}
	f.create(pod)
	pod.Status.PodIP = testagents.Address()
	pod.Status.PodIPs = []corev1.PodIP{{IP: pod.Status.PodIP}}
	pod.Status.Phase = corev1.PodRunning
	if err := env.Client.Status().Update(f.t.Context(), pod); err != nil {
		f.t.Fatal(err)
	}
}

func podName(ordinal int) string { return platformv1.PodNameFor(setName, int32(ordinal)) }

func (f *fixture) pod(ordinal int) *corev1.Pod {
	f.t.Helper()
	pod := &corev1.Pod{}
	key := types.NamespacedName{Namespace: f.namespace, Name: podName(ordinal)}
	if err := env.Client.Get(f.t.Context(), key, pod); err != nil {
		f.t.Fatal(err)
	}
	return pod
}

// startAgents runs the process manager and the status agent of a pod, with fresh folders.
func (f *fixture) startAgents(ordinal int) {
	f.t.Helper()
	pod := f.pod(ordinal)
	folders := testagents.NewPod(f.t, f.authority, f.namespace, pod.Name, f.plan())
	folders.Write([]byte(f.token), "account", "token")
	folders.Write(env.Config.CAData, "account", "ca.crt")
	address := net.JoinHostPort(pod.Status.PodIP, fmt.Sprint(f.port))
	server, err := url.Parse(env.Config.Host)
	if err != nil || server.Host == "" {
		server = &url.URL{Host: env.Config.Host}
	}
	host, port, err := net.SplitHostPort(server.Host)
	if err != nil {
		f.t.Fatalf("cannot read the address of the API server %q: %v", env.Config.Host, err)
	}
	variables := []string{"POD_NAMESPACE=" + f.namespace, "POD_NAME=" + pod.Name, "KUBERNETES_SERVICE_HOST=" + host,
		"KUBERNETES_SERVICE_PORT=" + port}
	agents := []func(){
		folders.Start(agentPath, variables, "run", "--tls-dir", folders.Path("tls"), "--listen", address),
		folders.Start(agentPath, variables, "status", "--service-account-dir", folders.Path("account"), "--listen",
			net.JoinHostPort(pod.Status.PodIP, "0")),
	}
	f.mu.Lock()
	f.agents[pod.Name] = agents
	f.mu.Unlock()
}

// plan runs a process that does nothing, is well as long as it is there, and cannot take over configuration.
func (f *fixture) plan() []byte {
	data, err := json.Marshal(plan.Plan{
		Version: 1,
		Digest:  "sha256:0000000000000000000000000000000000000000000000000000000000000000",
		Process: plan.Process{Command: []string{"/bin/sleep", "infinity"}, Stop: plan.Stop{TimeoutSeconds: 5},
			Reload: &plan.Reload{Command: []string{"/bin/false"}}, Signals: []string{"SIGHUP"}},
		Probe: plan.Probe{Command: []string{"/bin/true"}},
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return data
}

// stopAgents ends the agents of a pod, so that nobody answers there.
func (f *fixture) stopAgents(ordinal int) {
	f.mu.Lock()
	agents := f.agents[podName(ordinal)]
	f.mu.Unlock()
	for _, stop := range agents {
		stop()
	}
}

// status asks the process manager of a pod.
func (f *fixture) status(ordinal int) *agentv1.ProcessStatus {
	f.t.Helper()
	connections := agentclient.New(f.authority, agentclient.WithPort(f.port))
	defer connections.Close()
	var status *agentv1.ProcessStatus
	testkit.Eventually(f.t, "an answer of "+podName(ordinal), func(ctx context.Context) error {
		process, err := connections.Dial(ctx, f.pod(ordinal))
		if err != nil {
			return err
		}
		status, err = process.Status(ctx)
		return err
	})
	return status
}

// wantStarts checks how often the process of a pod was started.
func (f *fixture) wantStarts(ordinal int, want int64) {
	f.t.Helper()
	if got := f.status(ordinal).GetStarts(); got != want {
		f.t.Errorf("the process of pod %d was started %d times, want %d", ordinal, got, want)
	}
}

// healthy waits until the report of a pod says so.
func (f *fixture) healthy(ordinal int) {
	f.t.Helper()
	testkit.Eventually(f.t, "a report of "+podName(ordinal), func(context.Context) error {
		if facts := factsOf(&platformv1.WorkloadSet{}, 0, "", f.pod(ordinal)); facts.Report.Health != "Healthy" {
			return fmt.Errorf("health is %q", facts.Report.Health)
		}
		return nil
	})
}

// controller runs the controller until the returned function is called, which waits for its end.
func (f *fixture) controller(dialer agentclient.Dialer) (stop func()) {
	f.t.Helper()
	manager, err := ctrl.NewManager(f.config, ctrl.Options{
		Scheme:     env.Scheme,
		Metrics:    metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: ptr(true)},
		Cache: cache.Options{
			DefaultNamespaces:    map[string]cache.Config{f.namespace: {}},
			DefaultLabelSelector: labels.SelectorFromSet(labels.Set{platformv1.DomainLabel: testDomain}),
			ByObject:             map[client.Object]cache.ByObject{&platformv1.Operation{}: {Transform: trim.Operation}},
		},
	})
	if err != nil {
		f.t.Fatal(err)
	}
	if dialer == nil {
		connections := agentclient.New(f.authority, agentclient.WithPort(f.port))
		f.t.Cleanup(connections.Close)
		dialer = connections
	}
	if err := Setup(manager, Deps{Index: f.index, Locks: &f.locks, Dialer: dialer, Domain: testDomain,
		Settings: f.settings, Traces: f.traces, Dial: f.dial}); err != nil {
		f.t.Fatal(err)
	}
	f.cached = manager.GetClient()
	ctx, cancel := context.WithCancel(f.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- manager.Start(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-ended; err != nil {
				f.t.Errorf("the manager ended with: %v", err)
			}
		})
	}
	f.t.Cleanup(stop)
	return stop
}

func ptr[T any](value T) *T { return &value }

// operation creates an Operation on the typed object, changed as asked.
func (f *fixture) operation(name, template string, change func(*platformv1.Operation)) *platformv1.Operation {
	f.t.Helper()
	op := &platformv1.Operation{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: name, Labels: f.labels(nil)}, // as claimed
		Spec: platformv1.OperationSpec{
			TemplateRef: template,
			TargetRef:   platformv1.TargetReference{APIVersion: "database.zeroinfra.github.com/v1", Kind: "Redis", Name: "a"},
		},
	}
	if change != nil {
		change(op)
	}
	f.createAs(f.asker(op), op)
	return op
}

// waitPhase waits until an Operation is in a phase and checks its status.
func (f *fixture) waitPhase(op *platformv1.Operation, phase platformv1.OperationPhase) {
	f.t.Helper()
	testkit.WaitFor(f.t, env.Client, op, string(phase), func() error {
		if op.Status.Phase != phase {
			return fmt.Errorf("phase is %q, progress %q, error %q, steps %+v", op.Status.Phase, op.Status.Progress,
				op.Status.Error, op.Status.Steps)
		}
		return nil
	})
	if err := testkit.StatusLint(op); err != nil {
		f.t.Errorf("status of %s: %v", op.Name, err)
	}
}
