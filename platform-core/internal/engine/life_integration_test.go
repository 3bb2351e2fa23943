// SPDX-License-Identifier: Apache-2.0

//go:build integration

package engine_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/platform-core/agentproto/report"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// shop is an Application of the tests' own plugin.
func shop(namespace, name, topology string) *platformv1.Application {
	return testkit.BuildApplication(namespace, name).Domain("database").
		Plugin("shop", "1.0.0").Version("1.0").Topology(topology).Build()
}

func create(t *testing.T, obj client.Object) {
	t.Helper()
	if err := env.Client.Create(t.Context(), obj); err != nil {
		t.Fatal(err)
	}
}

// change brings a change of the spec to the API server.
func change(t *testing.T, app *platformv1.Application, set func(*platformv1.ApplicationSpec)) {
	t.Helper()
	set(&app.Spec)
	patch(t, app)
}

func podNames(t *testing.T, namespace string) []string {
	t.Helper()
	list := &corev1.PodList{}
	if err := env.Client.List(t.Context(), list, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	return namesOf(t, list)
}

func component(t *testing.T, namespace, name string) *platformv1.Component {
	t.Helper()
	component := &platformv1.Component{}
	if err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, component); err != nil {
		t.Fatal(err)
	}
	return component
}

// record lists the pods of a namespace as they come and go, as "+name" and "-name".
type record struct {
	mu     sync.Mutex
	events []string
}

func recordPods(t *testing.T, namespace string) *record {
	t.Helper()
	live, err := client.NewWithWatch(env.Config, client.Options{Scheme: env.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	pods, err := live.Watch(context.Background(), &corev1.PodList{}, client.InNamespace(namespace))
	if err != nil {
		t.Fatal(err)
	}
	r, ended := &record{}, make(chan struct{})
	go func() {
		defer close(ended)
		for e := range pods.ResultChan() {
			if pod, ok := e.Object.(*corev1.Pod); ok && e.Type != watch.Modified {
				r.mu.Lock()
				r.events = append(r.events, map[watch.EventType]string{watch.Added: "+", watch.Deleted: "-"}[e.Type]+pod.Name)
				r.mu.Unlock()
			}
		}
	}()
	t.Cleanup(func() { pods.Stop(); <-ended })
	return r
}

// first returns the place of the first event that begins so, last that of the last; -1 for none.
func (r *record) first(prefix string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.IndexFunc(r.events, func(e string) bool { return strings.HasPrefix(e, prefix) })
}

func (r *record) last(prefix string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := len(r.events) - 1; i >= 0; i-- {
		if strings.HasPrefix(r.events[i], prefix) {
			return i
		}
	}
	return -1
}

func (r *record) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = nil
}

// A component starts when what it needs is ready, runs on when that falls ill, and stops before it.
func TestComponentsStartAndStopInOrder(t *testing.T) {
	namespace := env.Namespace(t)
	run(t, -1)
	pods := recordPods(t, namespace)
	app := shop(namespace, "a", "tiers")
	create(t, app)
	testkit.WaitFor(t, env.Client, app, "waiting for db", func() error {
		web := slices.IndexFunc(app.Status.Components, func(c platformv1.ComponentState) bool { return c.Name == "web" })
		ready := conditions.Get(app, platformv1.ReadyCondition)
		if web < 0 || ready == nil || app.Status.Components[web].Phase != platformv1.PhaseStopped ||
			len(podNames(t, namespace)) < 4 {
			return fmt.Errorf("pods %v, status %+v", podNames(t, namespace), app.Status)
		}
		return nil
	})
	if got := podNames(t, namespace); slices.Contains(got, "a-web-main-0") || len(got) != 4 {
		t.Fatalf("pods %v before db is ready", got)
	}
	node(t, namespace)
	testkit.WaitForReady(t, env.Client, app)
	if pods.last("+a-db") > pods.first("+a-web") {
		t.Errorf("pods came as %v", pods.events)
	}

	sick := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "a-db-1-0"}}
	body := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, platformv1.ReportAnnotation,
		report.Report{Health: report.Unhealthy, Message: "ill"}.String())
	err := env.Client.Patch(t.Context(), sick, client.RawPatch("application/merge-patch+json", []byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	testkit.WaitForCondition(t, env.Client, app, platformv1.ReadyCondition, metav1.ConditionFalse)
	if ready := conditions.Get(app, platformv1.ReadyCondition); !strings.HasPrefix(ready.Message, "component db: ") {
		t.Errorf("Ready says %q", ready.Message)
	}
	if !*component(t, namespace, "a-web").Spec.Running {
		t.Error("web was stopped since db is ill")
	}

	pods.forget()
	change(t, app, func(s *platformv1.ApplicationSpec) { s.Running = new(false) })
	testkit.WaitForReady(t, env.Client, app)
	ready := conditions.Get(app, platformv1.ReadyCondition)
	if ready.Reason != platformv1.ReasonStopped || app.Status.Phase != platformv1.PhaseStopped ||
		app.Status.Ready != "0/5" {
		t.Errorf("%s, phase %s, %s", ready.Reason, app.Status.Phase, app.Status.Ready)
	}
	if err := testkit.StatusLint(app); err != nil {
		t.Error(err)
	}
	if got := podNames(t, namespace); len(got) > 0 {
		t.Errorf("pods %v are still there", got)
	}
	if pods.last("-a-web") < 0 || pods.last("-a-web") > pods.first("-a-db") {
		t.Errorf("pods went as %v", pods.events)
	}
	claims := &corev1.PersistentVolumeClaimList{}
	if err := env.Client.List(t.Context(), claims, client.InNamespace(namespace)); err != nil || len(claims.Items) != 4 {
		t.Errorf("claims %v, %v", namesOf(t, claims), err)
	}

	pods.forget()
	change(t, app, func(s *platformv1.ApplicationSpec) { s.Running = nil })
	testkit.WaitFor(t, env.Client, app, "phase Ready", func() error {
		if app.Status.Phase != platformv1.PhaseReady {
			return fmt.Errorf("phase %s", app.Status.Phase)
		}
		return nil
	})
	if pods.first("+a-web") < pods.last("+a-db") {
		t.Errorf("pods came again as %v", pods.events)
	}
}

// Nothing is done for what is suspended, and all of it once that is lifted.
func TestSuspend(t *testing.T) {
	namespace, app := standing(t, "quorum")
	change(t, app, func(s *platformv1.ApplicationSpec) { s.Suspend = true })
	set := &platformv1.WorkloadSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "a-quorum-main"}}
	suspended := func(phase platformv1.Phase) error {
		if phase != platformv1.PhaseSuspended {
			return fmt.Errorf("phase %s", phase)
		}
		return nil
	}
	testkit.WaitFor(t, env.Client, app, "Suspended", func() error { return suspended(app.Status.Phase) })
	testkit.WaitFor(t, env.Client, set, "Suspended", func() error { return suspended(set.Status.Phase) })
	ready := conditions.Get(app, platformv1.ReadyCondition)
	if ready.Status != metav1.ConditionTrue || ready.Reason != platformv1.ReasonSuspended {
		t.Errorf("Ready: %+v", ready)
	}
	if err := testkit.StatusLint(app); err != nil {
		t.Error(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "a-quorum-main-1"}}
	if err := env.Client.Delete(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	// A change of the spec waits too. Another instance shows that the engine had the time to act.
	change(t, app, func(s *platformv1.ApplicationSpec) { s.NetworkPolicy = &platformv1.NetworkPolicy{} })
	other := shop(namespace, "b", "quorum")
	create(t, other)
	testkit.WaitForReady(t, env.Client, other)
	if got := podNames(t, namespace); slices.Contains(got, "a-quorum-main-1") || len(got) != 5 {
		t.Errorf("pods %v", got)
	}
	if component(t, namespace, "a-quorum").Spec.NetworkPolicy != nil {
		t.Error("the change was carried down")
	}
	change(t, app, func(s *platformv1.ApplicationSpec) { s.Suspend = false })
	testkit.WaitFor(t, env.Client, app, "Ready", func() error {
		if app.Status.Phase != platformv1.PhaseReady {
			return fmt.Errorf("phase %s", app.Status.Phase)
		}
		return nil
	})
	if got := podNames(t, namespace); len(got) != 6 {
		t.Errorf("pods %v", got)
	}
	if component(t, namespace, "a-quorum").Spec.NetworkPolicy == nil {
		t.Error("the change was not carried down")
	}
}

