// SPDX-License-Identifier: Apache-2.0

//go:build integration

package entity

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/zeroinfra/platform-core/agentproto/plan"
	"github.com/zeroinfra/platform-core/agentproto/report"
	agentv1 "github.com/zeroinfra/platform-core/agentproto/v1"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/config/crd"
	"github.com/zeroinfra/platform-core/internal/agentclient"
	"github.com/zeroinfra/platform-core/internal/pki"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/internal/pluginfolder"
	"github.com/zeroinfra/platform-core/internal/render"
	"github.com/zeroinfra/platform-core/internal/settings"
	"github.com/zeroinfra/platform-core/internal/testagents"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

const (
	testDomain = "database"
	podName    = "redis-a-redis-main-0"
	// adminPassword is that of the user "default".
	adminPassword = "hunter2"
	redisPlugin   = "../../../../database-operator/plugins/redis/1.0.0"
	// testInterval is how often objects are looked at.
	testInterval = 500 * time.Millisecond
)

var (
	env *testkit.Env
	// agentPath is the real ops agent, built by TestMain.
	agentPath string
)

func TestMain(m *testing.M) {
	testagents.Main(m, "agent-ops", &agentPath, &env,
		testkit.EnvOptions{CRDs: []fs.FS{crd.FS}, System: "zeroinfra-system"})
}

// fixture is one Application with one pod in a namespace of its own. There is no kubelet: the pod is a real Redis and a
// real ops agent on a loopback address of its own.
type fixture struct {
	*testagents.Pod
	namespace string
	authority *pki.Authority
	index     *plugin.Index
	address   string
	opsPort   int
	redisPort string
	starts    int64
	manager   manager
	observed  atomic.Int64
	changed   atomic.Int64
	// running are the calls that were at work still when they were answered.
	running atomic.Int64
	// pending is what the middleware says that it has yet to do for each object; nil for nothing.
	pending atomic.Pointer[string]
	// name of the pod, and its labels.
	name   string
	labels map[string]string
	// settings of the operator, which say how often objects are looked at.
	settings *settings.Live
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := newApplication(t, "standalone")
	f.begin(t, podName, map[string]string{platformv1.ComponentLabel: "redis", platformv1.RoleLabel: "primary"})
	return f
}

// newCluster is an Application with the topology cluster and one pod.
func newCluster(t *testing.T) *fixture {
	t.Helper()
	f := newApplication(t, "cluster")
	f.begin(t, "redis-a-node-0-0", map[string]string{platformv1.ComponentLabel: "node"})
	return f
}

// member adds a pod to that.
func (f *fixture) member(t *testing.T, name string) *fixture {
	t.Helper()
	member := &fixture{namespace: f.namespace, authority: f.authority, index: f.index, opsPort: f.opsPort}
	member.begin(t, name, f.labels)
	return member
}

// newApplication is an Application without pods.
func newApplication(t *testing.T, topology string) *fixture {
	t.Helper()
	bundle, _, problems := pluginfolder.Load(redisPlugin)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	f := &fixture{namespace: env.Namespace(t), authority: testagents.Authority(t, testDomain), index: plugin.NewIndex(),
		opsPort: testagents.FreePort(t), settings: settings.New(render.Settings{})}
	f.settings.UseEntityInterval(testInterval)
	f.index.Set("redis", "1.0.0", bundle, nil)
	app := testkit.BuildApplication(f.namespace, "redis-a").Domain(testDomain).Plugin("redis", "1.0.0").Version("7.0").
		Topology(topology).Build()
	if err := env.Client.Create(t.Context(), app); err != nil {
		t.Fatal(err)
	}
	return f
}

// begin starts the pod, its process and its agent.
func (f *fixture) begin(t *testing.T, name string, labels map[string]string) {
	t.Helper()
	f.name, f.labels = name, labels
	f.Pod = testagents.NewPod(t, f.authority, f.namespace, name, nil)
	f.address, f.redisPort = testagents.Address(), fmt.Sprint(testagents.FreePort(t))
	f.createPod()
	f.manager.serve(t, f.Path("run", "s"))
	f.startRedis()
	f.startAgent()
}

func (f *fixture) create(obj client.Object) {
	f.Helper()
	if err := env.Client.Create(f.Context(), obj); err != nil {
		f.Fatalf("cannot create %T %q: %v", obj, obj.GetName(), err)
	}
}

func (f *fixture) createPod() {
	f.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: f.name, Labels: map[string]string{
			platformv1.DomainLabel: testDomain, platformv1.ApplicationLabel: "redis-a"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "redis", Image: "redis"}}, NodeName: "node"},
	}
	maps.Copy(pod.Labels, f.labels)
	f.create(pod)
	pod.Status.PodIP, pod.Status.Phase = f.address, corev1.PodRunning
	pod.Status.PodIPs = []corev1.PodIP{{IP: f.address}}
	if err := env.Client.Status().Update(f.Context(), pod); err != nil {
		f.Fatal(err)
	}
}

