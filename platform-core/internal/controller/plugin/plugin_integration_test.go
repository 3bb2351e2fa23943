// SPDX-License-Identifier: Apache-2.0

//go:build integration

package plugin

import (
	"cmp"
	"context"
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
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/config/crd"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/internal/pluginfolder"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

var env *testkit.Env

// system is the namespace of the operators' account. Their plugins are in that of each test.
const system = "zeroinfra-system"

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	testkit.Main(m, &env, testkit.EnvOptions{CRDs: []fs.FS{crd.FS}, System: system})
}

// written lists the writes of one controller, but those of events.
type written struct {
	mu   sync.Mutex
	list []string
	// held is the name of an object whose writes wait for released to close; empty for none.
	held     string
	released chan struct{}
}

// hold has writes of an object wait until release is called.
func (w *written) hold(name string) (release func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held, w.released = name, make(chan struct{})
	return sync.OnceFunc(func() { close(w.released) })
}

func (w *written) RoundTrip(next http.RoundTripper) http.RoundTripper {
	return roundTrip(func(r *http.Request) (*http.Response, error) {
		if r.Method != http.MethodGet && !strings.Contains(r.URL.Path, "/events") {
			w.mu.Lock()
			w.list = append(w.list, r.Method+" "+r.URL.Path)
			held, released := w.held != "" && strings.Contains(r.URL.Path, w.held), w.released
			w.mu.Unlock()
			if held {
				select {
				case <-released:
				case <-r.Context().Done():
				}
			}
		}
		return next.RoundTrip(r)
	})
}

