// SPDX-License-Identifier: Apache-2.0

//go:build integration

package workloadset

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	crevent "sigs.k8s.io/controller-runtime/pkg/event"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/zeroinfra/platform-core/agentproto/plan"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/config/crd"
	"github.com/zeroinfra/platform-core/internal/controller/workloadset/pods"
	"github.com/zeroinfra/platform-core/internal/disruption"
	"github.com/zeroinfra/platform-core/internal/pki"
	"github.com/zeroinfra/platform-core/internal/plugin/podtemplate"
	"github.com/zeroinfra/platform-core/internal/render"
	"github.com/zeroinfra/platform-core/internal/settings"
	"github.com/zeroinfra/platform-core/internal/trim"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/event"
	"github.com/zeroinfra/platform-core/sdk/queue"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

const (
	setName = "redis-a-redis-main"
	oldUID  = "11111111-1111-1111-1111-111111111111"
	newUID  = "22222222-2222-2222-2222-222222222222"
)

var env *testkit.Env

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	flag.Parse()
	// The tests wait far more than they work.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	testkit.Main(m, &env, testkit.EnvOptions{CRDs: []fs.FS{crd.FS}, System: system})
}

// system is the namespace of the operator.
const system = "zeroinfra-system"

var authority = sync.OnceValue(func() *pki.Authority {
	data, err := pki.Generate("database", time.Now())
	if err != nil {
		panic(err)
	}
	authority, err := pki.Parse("database", data)
	if err != nil {
		panic(err)
	}
	return authority
})

// prepare makes what is there before any set, a class; a test that is run again finds it.
var prepare = sync.OnceValue(func() error {
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "standard"}, Provisioner: "example.com/none",
		AllowVolumeExpansion: new(true)}
	return client.IgnoreAlreadyExists(env.Client.Create(context.Background(), class))
})

// serverResizes says whether an API server of this version resizes pods while they run.
var serverResizes = sync.OnceValues(func() (bool, error) { return env.Since(testkit.Resizes) })

// fuse kills a controller right after a number of its writes. A negative number never does.
type fuse struct {
	kill   context.CancelFunc
	left   atomic.Int64
	writes atomic.Int64
}

// fused is one transport of the controller.
type fused struct {
	*fuse
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (f fused) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method == http.MethodGet || strings.Contains(request.URL.Path, "/events") {
		return f.next.RoundTrip(request)
	}
	if f.left.Load() == 0 {
		return nil, context.Canceled // dead already: another worker came too late
	}
	f.writes.Add(1)
	response, err := f.next.RoundTrip(request)
	if f.left.Add(-1) == 0 {
		f.kill()
	}
	return response, err
}

// harness is one WorkloadSet in a namespace of its own, with a node and a controller.
type harness struct {
	*testing.T
	namespace string
	node      *node
	// clock is how far the controller's time is ahead.
	clock atomic.Int64
	// resizable as the server says, unless a test has it otherwise.
	resizable bool
	log       logr.Logger
	// authority of the agents, which tests have in common unless one changes it; reissue tells of that.
	authority *pki.Authority
	reissue   chan crevent.GenericEvent
	// backOff of reconciles that fail; nil for that of operators.
	backOff workqueue.TypedRateLimiter[reconcile.Request]
}

func newHarness(t *testing.T) *harness {
	t.Helper()
	if err := prepare(); err != nil {
		t.Fatal(err)
	}
	resizable, err := serverResizes()
	if err != nil {
		t.Fatal(err)
	}
	namespace := env.Namespace(t)
	return &harness{T: t, namespace: namespace, node: newNode(t, namespace), resizable: resizable, log: logr.Discard(),
		authority: authority(), reissue: make(chan crevent.GenericEvent)}
}