// startRedis starts the pod's process, whose agent reports it; kill ends it at once.
func (f *fixture) startRedis() (kill func()) {
	f.Helper()
	kill = f.launch()
	f.reports(report.Healthy)
	return kill
}

// launch starts the pod's process, which the pod does not report; kill ends it at once.
func (f *fixture) launch() (kill func()) {
	f.Helper()
	f.Write([]byte(fmt.Sprintf("bind 127.0.0.1\nport %s\ndir %s\nsave \"\"\nrequirepass %s\ninclude %s/*.conf\n",
		f.redisPort, f.Root, adminPassword, f.Path("config", "users"))), "redis.conf")
	f.manager.tells(agentv1.ProcessState_PROCESS_STATE_STOPPING, f.starts, 1)
	f.starts++
	cmd := exec.Command("redis-server", f.Path("redis.conf"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		f.Fatalf("%v: install Debian's package redis-server", err)
	}
	kill = sync.OnceFunc(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	f.Cleanup(kill)
	f.manager.tells(agentv1.ProcessState_PROCESS_STATE_RUNNING, f.starts, cmd.Process.Pid)
	testkit.Eventually(f, "redis", func(context.Context) error {
		if said := f.cli("default", adminPassword, "PING"); said != "PONG" {
			return errors.New(said)
		}
		return nil
	})
	return kill
}

// reports has the pod say how its process is.
func (f *fixture) reports(health report.Health) {
	f.Helper()
	pod := &corev1.Pod{}
	if err := env.Client.Get(f.Context(), client.ObjectKey{Namespace: f.namespace, Name: f.name}, pod); err != nil {
		f.Fatal(err)
	}
	reported := pod.DeepCopy()
	reported.Annotations = map[string]string{
		platformv1.ReportAnnotation: report.Report{Health: health, Role: "primary", Starts: f.starts}.String()}
	if err := env.Client.Patch(f.Context(), reported, client.MergeFrom(pod)); err != nil {
		f.Fatal(err)
	}
}

// plan is what the ops agent goes by.
func (f *fixture) plan() []byte {
	data, err := json.Marshal(plan.Plan{Version: 1, Digest: "sha256:" + strings.Repeat("0", 64),
		Process: plan.Process{Command: []string{"true"}},
		Driver: &plan.Driver{Protocol: plan.ProtocolRedis, Address: "127.0.0.1:" + f.redisPort, Username: "default",
			Password:     &plan.SecretRef{Credential: "default", Key: "password"},
			EntitiesFile: f.Path("config", "users", "entities.conf")},
		Entities: []plan.EntityType{{Type: "acl-user", Kind: "acl-user"}}})
	if err != nil {
		f.Fatal(err)
	}
	return data
}

func (f *fixture) startAgent() {
	f.Helper()
	f.Write(f.plan(), "plan", plan.PlanFile)
	f.Write([]byte(adminPassword), "secrets", "default", "password")
	f.Start(agentPath, []string{"POD_NAME=" + f.name}, "ops", "--tls-dir", f.Path("tls"), "--listen",
		net.JoinHostPort(f.address, fmt.Sprint(f.opsPort)))
}

func (f *fixture) cli(user, password string, command ...string) string {
	out, _ := exec.Command("redis-cli",
		append([]string{"-p", f.redisPort, "--user", user, "--pass", password, "--no-auth-warning"}, command...)...).
		CombinedOutput()
	return strings.TrimSpace(string(out))
}

func (f *fixture) admin(command ...string) string { return f.cli("default", adminPassword, command...) }

// counting counts the calls to the agent, and has them fail once the fuse has blown.
type counting struct {
	agentclient.EntitiesDialer
	f    *fixture
	fuse *fuse
}

type countingAgent struct {
	agentclient.Entities
	counting
}

// DialEntities implements agentclient.EntitiesDialer.
func (c counting) DialEntities(ctx context.Context, pod *corev1.Pod) (agentclient.Entities, error) {
	agent, err := c.EntitiesDialer.DialEntities(ctx, pod)
	return countingAgent{agent, c}, err
}

// Observe implements agentclient.Entities.
func (c countingAgent) Observe(ctx context.Context, entityType string, queries []agentclient.EntityQuery) (
	agentclient.EntityStates, error) {
	c.f.observed.Add(1)
	states, err := c.Entities.Observe(ctx, entityType, queries)
	if pending := c.f.pending.Load(); pending != nil {
		for name, state := range states.Objects {
			state.Pending = *pending
			states.Objects[name] = state
		}
	}
	return states, err
}

// Change implements agentclient.Entities. A fuse blows before or after the call, as a controller may die at either.
func (c countingAgent) Change(ctx context.Context, key, entityType string, changes []agentclient.EntityChange) (
	agentclient.EntityCall, error) {
	if err := c.fuse.spend(); err != nil {
		return agentclient.EntityCall{}, err
	}
	c.f.changed.Add(1)
	call, err := c.Entities.Change(ctx, key, entityType, changes)
	if call.Phase == report.CallRunning {
		c.f.running.Add(1)
	}
	if blown := c.fuse.spend(); blown != nil {
		return agentclient.EntityCall{}, blown
	}
	return call, err
}

var errKilled = errors.New("the controller was killed")

// fuse lets a number of effects through and then kills the controller. A negative number never blows.
type fuse struct {
	mu   sync.Mutex
	left int
	blow context.CancelFunc
}

func (f *fuse) spend() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.left == 0 {
		f.blow()
		return errKilled
	}
	f.left--
	return nil
}

// RoundTrip returns a transport whose writes the fuse counts.
func (f *fuse) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTrip(func(request *http.Request) (*http.Response, error) {
		if request.Method != http.MethodGet && !strings.Contains(request.URL.Path, "/events") {
			if err := f.spend(); err != nil {
				return nil, err
			}
		}
		return next.RoundTrip(request)
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (r roundTrip) RoundTrip(request *http.Request) (*http.Response, error) { return r(request) }

// run runs the controller until it is stopped, or until so many effects; done closes at its end.
func (f *fixture) run(effects int) (stop func(), done <-chan struct{}) {
	f.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	blown := &fuse{left: effects, blow: cancel}
	cfg := rest.CopyConfig(env.System.Config)
	cfg.QPS, cfg.Burst = 500, 1000
	cfg.Wrap(blown.wrap)
	on := true
	manager, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme: env.Scheme, Metrics: metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: &on},
		Cache: cache.Options{DefaultNamespaces: map[string]cache.Config{f.namespace: {}},
			ByObject: map[client.Object]cache.ByObject{
				&platformv1.Entity{}: {Label: labels.SelectorFromSet(labels.Set{platformv1.DomainLabel: testDomain})}}},
	})
	if err != nil {
		f.Fatal(err)
	}
	connections := agentclient.New(f.authority, agentclient.WithOpsPort(f.opsPort))
	if err := Setup(ctx, manager, Deps{Index: f.index, Dialer: counting{connections, f, blown},
		Interval: f.settings.EntityInterval}); err != nil {
		f.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer connections.Close()
		if err := manager.Start(ctx); err != nil && ctx.Err() == nil {
			f.Errorf("the manager ended: %v", err)
		}
	}()
	stop = func() { cancel(); <-ended }
	f.Cleanup(stop)
	return stop, ended
}

