// SPDX-License-Identifier: Apache-2.0

//go:build integration

package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/zeroinfra/platform-core/agentproto/plan"
	"github.com/zeroinfra/platform-core/agentproto/report"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/config/crd"
	"github.com/zeroinfra/platform-core/internal/engine"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/internal/pluginfolder"
	"github.com/zeroinfra/platform-core/internal/render"
	"github.com/zeroinfra/platform-core/sdk/testkit"
	"github.com/zeroinfra/platform-core/sdk/testkit/example"
	"github.com/zeroinfra/platform-core/sdk/typed"
)

const system = "zeroinfra-system"

// pluginDirs are the plugins that the tests use: a real one, one with several components and sets, one of what is not
// in its pods, one whose pods are reached each by itself, one that is reached by HTTP, and Kafka.
var pluginDirs = []string{"../../../database-operator/plugins/redis/1.0.0", "testdata/plugins/shop/1.0.0",
	"testdata/plugins/elsewhere/1.0.0",
	"testdata/plugins/broker/1.0.0", "testdata/plugins/gate/1.0.0",
	"../../../message-operator/plugins/kafka/1.0.0"}

var env *testkit.Env

// account is the operator's: the engine has the rights that its chart gives it.
var account *testkit.Operator

// rendering is what every engine of these tests renders with.
var rendering = engine.NewSettings("zeroinfra/agent:test", nil)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	testkit.Main(m, &env, testkit.EnvOptions{
		Own:         "an engine serves all namespaces, and tests install definitions and run controllers of Kubernetes",
		AddToScheme: []func(*runtime.Scheme) error{example.AddToScheme}, CRDs: []fs.FS{crd.FS, example.CRDs},
		After: func(env *testkit.Env) error {
			if account == nil {
				return nil // No test has run an engine.
			}
			return env.Denied(account.User)
		}})
}

// prepare makes what is there before any instance: namespace, plugin and class.
var prepare = sync.OnceValue(func() error {
	ctx := context.Background()
	var parts []runtime.Object
	for _, dir := range pluginDirs {
		_, sources, problems := pluginfolder.Load(dir)
		if len(problems) > 0 {
			return fmt.Errorf("the plugin is broken: %v", problems)
		}
		// The engine of these tests serves one domain.
		sources[plugin.PartManifest].Data["domain"] = "database"
		list, err := pluginfolder.Package(sources, system)
		if err != nil {
			return err
		}
		parts = append(parts, list...)
	}
	objects := []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: system}},
		&storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{Name: "standard",
				Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}},
			Provisioner: "example.com/none",
		},
	}
	for _, part := range parts {
		objects = append(objects, part.(client.Object))
	}
	for _, obj := range objects {
		if err := env.Client.Create(ctx, obj); err != nil {
			return err
		}
	}
	var err error
	account, err = env.Operator(ctx, system, example.Role())
	return err
})

// fuse lets a number of writes through and then kills the engine: the next write does not
// reach the API server. A negative number never blows.
type fuse struct {
	mu     sync.Mutex
	left   int
	writes []string
	// reads of single objects: those that no cache answered.
	reads []string
	blow  context.CancelFunc
}

var errKilled = errors.New("the engine was killed")

func (f *fuse) spend(request *http.Request) error {
	if strings.Contains(request.URL.Path, "/events") || strings.Contains(request.URL.Path, "/leases/") {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if request.Method == http.MethodGet {
		if strings.Contains(request.URL.Path, "/namespaces/") && !request.URL.Query().Has("watch") {
			f.reads = append(f.reads, request.URL.Path)
		}
		return nil
	}
	if f.left == 0 {
		f.blow()
		return errKilled
	}
	f.left--
	f.writes = append(f.writes, request.Method+" "+request.URL.Path)
	return nil
}

func (f *fuse) spent() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.writes...)
}

// read are the paths of what was read past the caches.
func (f *fuse) read() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.reads)
}

type fused struct {
	next http.RoundTripper
	fuse *fuse
}