// start runs a controller that dies right after the given number of writes; done closes at its end.
func (h *harness) start(writes int) (f *fuse, done <-chan struct{}) {
	h.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	f = &fuse{kill: cancel}
	f.left.Store(int64(writes))
	cfg := rest.CopyConfig(env.System.Config)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return fused{f, next} })
	ended := make(chan struct{})
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme:     env.Scheme,
		Logger:     h.log,
		Metrics:    metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true)},
		Cache: cache.Options{
			DefaultNamespaces: map[string]cache.Config{h.namespace: {}},
			ByObject:          map[client.Object]cache.ByObject{&corev1.Pod{}: {Transform: trim.Pod}},
		},
	})
	if err != nil {
		h.Fatal(err)
	}
	resizes, _ := serverResizes()
	if found, err := pods.CanResize(mgr); err != nil || found != resizes {
		h.Fatalf("it takes the server for one that resizes pods: %t, %v", found, err)
	}
	options := queue.Options(queue.NewLimit(2))
	if h.backOff != nil {
		options.RateLimiter = h.backOff
	}
	err = setup(mgr, newController(
		Deps{Settings: settings.New(render.Settings{}), Authority: h.authority, Reissue: h.reissue,
			Locks: &disruption.Locks{}, Dialer: h.node, Ops: h.node, Members: h.node, Options: options,
			Now: func() time.Time { return time.Now().Add(time.Duration(h.clock.Load())) }},
		access{client: mgr.GetClient(), live: mgr.GetAPIReader(), events: event.New(mgr.GetEventRecorder(owner)),
			resizable: h.resizable}))
	if err != nil {
		h.Fatal(err)
	}
	go func() {
		defer close(ended)
		if err := mgr.Start(ctx); err != nil && ctx.Err() == nil {
			h.Errorf("the controller ended: %v", err)
		}
	}()
	h.Cleanup(func() { cancel(); <-ended })
	return f, ended
}

// content of the rendered set that tests change.
type content struct {
	// Registry in front of the image: empty, or with a slash at the end.
	Registry  string
	Image     string
	Resources corev1.ResourceRequirements
	Plan      plan.Plan
}

func resources(memory, limit string) corev1.ResourceRequirements {
	r := corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(memory)}}
	if limit != "" {
		r.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(limit)}
	}
	return r
}

func original() content {
	return content{Image: "redis:1", Resources: resources("100Mi", "200Mi"), Plan: planOf("d1", "s1")}
}

func planOf(digest, restart string) plan.Plan {
	return plan.Plan{Version: 1, Digest: digest, RestartDigest: restart,
		Process: plan.Process{Command: []string{"redis-server"}}, Probe: plan.Probe{Command: []string{"true"}}}
}

// fill renders the content into a spec.
func (c content) fill(t testing.TB, spec *platformv1.WorkloadSetSpec) {
	t.Helper()
	labels := map[string]string{platformv1.ManagedByLabel: platformv1.ManagedBy, platformv1.ApplicationLabel: "redis-a",
		platformv1.ApplicationUIDLabel: newUID, platformv1.ComponentLabel: "redis", platformv1.SetLabel: spec.Set}
	names := fmt.Sprintf(`{"redis":%q,%q:%q}`, c.Image, podtemplate.StatusContainer, c.Image)
	meta := metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{platformv1.PluginImagesAnnotation: names}}
	template := corev1.PodTemplateSpec{ObjectMeta: meta, Spec: corev1.PodSpec{
		ServiceAccountName: setName,
		InitContainers:     []corev1.Container{{Name: podtemplate.InitContainer, Image: "agent:1"}},
		Containers: []corev1.Container{
			{Name: "redis", Image: c.Registry + c.Image, Resources: c.Resources},
			{Name: podtemplate.StatusContainer, Image: c.Registry + c.Image},
		},
	}}
	for target, value := range map[*runtime.RawExtension]any{&spec.Template: template, &spec.Plan: c.Plan} {
		data, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		target.Raw = data
	}
}

// create makes the set as it was first asked for, with changes.
func (h *harness) create(replicas int32, changes ...func(*platformv1.WorkloadSet)) *platformv1.WorkloadSet {
	h.Helper()
	set := &platformv1.WorkloadSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: setName, Labels: map[string]string{
			platformv1.ApplicationLabel: "redis-a", platformv1.ApplicationUIDLabel: newUID, platformv1.ComponentLabel: "redis",
			platformv1.SetLabel: "main", platformv1.NameLabel: "redis",
		}},
		Spec: platformv1.WorkloadSetSpec{
			Application: "redis-a", Component: "redis", Set: "main", Version: "7.0", Replicas: replicas, Revision: "r1",
			Plugin: platformv1.PluginReference{Name: "redis", Version: "1.0.0"},
			Volumes: []platformv1.SetVolume{{Name: "data",
				Storage: platformv1.Storage{Size: resource.MustParse("1Gi"), StorageClassName: new("standard")}}},
			Roles: []platformv1.SetRole{{Name: "primary", Access: platformv1.RoleReadWrite},
				{Name: "replica", Access: platformv1.RoleReadOnly}},
		},
	}
	original().fill(h, &set.Spec)
	for _, change := range changes {
		change(set)
	}
	if err := env.Client.Create(h.Context(), set); err != nil {
		h.Fatal(err)
	}
	return set
}