// secret makes or changes a Secret of passwords by key.
func (f *fixture) secret(name string, passwords map[string]string) {
	f.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: name}}
	err := env.Client.Get(f.Context(), client.ObjectKeyFromObject(secret), secret)
	secret.StringData = passwords
	if err == nil {
		err = env.Client.Update(f.Context(), secret)
	} else {
		err = env.Client.Create(f.Context(), secret)
	}
	if err != nil {
		f.Fatal(err)
	}
}

// entity is a user that may read, with the password of the key of its name.
func (f *fixture) entity(name string, change func(*platformv1.EntitySpec)) *platformv1.Entity {
	entity := &platformv1.Entity{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: name,
			Labels: map[string]string{platformv1.DomainLabel: testDomain}},
		Spec: platformv1.EntitySpec{ApplicationRef: platformv1.ApplicationReference{Name: "redis-a"}, Type: "acl-user",
			Name:         name,
			Parameters:   platformv1.Parameters{"keys": "~app:*", "commands": "+@read +ping"},
			PasswordFrom: &platformv1.SecretKeyReference{Name: "users", Key: name}},
	}
	if change != nil {
		change(&entity.Spec)
	}
	return entity
}

func (f *fixture) ready(entities ...*platformv1.Entity) {
	f.Helper()
	for _, entity := range entities {
		testkit.WaitFor(f, env.Client, entity, "ready", func() error {
			if entity.Status.Phase != platformv1.PhaseReady || entity.Status.ObservedGeneration != entity.Generation {
				return fmt.Errorf("phase is %q: %+v", entity.Status.Phase, entity.Status.Conditions)
			}
			return nil
		})
		if err := testkit.StatusLint(entity); err != nil {
			f.Errorf("status of %s: %v", entity.Name, err)
		}
	}
}