// What has deletionProtection is refused to be deleted, by name or with all others, but for its namespace's end.
func TestDeletionProtection(t *testing.T) {
	namespace := env.Namespace(t)
	if _, err := env.Operator(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	app := shop(namespace, "a", "quorum")
	app.Spec.DeletionProtection = true
	create(t, app)
	testkit.Eventually(t, "the refusal", refused(app))
	if err := env.Client.DeleteAllOf(t.Context(), &platformv1.Application{},
		client.InNamespace(namespace)); !apierrors.IsForbidden(err) {
		t.Errorf("deleting all gives %v", err)
	}
	free := shop(namespace, "b", "quorum")
	create(t, free)
	if err := env.Client.Delete(t.Context(), free); err != nil {
		t.Errorf("deleting one without protection gives %v", err)
	}
	change(t, app, func(s *platformv1.ApplicationSpec) { s.DeletionProtection = false })
	if err := env.Client.Delete(t.Context(), app); err != nil {
		t.Errorf("deleting it once protection is lifted gives %v", err)
	}

	last := shop(namespace, "c", "quorum")
	last.Spec.DeletionProtection = true
	create(t, last)
	testkit.Eventually(t, "the refusal", refused(last))
	ending := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if err := env.Client.Delete(t.Context(), ending); err != nil {
		t.Fatal(err)
	}
	// No namespace controller runs here: this is the request that it sends.
	testkit.Eventually(t, "the end with the namespace", func(ctx context.Context) error {
		return client.IgnoreNotFound(env.Client.Delete(ctx, last))
	})
	testkit.WaitGone(t, env.Client, last)
}

// refused tries to delete, as a dry run: the API server takes a moment to put a new policy in force.
func refused(app *platformv1.Application) func(ctx context.Context) error {
	says := fmt.Sprintf("Application %s has deletionProtection: set spec.deletionProtection to false first", app.Name)
	return func(ctx context.Context) error {
		if err := env.Client.Delete(ctx, app, client.DryRunAll); !apierrors.IsForbidden(err) ||
			!strings.Contains(err.Error(), says) {
			return fmt.Errorf("deleting gives %v", err)
		}
		return nil
	}
}

// A policy under which more is kept reaches the volumes whatever else is wanted: who deletes the instance next counts
// on it. One under which less is kept waits.
func TestRetainReachesTheVolumesAtOnce(t *testing.T) {
	for name, hinder := range map[string]func(*platformv1.ApplicationSpec){
		"suspended": func(s *platformv1.ApplicationSpec) { s.Suspend = true },
		"refused":   func(s *platformv1.ApplicationSpec) { s.Topology = "no-such-topology" },
	} {
		t.Run(name, func(t *testing.T) {
			namespace, app := standing(t, "quorum")
			set := &platformv1.WorkloadSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "a-quorum-main"}}
			goesBy := func(policy platformv1.DeletionPolicy) {
				t.Helper()
				testkit.WaitFor(t, env.Client, set, string(policy), func() error {
					if set.Spec.DeletionPolicy != policy || component(t, namespace, "a-quorum").Spec.DeletionPolicy != policy {
						return fmt.Errorf("its policy is %q", set.Spec.DeletionPolicy)
					}
					return nil
				})
			}
			change(t, app, func(s *platformv1.ApplicationSpec) { s.DeletionPolicy = platformv1.DeletionPolicyDelete })
			goesBy(platformv1.DeletionPolicyDelete)
			topology := app.Spec.Topology
			change(t, app, func(s *platformv1.ApplicationSpec) {
				s.DeletionPolicy = platformv1.DeletionPolicyRetain
				hinder(s)
			})
			goesBy(platformv1.DeletionPolicyRetain)
			change(t, app, func(s *platformv1.ApplicationSpec) { s.DeletionPolicy = platformv1.DeletionPolicyDelete })
			other := shop(namespace, "b", "quorum")
			create(t, other)
			testkit.WaitForReady(t, env.Client, other)
			goesBy(platformv1.DeletionPolicyRetain)
			change(t, app, func(s *platformv1.ApplicationSpec) { s.Suspend, s.Topology = false, topology })
			goesBy(platformv1.DeletionPolicyDelete)
		})
	}
}