// RoundTrip implements http.RoundTripper.
func (t fused) RoundTrip(request *http.Request) (*http.Response, error) {
	if err := t.fuse.spend(request); err != nil {
		return nil, err
	}
	return t.next.RoundTrip(request)
}

// run starts an engine that survives the given number of writes. The returned
// function stops it and waits for its end; done closes when it ends by itself.
func run(t *testing.T, writes int) (f *fuse, done <-chan struct{}, stop func()) {
	t.Helper()
	return runAt(t, writes, time.Now)
}

// runAt is run with a clock for schedules.
func runAt(t *testing.T, writes int, clock func() time.Time) (f *fuse, done <-chan struct{}, stop func()) {
	t.Helper()
	if err := prepare(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	f = &fuse{left: writes, blow: cancel}
	cfg := rest.CopyConfig(account.Config)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return fused{next, f} })
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := runEngine(ctx, cfg, clock); err != nil && ctx.Err() == nil {
			t.Errorf("the engine ended: %v", err)
		}
	}()
	stop = func() { cancel(); <-ended }
	t.Cleanup(stop)
	return f, ended, stop
}

// runTyped is run with a typed kind.
func runTyped(t *testing.T, kind typed.Registration) {
	t.Helper()
	if err := prepare(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := runEngine(ctx, account.Config, time.Now, kind); err != nil && ctx.Err() == nil {
			t.Errorf("the engine ended: %v", err)
		}
	}()
	t.Cleanup(func() { cancel(); <-ended })
}

// bundles are the plugins that were loaded, by their sources as JSON: all engines of these tests share them.
var bundles sync.Map

// loadedBundle is what plugin.Load returns.
type loadedBundle struct {
	bundle *plugin.Bundle
	errs   []plugin.LoadError
}

// loadOnce is plugin.Load, once for the same sources.
func loadOnce(sources map[plugin.Part]plugin.Source) (*plugin.Bundle, []plugin.LoadError) {
	text, err := json.Marshal(sources)
	if err != nil {
		panic(err) // Sources are strings.
	}
	load, _ := bundles.LoadOrStore(string(text), sync.OnceValue(func() loadedBundle {
		bundle, errs := plugin.Load(sources)
		return loadedBundle{bundle, errs}
	}))
	l := load.(func() loadedBundle)()
	return l.bundle, slices.Clone(l.errs)
}

func runEngine(ctx context.Context, cfg *rest.Config, clock func() time.Time, kinds ...typed.Registration) error {
	mgr, err := ctrl.NewManager(cfg, manager.Options{
		Scheme:     env.Scheme,
		Metrics:    metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: ptr.To(true)},
		// As in an operator: it sees the Applications of its own domain only, and of pods what is read of them.
		Cache: cache.Options{ByObject: map[client.Object]cache.ByObject{
			&platformv1.Application{}: {Label: labels.SelectorFromSet(labels.Set{platformv1.DomainLabel: "database"})},
			&corev1.Pod{}:             {Transform: engine.TrimPod},
			&platformv1.Operation{}:   {Transform: engine.TrimOperation},
			&platformv1.Component{}:   {Transform: engine.TrimMade},
			&platformv1.WorkloadSet{}: {Transform: engine.TrimMade},
		}},
	})
	if err != nil {
		return err
	}
	if err := engine.Setup(mgr, engine.Options{Domain: "database", Namespace: system, Settings: rendering, Now: clock,
		Kinds: kinds, LoadPlugin: loadOnce}); err != nil {
		return err
	}
	if err := typed.Setup(mgr, typed.Settings{Domain: "database"}, kinds...); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// node plays kubelet and agents for the pods of a namespace: each pod runs at once, and
// its agent reports the plan that the ConfigMap holds. Nobody can be called there.
func node(t *testing.T, namespace string) {
	t.Helper()
	nodeAt(t, namespace, "192.0.2.1")
}