func (w *written) of(name string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var list []string
	for _, write := range w.list {
		if strings.Contains(write, name) {
			list = append(list, write)
		}
	}
	return list
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// operator runs the controller of the domain common in a namespace, and returns its index, its writes and what ends it.
func operator(t *testing.T, namespace string) (*plugin.Index, *written, func()) {
	t.Helper()
	return operatorOf(t, namespace, "common")
}

func operatorOf(t *testing.T, namespace, domain string) (*plugin.Index, *written, func()) {
	t.Helper()
	return start(t, namespace, domain, "")
}

// start runs a controller; with a Lease that it waits for when one is named.
func start(t *testing.T, namespace, domain, lease string, options ...func(*Deps)) (*plugin.Index, *written, func()) {
	t.Helper()
	mine := cache.ByObject{Label: labels.SelectorFromSet(labels.Set{platformv1.DomainLabel: domain})}
	w := &written{}
	cfg := rest.CopyConfig(env.System.Config)
	cfg.Wrap(w.RoundTrip)
	skip := true
	manager, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme:  env.Scheme,
		Metrics: metricsserver.Options{BindAddress: "0"},
		// A Lease that somebody else holds.
		LeaderElection: lease != "", LeaderElectionID: lease, LeaderElectionNamespace: system,
		Controller: config.Controller{SkipNameValidation: &skip},
		Cache: cache.Options{ByObject: map[client.Object]cache.ByObject{
			&platformv1.Application{}: mine, &platformv1.Plugin{}: mine,
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	index := plugin.NewIndex()
	deps := Deps{Index: index, Namespace: namespace, Domain: domain, Now: time.Now}
	for _, option := range options {
		option(&deps)
	}
	if _, err := Setup(manager, deps); err != nil {
		t.Fatal(err)
	}
	return index, w, testkit.Run(t, manager)
}

// relay returns the ConfigMaps of the relay plugin under another version, so that each test has a Plugin object of its
// own.
func relay(t *testing.T, namespace, version string) []*corev1.ConfigMap {
	t.Helper()
	_, sources, problems := pluginfolder.Load("../../plugin/testdata/relay/1.0.0")
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	parts, err := pluginfolder.Package(sources, namespace)
	if err != nil {
		t.Fatal(err)
	}
	var list []*corev1.ConfigMap
	for _, part := range parts {
		cm := part.(*corev1.ConfigMap)
		cm.Name = strings.ReplaceAll(cm.Name, "1.0.0", version)
		for key, value := range cm.Labels {
			cm.Labels[key] = strings.ReplaceAll(value, "1.0.0", version)
		}
		for key, value := range cm.Data {
			if key == "version" || strings.HasSuffix(key, "-ref") {
				cm.Data[key] = strings.ReplaceAll(value, "1.0.0", version)
			}
		}
		list = append(list, cm)
	}
	return list
}

func create(t *testing.T, objects ...client.Object) {
	t.Helper()
	for _, obj := range objects {
		if err := env.Client.Create(t.Context(), obj); err != nil {
			t.Fatalf("cannot create %T %q: %v", obj, obj.GetName(), err)
		}
	}
}

// objectsOf are the parts of a bundle as objects to create.
func objectsOf(parts []*corev1.ConfigMap) []client.Object {
	var objects []client.Object
	for _, part := range parts {
		objects = append(objects, part)
	}
	return objects
}

func published(version string) *platformv1.Plugin {
	return &platformv1.Plugin{ObjectMeta: metav1.ObjectMeta{Name: "relay-" + version}}
}

// waitPlugin waits until the Plugin object of a version is as wanted.
func waitPlugin(t *testing.T, version, what string, wanted func(*platformv1.Plugin) bool) *platformv1.Plugin {
	t.Helper()
	p := published(version)
	testkit.WaitFor(t, env.Client, p, what, func() error {
		if !wanted(p) {
			return fmt.Errorf("it is %+v", p.Status)
		}
		return nil
	})
	return p
}

func accepted(p *platformv1.Plugin) bool { return conditions.IsTrue(p, platformv1.AcceptedCondition) }

// The budget is for a machine that has nothing else to do. One that is busy for a while has it in one of a few tries;
// an engine that takes longer has it in none.
func TestPluginIsUsableWithinTwoSecondsWithoutARestart(t *testing.T) {
	const budget, tries = 2 * time.Second, 5
	namespace := env.Namespace(t)
	index, _, _ := operator(t, namespace)
	// Another plugin is there first: the operator is up.
	create(t, objectsOf(relay(t, namespace, "1.1.0"))...)
	waitPlugin(t, "1.1.0", "accepted", accepted)

	var took []time.Duration
	version := ""
	for len(took) < tries {
		version = fmt.Sprintf("1.1.%d", len(took)+1)
		create(t, objectsOf(relay(t, namespace, version))...)
		took = append(took, usableAfter(t, index, version))
		if took[len(took)-1] <= budget {
			break
		}
	}
	t.Logf("plugins were usable after %v", took)
	if slices.Min(took) > budget {
		t.Errorf("plugins were usable after %v, want one within %v", took, budget)
	}
	p := waitPlugin(t, version, "accepted", accepted)
	if p.Spec.Domain != "common" || len(p.Status.ShortDigest) != 12 ||
		!strings.HasPrefix(p.Status.Digest, "sha256:"+p.Status.ShortDigest) ||
		!slices.Equal(p.Status.SupportedVersions, []string{"1", "2"}) || p.Status.Instances != 0 {
		t.Errorf("the Plugin object is %+v, %+v", p.Spec, p.Status)
	}
	if err := testkit.StatusLint(p); err != nil {
		t.Error(err)
	}
}

// usableAfter says how long it takes from now until the index has the bundle of a version.
func usableAfter(t *testing.T, index *plugin.Index, version string) time.Duration {
	t.Helper()
	complete := time.Now()
	testkit.Eventually(t, "bundle "+version+" in the index", func(context.Context) error {
		if state, ok := index.Get("relay", version); !ok || state.Bundle == nil {
			return fmt.Errorf("the index has %+v, %v", state.Errors, ok)
		}
		return nil
	})
	return time.Since(complete)
}

func TestBrokenPluginIsRefusedAndHarmsNothing(t *testing.T) {
	namespace := env.Namespace(t)
	index, _, _ := operator(t, namespace)
	for _, cm := range relay(t, namespace, "1.2.0") {
		create(t, cm)
	}
	for _, cm := range relay(t, namespace, "1.2.1") {
		if text, ok := cm.Data["components.yaml"]; ok {
			cm.Data["components.yaml"] = strings.Replace(text, "needs: [hub]", "needs: [hup]", 1)
		}
		create(t, cm)
	}
	p := waitPlugin(t, "1.2.1", "refused",
		func(p *platformv1.Plugin) bool { return conditions.IsTrue(p, platformv1.StalledCondition) })
	if message := conditions.Get(p, platformv1.AcceptedCondition).Message; !strings.Contains(message,
		"relay-components-1.2.1/components.yaml:") || !strings.Contains(message, `names the component "hup"`) {
		t.Errorf("the message is %q", message)
	}
	told := &eventsv1.Event{}
	testkit.WaitFor(t, env.Client, p, "told of by an event", func() error {
		events := &eventsv1.EventList{}
		if err := env.Client.List(t.Context(), events); err != nil {
			return err
		}
		i := slices.IndexFunc(events.Items,
			func(e eventsv1.Event) bool { return e.Regarding.Kind == "Plugin" && e.Regarding.Name == p.Name })
		if i < 0 {
			return fmt.Errorf("of %d events none is about it", len(events.Items))
		}
		told = &events.Items[i]
		return nil
	})
	if told.Type != corev1.EventTypeWarning || told.Reason != platformv1.ReasonPluginInvalid ||
		!strings.Contains(told.Note, `names the component "hup"`) {
		t.Errorf("the event is %s %s: %s", told.Type, told.Reason, told.Note)
	}
	waitPlugin(t, "1.2.0", "accepted", accepted)

	// The same version with other content is refused, and what was loaded stays.
	before, _ := index.Get("relay", "1.2.0")
	var params *corev1.ConfigMap
	for _, cm := range relay(t, namespace, "1.2.0") {
		if _, ok := cm.Data["hub.yaml"]; ok && strings.Contains(cm.Name, "params") {
			params = cm
		}
	}
	if err := env.Client.Delete(t.Context(), params.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	params.Data["hub.yaml"] = strings.Replace(params.Data["hub.yaml"], "mode: strict", "mode: loose", 1)
	create(t, params)
	p = waitPlugin(t, "1.2.0", "refused as changed", func(p *platformv1.Plugin) bool {
		return strings.Contains(conditions.Get(p, platformv1.AcceptedCondition).Message, "cannot change to")
	})
	after, _ := index.Get("relay", "1.2.0")
	if after.Bundle == nil || after.Bundle.Digest != before.Bundle.Digest || p.Status.Digest != before.Bundle.Digest {
		t.Errorf("the bundle is %+v; want the one of before", after)
	}
}

// TestWhatIsCheckedNowAndWasNotHarmsNothing: a plugin that loaded before a check came is loaded still, and its Plugin
// says what to mend.
func TestWhatIsCheckedNowAndWasNotHarmsNothing(t *testing.T) {
	namespace := env.Namespace(t)
	index, _, _ := operator(t, namespace)
	for _, cm := range relay(t, namespace, "1.2.2") {
		if text, ok := cm.Data["components.yaml"]; ok {
			cm.Data["components.yaml"] = strings.Replace(text, "replicas: {default: 3, min: 1, max: 5}",
				"replicas: {default: 3, min: 1, max: 251}", 1)
		}
		create(t, cm)
	}
	p := waitPlugin(t, "1.2.2", "accepted", accepted)
	if message := conditions.Get(p, platformv1.AcceptedCondition).Message; !strings.Contains(message,
		"the bundle is loaded; a later version should mend: relay-components-1.2.2/components.yaml:") {
		t.Errorf("the message is %q", message)
	}
	if state, _ := index.Get("relay", "1.2.2"); state.Bundle == nil || len(p.Status.Errors) > 0 {
		t.Errorf("the index has %+v, the status %v", state, p.Status.Errors)
	}
}

func TestInstancesAreCountedInFewWritesAndNoneAtRest(t *testing.T) {
	namespace := env.Namespace(t)
	_, w, stop := operator(t, namespace)
	for _, cm := range relay(t, namespace, "1.3.0") {
		create(t, cm)
	}
	waitPlugin(t, "1.3.0", "accepted", accepted)
	writes := len(w.of("relay-1.3.0"))
	const many = 20
	var apps []client.Object
	for i := range many {
		apps = append(apps, testkit.BuildApplication(namespace, fmt.Sprintf("a-%d", i)).Plugin("relay", "1.3.0").Domain(
			"common").Build())
	}
	// However long it takes to create them, they are all there once the first count is written.
	release := w.hold("relay-1.3.0")
	t.Cleanup(release)
	create(t, apps...)
	create(t, testkit.BuildApplication(namespace, "other").Plugin("relay", "9.9.9").Domain("common").Build())
	release()
	waitPlugin(t, "1.3.0", "counted", func(p *platformv1.Plugin) bool { return p.Status.Instances == many })
	if spent := len(w.of("relay-1.3.0")) - writes; spent > 3 {
		t.Errorf("counting %d Applications took %d writes; want 3 at most", many, spent)
	}

	// Another operator counts again, and has nothing to write: a bundle that it loads later is published, this one is left
	// alone.
	stop()
	_, w, _ = operator(t, namespace)
	for _, cm := range relay(t, namespace, "1.3.1") {
		create(t, cm)
	}
	create(t, testkit.BuildApplication(namespace, "late").Plugin("relay", "1.3.1").Domain("common").Build())
	waitPlugin(t, "1.3.1", "counted", func(p *platformv1.Plugin) bool { return p.Status.Instances == 1 })
	if list := w.of("relay-1.3.0"); len(list) > 0 {
		t.Errorf("a restart wrote %q", list)
	}
	for _, app := range apps[:5] {
		if err := env.Client.Delete(t.Context(), app); err != nil {
			t.Fatal(err)
		}
	}
	waitPlugin(t, "1.3.0", "counted again", func(p *platformv1.Plugin) bool { return p.Status.Instances == many-5 })
}

func TestPluginIsWithdrawn(t *testing.T) {
	namespace := env.Namespace(t)
	index, _, _ := operator(t, namespace)
	parts := relay(t, namespace, "1.4.0")
	for _, cm := range parts {
		create(t, cm)
	}
	p := waitPlugin(t, "1.4.0", "accepted", accepted)
	for _, cm := range parts {
		if err := env.Client.Delete(t.Context(), cm); err != nil {
			t.Fatal(err)
		}
	}
	testkit.WaitGone(t, env.Client, p)
	if _, ok := index.Get("relay", "1.4.0"); ok {
		t.Error("the index still has it")
	}
	// It comes back with other content: nothing is left of what it was.
	for _, cm := range relay(t, namespace, "1.4.0") {
		if text, ok := cm.Data["hub.yaml"]; ok {
			cm.Data["hub.yaml"] = strings.Replace(text, "mode: strict", "mode: loose", 1)
		}
		create(t, cm)
	}
	if again := waitPlugin(t, "1.4.0", "accepted again", accepted); again.Status.Digest == p.Status.Digest {
		t.Error("the digest is that of before")
	}
}

// Operators may share a namespace: each speaks of the bundles of its own domain.
func TestOperatorsShareANamespace(t *testing.T) {
	namespace := env.Namespace(t)
	// The clock of the other one, which can be stopped.
	var stopped atomic.Pointer[time.Time]
	_, others, _ := start(t, namespace, "database", "", func(d *Deps) {
		d.Now = func() time.Time { return *cmp.Or(stopped.Load(), new(time.Now())) }
	})
	for _, cm := range relay(t, namespace, "1.5.0") {
		create(t, cm)
	}
	p := waitPlugin(t, "1.5.0", "refused while nobody serves its domain", func(p *platformv1.Plugin) bool {
		return conditions.IsTrue(p, platformv1.StalledCondition)
	})
	message := conditions.Get(p, platformv1.AcceptedCondition).Message
	if !strings.Contains(message, "install the operator of that domain") || p.Spec.Domain != "common" {
		t.Errorf("it is of domain %q and says %q", p.Spec.Domain, message)
	}
	_, _, _ = operator(t, namespace)
	taken := func(p *platformv1.Plugin) bool { return accepted(p) && p.Labels[platformv1.DomainLabel] == "common" }
	waitPlugin(t, "1.5.0", "taken over", taken)
	before := len(others.of("relay-1.5.0"))

	// The next ones are published by the right operator at once, while the other one waits whether somebody does.
	// What comes last tells that both have seen all of it.
	stopped.Store(new(time.Now()))
	for _, version := range []string{"1.5.1", "1.5.2"} {
		for _, cm := range relay(t, namespace, version) {
			create(t, cm)
		}
		waitPlugin(t, version, "accepted", taken)
	}
	broken := relay(t, namespace, "1.5.3")
	for _, cm := range broken {
		if _, ok := cm.Data["domain"]; ok {
			cm.Data["domain"] = "sea"
		}
		create(t, cm)
	}
	waitPlugin(t, "1.5.3", "refused", func(p *platformv1.Plugin) bool {
		return conditions.IsTrue(p, platformv1.StalledCondition)
	})
	list := slices.Concat(others.of("relay-1.5.0")[before:], others.of("relay-1.5.1"), others.of("relay-1.5.2"))
	if len(list) > 0 {
		t.Errorf("the operator of another domain wrote %q", list)
	}
}

// A replica that does not lead knows what the leader knows, so that it can take over at any time.
func TestStandbyFollows(t *testing.T) {
	namespace := env.Namespace(t)
	holder, seconds, now := "somebody", int32(3600), metav1.NowMicro()
	create(t, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: "held"},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &holder, LeaseDurationSeconds: &seconds, AcquireTime: &now, RenewTime: &now,
		}})
	index, w, _ := start(t, namespace, "common", "held")
	has := func(version string, want bool) {
		t.Helper()
		testkit.Eventually(t, fmt.Sprintf("version %s is usable: %v", version, want), func(context.Context) error {
			if state, ok := index.Get("relay", version); (ok && state.Bundle != nil) != want {
				return fmt.Errorf("the index has %+v, %v", state.Errors, ok)
			}
			return nil
		})
	}
	for _, version := range []string{"1.6.0", "1.6.1"} {
		parts := relay(t, namespace, version)
		for _, cm := range parts {
			create(t, cm)
		}
		has(version, true)
		for _, cm := range parts {
			if err := env.Client.Delete(t.Context(), cm); err != nil {
				t.Fatal(err)
			}
		}
		has(version, false)
	}
	if list := w.of("relay-"); len(list) > 0 {
		t.Errorf("a replica that does not lead wrote %q", list)
	}
}