// Volumes of a protected instance are kept when its WorkloadSet goes all the same, as with a CustomResourceDefinition
// that is deleted: the API server removes the objects of that one without asking its admission policies. The next
// WorkloadSet has the same volumes.
func TestVolumesOfAProtectedInstanceAreKept(t *testing.T) {
	env.Controllers(t, testkit.GarbageCollector)
	namespace, app := standing(t, "tiers")
	set := &platformv1.WorkloadSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "a-db-0"}}
	goesBy := func(policy platformv1.DeletionPolicy, finalizers ...string) {
		t.Helper()
		testkit.WaitFor(t, env.Client, set, string(policy), func() error {
			if set.Spec.DeletionPolicy != policy || !slices.Equal(set.Finalizers, finalizers) {
				return fmt.Errorf("its policy is %q, and its finalizers are %q", set.Spec.DeletionPolicy, set.Finalizers)
			}
			return nil
		})
	}
	change(t, app, func(s *platformv1.ApplicationSpec) { s.DeletionPolicy = platformv1.DeletionPolicyDelete })
	goesBy(platformv1.DeletionPolicyDelete, platformv1.VolumesFinalizer)
	change(t, app, func(s *platformv1.ApplicationSpec) { s.DeletionProtection = true })
	goesBy(platformv1.DeletionPolicyRetain)
	before, former := uidsOf(claimsOf(t, namespace)), set.UID
	if err := env.Client.Delete(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	testkit.WaitFor(t, env.Client, set, "is made again and Ready", func() error {
		if set.UID == former || set.Status.Phase != platformv1.PhaseReady {
			return fmt.Errorf("UID %s, which was %s, phase %s", set.UID, former, set.Status.Phase)
		}
		return nil
	})
	if after := uidsOf(claimsOf(t, namespace)); len(before) != 4 || !maps.Equal(before, after) {
		t.Errorf("the claims were %v, and are %v", before, after)
	}
	change(t, app, func(s *platformv1.ApplicationSpec) { s.DeletionProtection = false })
	goesBy(platformv1.DeletionPolicyDelete, platformv1.VolumesFinalizer)
}

// uidsOf are the UIDs of claims that nobody deletes, by name.
func uidsOf(claims map[string]corev1.PersistentVolumeClaim) map[string]types.UID {
	found := map[string]types.UID{}
	for name, claim := range claims {
		if claim.DeletionTimestamp == nil {
			found[name] = claim.UID
		}
	}
	return found
}