// nodeAt is a node whose pods have this address.
func nodeAt(t *testing.T, namespace, address string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	live, err := client.NewWithWatch(env.Config, client.Options{Scheme: env.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	pods, err := live.Watch(ctx, &corev1.PodList{}, client.InNamespace(namespace))
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(ended)
		for e := range pods.ResultChan() {
			pod, ok := e.Object.(*corev1.Pod)
			if !ok || e.Type == watch.Deleted {
				continue
			}
			if err := serve(ctx, pod, address); client.IgnoreNotFound(err) != nil && ctx.Err() == nil {
				t.Errorf("cannot serve pod %s: %v", pod.Name, err)
			}
		}
	}()
	t.Cleanup(func() { cancel(); pods.Stop(); <-ended })
}

// serve starts a new pod, and ends one that is to be deleted: the API server does so itself, in two writes, unless who
// asked for it is killed between them, which the garbage collector of pods makes good in a cluster.
func serve(ctx context.Context, pod *corev1.Pod, address string) error {
	switch {
	case pod.DeletionTimestamp != nil && pod.Spec.NodeName == "":
		err := env.Client.Delete(ctx, pod, client.GracePeriodSeconds(0), client.Preconditions{UID: &pod.UID})
		if apierrors.IsConflict(err) { // Another one has its name by now.
			return nil
		}
		return err
	case pod.DeletionTimestamp == nil && pod.Status.PodIP == "" && !stubborn(pod):
		return start(ctx, pod, address)
	}
	return nil
}

func start(ctx context.Context, pod *corev1.Pod, address string) error {
	set := &platformv1.WorkloadSet{}
	key := client.ObjectKey{Namespace: pod.Namespace, Name: metav1.GetControllerOf(pod).Name}
	if err := env.Client.Get(ctx, key, set); err != nil {
		return err
	}
	plan, err := render.Plan(set)
	if err != nil {
		return err
	}
	role, err := probed(ctx, plan.Probe, roleOf(set, pod))
	if err != nil {
		return err
	}
	reported := pod.DeepCopy()
	digest, restart := plan.DigestsOf(pod.Name)
	// The engine's own annotations stay, such as that of what the plugin calls the images.
	metav1.SetMetaDataAnnotation(&reported.ObjectMeta, platformv1.ReportAnnotation, report.Report{
		Health: report.Healthy, Role: role, Version: "7.0.15", ConfigDigest: digest, RestartDigest: restart, Starts: 1,
	}.String())
	if err := env.Client.Patch(ctx, reported, client.MergeFrom(pod)); err != nil {
		return err
	}
	running := reported.DeepCopy()
	running.Status.Phase, running.Status.PodIP = corev1.PodRunning, address
	running.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	return env.Client.Status().Patch(ctx, running, client.MergeFrom(reported))
}

// roleOf has the first pod of a set take writes, where the plugin knows roles.
func roleOf(set *platformv1.WorkloadSet, pod *corev1.Pod) string {
	switch {
	case len(set.Spec.Roles) == 0:
		return ""
	case pod.Labels[platformv1.OrdinalLabel] == "0":
		return set.Spec.Roles[0].Name
	}
	return set.Spec.Roles[1].Name
}

// probed is the role that a probe prints that needs no middleware for it; for any other probe the given one.
func probed(ctx context.Context, probe plan.Probe, role string) (string, error) {
	if probe.Command[0] != "echo" {
		return role, nil
	}
	printed, err := exec.CommandContext(ctx, probe.Command[0], probe.Command[1:]...).Output()
	return strings.TrimPrefix(strings.TrimSpace(string(printed)), "role:"), err
}

func application(namespace string) *platformv1.Application {
	return testkit.BuildApplication(namespace, "redis-a").Domain("database").
		Plugin("redis", "1.0.0").Version("7.0").Topology("standalone").Build()
}

// resizes says whether the API server gives pods other resources while they run.
func resizes(t *testing.T) bool {
	t.Helper()
	resizes, err := env.Since(testkit.Resizes)
	if err != nil {
		t.Fatal(err)
	}
	return resizes
}