// change brings a change of the spec to the API server.
func (h *harness) change(set *platformv1.WorkloadSet, change func(*platformv1.WorkloadSet)) {
	h.Helper()
	if err := env.Client.Get(h.Context(), client.ObjectKeyFromObject(set), set); err != nil {
		h.Fatal(err)
	}
	before := set.DeepCopy()
	change(set)
	if err := env.Client.Patch(h.Context(), set, client.MergeFrom(before)); err != nil {
		h.Fatal(err)
	}
}

// says waits until Ready has this reason and its message this text.
func (h *harness) says(set *platformv1.WorkloadSet, reason, text string) {
	h.Helper()
	testkit.WaitFor(h, env.Client, set, fmt.Sprintf("%s saying %q", reason, text), func() error {
		ready := conditions.Get(set, platformv1.ReadyCondition)
		if ready == nil || ready.ObservedGeneration != set.Generation || ready.Reason != reason ||
			!strings.Contains(ready.Message, text) {
			return fmt.Errorf("it says %+v", ready)
		}
		return nil
	})
	if err := testkit.StatusLint(set); err != nil {
		h.Error(err)
	}
}

// saysFirst is says for a message that begins so.
func (h *harness) saysFirst(set *platformv1.WorkloadSet, reason, first, text string) {
	h.Helper()
	h.says(set, reason, text)
	h.says(set, reason, first)
	if ready := conditions.Get(set, platformv1.ReadyCondition); !strings.HasPrefix(ready.Message, first) {
		h.Errorf("it says %q, and not first %q", ready.Message, first)
	}
}

// tells waits until events of the set have this reason and say each of the texts.
func (h *harness) tells(set *platformv1.WorkloadSet, reason string, texts ...string) {
	h.Helper()
	testkit.Eventually(h, fmt.Sprintf("events %s saying %q", reason, texts), func(ctx context.Context) error {
		var list eventsv1.EventList
		if err := env.Client.List(ctx, &list, client.InNamespace(h.namespace)); err != nil {
			return err
		}
		var notes []string
		for _, e := range list.Items {
			if e.Regarding.UID == set.UID && e.Reason == reason {
				notes = append(notes, e.Note)
			}
		}
		for _, text := range texts {
			if !slices.ContainsFunc(notes, func(note string) bool { return strings.Contains(note, text) }) {
				return fmt.Errorf("none of these says %q: %q", text, notes)
			}
		}
		return nil
	})
}

// each is a text for each of the three pods of ready, with its name where the text has %s.
func each(format string) []string {
	texts := make([]string, 0, 3)
	for ordinal := range int32(3) {
		texts = append(texts, fmt.Sprintf(format, platformv1.PodNameFor(setName, ordinal)))
	}
	return texts
}

func (h *harness) pods() map[string]corev1.Pod {
	h.Helper()
	var list corev1.PodList
	if err := env.Client.List(h.Context(), &list, client.InNamespace(h.namespace)); err != nil {
		h.Fatal(err)
	}
	pods := map[string]corev1.Pod{}
	for _, pod := range list.Items {
		pods[strings.TrimPrefix(pod.Name, setName+"-")] = pod
	}
	return pods
}

// sameEvents compares what happened on the node with what should have.
func (h *harness) sameEvents(want ...string) {
	h.Helper()
	got := h.node.events()
	for i := range want {
		want[i] = setName + "-" + want[i]
	}
	if !slices.Equal(got, want) {
		h.Errorf("on the node:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// touch has the controller look again.
func (h *harness) touch(set *platformv1.WorkloadSet) {
	h.Helper()
	h.change(set, func(s *platformv1.WorkloadSet) {
		if s.Annotations == nil {
			s.Annotations = map[string]string{}
		}
		s.Annotations["touched"] = fmt.Sprint(time.Now().UnixNano())
	})
}
