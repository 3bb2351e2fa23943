// SPDX-License-Identifier: Apache-2.0

package entity

import (
	"context"
	"maps"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/zeroinfra/platform-core/agentproto/plan"
	"github.com/zeroinfra/platform-core/agentproto/report"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/accept"
	"github.com/zeroinfra/platform-core/internal/agentclient"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/event"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// server is the middleware of a pod, and its agent. What a call comes to is for the test to say.
type server struct {
	objects map[string]map[string]string
	// starts of the process, where the agent tells.
	starts int64
	answer func(s *server, key string, change agentclient.EntityChange) (phase, problem string, err error)
	calls  int
}

// Observe implements agentclient.Entities.
func (s *server) Observe(_ context.Context, _ string, queries []agentclient.EntityQuery) (
	agentclient.EntityStates, error) {
	states := agentclient.EntityStates{Objects: map[string]agentclient.EntityState{}, Starts: s.starts}
	for _, query := range queries {
		if parameters, there := s.objects[query.Name]; there {
			states.Objects[query.Name] = agentclient.EntityState{Parameters: parameters}
		}
	}
	return states, nil
}

// Change implements agentclient.Entities.
func (s *server) Change(_ context.Context, key, _ string,
	changes []agentclient.EntityChange) (agentclient.EntityCall, error) {
	s.calls++
	call := agentclient.EntityCall{Problems: map[string]string{}}
	for _, change := range changes {
		phase, problem, err := s.answer(s, key, change)
		if err != nil {
			return agentclient.EntityCall{}, err
		}
		call.Phase = phase
		if problem != "" {
			call.Problems[change.Name] = problem
		}
	}
	return call, nil
}

func refuses(*server, string, agentclient.EntityChange) (string, string, error) {
	return report.CallSucceeded, "there is no such role", nil
}

func makes(s *server, _ string, change agentclient.EntityChange) (string, string, error) {
	s.objects[change.Name] = change.Parameters
	return report.CallSucceeded, "", nil
}

func runs(*server, string, agentclient.EntityChange) (string, string, error) {
	return report.CallRunning, "", nil
}

func failsAs(kind agentclient.ErrorKind) func(*server, string, agentclient.EntityChange) (string, string, error) {
	return func(*server, string, agentclient.EntityChange) (string, string, error) {
		return "", "", &agentclient.Error{Kind: kind, Problem: string(kind)}
	}
}

// instanceOf is an instance of one Entity, with its pods and a clock. Each turn is one of the controller.
type instanceOf struct {
	*testing.T
	*Controller
	declared *schema.Entity
	servers  map[string]*server
	pods     []corev1.Pod
	clock    time.Time
	writes   int
}

// DialEntities implements agentclient.EntitiesDialer.
func (i *instanceOf) DialEntities(_ context.Context, pod *corev1.Pod) (agentclient.Entities, error) {
	return i.servers[pod.Name], nil
}

func newInstance(t *testing.T, declared schema.Entity, pods ...string) *instanceOf {
	scheme := testkit.Scheme(t, clientgoscheme.AddToScheme, platformv1.AddToScheme)
	declared.Type, declared.Component = "role", "main"
	i := &instanceOf{T: t, declared: &declared, servers: map[string]*server{}, clock: time.Unix(100000, 0)}
	entity := &platformv1.Entity{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "app", UID: "1", Generation: 1},
		Spec: platformv1.EntitySpec{Type: "role", Name: "app", DeletionPolicy: platformv1.EntityDelete}}
	client := fake.NewClientBuilder().WithScheme(scheme).WithObjects(entity).WithStatusSubresource(entity).
		WithInterceptorFuncs(interceptor.Funcs{
			Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch,
				opts ...client.PatchOption) error {
				i.writes++
				return c.Patch(ctx, obj, patch, opts...)
			},
			SubResourcePatch: func(ctx context.Context, c client.Client, name string, obj client.Object, patch client.Patch,
				opts ...client.SubResourcePatchOption) error {
				i.writes++
				return c.SubResource(name).Patch(ctx, obj, patch, opts...)
			},
		}).Build()
	i.Controller = &Controller{Deps: Deps{Dialer: i, Now: func() time.Time { return i.clock },
		Interval: func() time.Duration { return doubtTime }}, client: client, events: event.New(events.NewFakeRecorder(8))}
	for _, name := range pods {
		i.servers[name] = &server{objects: map[string]map[string]string{}, answer: refuses}
		i.pods = append(i.pods, corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{platformv1.ComponentLabel: "main"},
				Annotations: map[string]string{platformv1.ReportAnnotation: report.Report{Health: report.Healthy}.String()}},
			Status: corev1.PodStatus{PodIP: "127.0.0.1"}})
	}
	return i
}

// dies has another controller go on.
func (i *instanceOf) dies() {
	i.Controller = &Controller{Deps: i.Deps, client: i.client, events: i.events}
}

// restarts has another process of the middleware be there.
func (i *instanceOf) restarts() {
	i.pods[0].Annotations[platformv1.ReportAnnotation] = report.Report{Health: report.Healthy,
		Starts: reportOf(&i.pods[0]).Starts + 1}.String()
}

func (i *instanceOf) entity() *platformv1.Entity {
	i.Helper()
	entity := &platformv1.Entity{}
	if err := i.client.Get(i.Context(), client.ObjectKey{Namespace: "default", Name: "app"}, entity); err != nil {
		i.Fatal(err)
	}
	return entity
}

// look takes a turn after some time, and returns when the next one is due.
func (i *instanceOf) look(after time.Duration) time.Duration {
	i.Helper()
	i.clock = i.clock.Add(after)
	key := client.ObjectKey{Namespace: "default", Name: "main"}
	it := newItem(i.entity())
	it.wanted = &accept.EntityWanted{Type: i.declared, Parameters: map[string]string{"login": "yes"}}
	seen := &observation{key: key, now: i.clock, remembered: i.memory.of(key), items: []*item{it}, pods: i.pods}
	worst := i.turn(i.Context(), seen)
	return worst.Within(seen.again).After()
}

// wants checks whose the object is, and what the Entity says.
func (i *instanceOf) wants(origin platformv1.EntityOrigin, reason string) {
	i.Helper()
	entity := i.entity()
	if ready := conditions.Get(entity, platformv1.ReadyCondition); entity.Status.Origin != origin || ready == nil ||
		ready.Reason != reason {
		i.Errorf("origin is %q, and it says %+v; want %q, %s", entity.Status.Origin, ready, origin, reason)
	}
}

var byDriver = schema.Entity{Driver: "role"}

// What somebody makes by hand under a name that was refused to an Entity is not the Entity's.
func TestWhatWasRefusedIsNotClaimed(t *testing.T) {
	for name, answer := range map[string]func(*server, string, agentclient.EntityChange) (string, string, error){
		"by the middleware": refuses, "by the agent": failsAs(agentclient.Refused),
		"by one that is too old": failsAs(agentclient.Outdated),
	} {
		t.Run(name, func(t *testing.T) {
			i := newInstance(t, byDriver, "main-0")
			i.servers["main-0"].answer = answer
			i.look(0)
			i.wants("", platformv1.ReasonRefusedByMiddleware)
			theirs := map[string]string{"login": "no"}
			i.servers["main-0"].objects["app"] = maps.Clone(theirs)
			i.look(time.Hour)
			i.wants("", platformv1.ReasonAlreadyExists)
			if calls := i.servers["main-0"].calls; calls != 1 || !maps.Equal(i.servers["main-0"].objects["app"], theirs) {
				t.Errorf("after %d calls it is %v", calls, i.servers["main-0"].objects["app"])
			}
			if finalizers := i.entity().Finalizers; len(finalizers) > 0 {
				t.Errorf("it waits for an object of somebody else: %v", finalizers)
			}
			// Once that is gone it is made, and claimed.
			delete(i.servers["main-0"].objects, "app")
			i.servers["main-0"].answer = makes
			i.look(time.Hour)
			i.wants(platformv1.EntityCreated, platformv1.ReasonReady)
		})
	}
}

// One that is refused for ever costs two writes for each attempt, and these become seldom.
func TestWhatIsRefusedForEverCostsLittle(t *testing.T) {
	i := newInstance(t, byDriver, "main-0")
	next := i.look(0)
	if i.writes != 3 {
		t.Errorf("the first attempt took %d writes: the finalizer, the claim, and what came of it are three", i.writes)
	}
	i.servers["main-0"].answer = func(s *server, key string, change agentclient.EntityChange) (string, string, error) {
		if entity := i.entity(); entity.Status.Origin != platformv1.EntityCreated ||
			!conditions.IsTrue(entity, platformv1.StalledCondition) {
			t.Errorf("at another attempt it says %+v: a claim, and to who watches nothing new", entity.Status)
		}
		return refuses(s, key, change)
	}
	for _, want := range []time.Duration{30 * time.Second, time.Minute, 2 * time.Minute, 2 * time.Minute} {
		if next != want {
			t.Errorf("it is asked for again after %v, want %v", next, want)
		}
		// Other things wake it in between.
		calls, writes := i.servers["main-0"].calls, i.writes
		for range 3 {
			if left := i.look(want / 4); left <= 0 || left > want {
				t.Errorf("the next turn is in %v", left)
			}
		}
		if i.servers["main-0"].calls != calls || i.writes != writes {
			t.Errorf("%d calls and %d writes before it is time", i.servers["main-0"].calls-calls, i.writes-writes)
		}
		next = i.look(want / 4)
		if i.servers["main-0"].calls != calls+1 || i.writes != writes+2 {
			t.Errorf("%d calls and %d writes for an attempt", i.servers["main-0"].calls-calls, i.writes-writes)
		}
		i.wants("", platformv1.ReasonRefusedByMiddleware)
	}
	// What was in the way may be gone with another process, or since another object was changed.
	calls := i.servers["main-0"].calls
	i.restarts()
	if next := i.look(time.Second); next != refusedRetry || i.servers["main-0"].calls != calls+1 {
		t.Errorf("with another process there were %d calls, and the next turn is in %v", i.servers["main-0"].calls-calls,
			next)
	}
	i.memory.of(client.ObjectKey{Namespace: "default", Name: "main"}).changes++
	if i.look(time.Second); i.servers["main-0"].calls != calls+2 {
		t.Error("it was not asked for after another object was changed")
	}
}

// An object of which it is not known whether it will come stays claimed, however it looks at the moment.
func TestWhatMayComeStaysClaimed(t *testing.T) {
	type step struct {
		answer func(*server, string, agentclient.EntityChange) (string, string, error)
		then   func(*instanceOf)
		reason string
	}
	lost, waits, refused := failsAs(agentclient.Unreachable), platformv1.ReasonMiddlewareNotReady,
		platformv1.ReasonRefusedByMiddleware
	failed := func(*server, string, agentclient.EntityChange) (string, string, error) {
		return report.CallInterrupted, "", nil
	}
	takes := func(*server, string, agentclient.EntityChange) (string, string, error) {
		return report.CallSucceeded, "", nil
	}
	for name, test := range map[string]struct {
		declared schema.Entity
		steps    []step
		// after is when the claim can be taken back: at once where the end of every call is known; never when negative.
		after time.Duration
	}{
		"no answer, and then no: it was the same call": {byDriver, []step{{lost, nil, waits}}, 0},
		"a call that takes its time, and then no": {byDriver,
			[]step{{runs, nil, platformv1.ReasonProgressing}, {runs, nil, platformv1.ReasonProgressing}}, 0},
		"no answer, and no to a call that was known": {byDriver,
			[]step{{lost, nil, waits}, {failsAs(agentclient.Refused), nil, refused}}, doubtTime},
		"interrupted, and no to another call": {byDriver, []step{{failed, nil, refused}, {refuses, nil, refused}},
			doubtTime},
		"taken, not there, and no to another call": {byDriver, []step{{takes, nil, refused}, {refuses, nil, refused}},
			doubtTime},
		"the controller died": {byDriver,
			[]step{{lost, (*instanceOf).dies, waits}, {refuses, nil, refused}}, doubtTime},
		"no answer, and no from another process": {byDriver,
			[]step{{lost, (*instanceOf).restarts, waits}, {refuses, nil, refused}}, doubtTime},
		"a command failed": {schema.Entity{Actions: &plan.EntityActions{}},
			[]step{{refuses, nil, refused}, {refuses, nil, refused}}, -1},
	} {
		t.Run(name, func(t *testing.T) {
			i := newInstance(t, test.declared, "main-0")
			for _, step := range test.steps {
				i.servers["main-0"].answer = step.answer
				i.look(time.Second)
				i.wants(platformv1.EntityCreated, step.reason)
				if step.then != nil {
					step.then(i)
				}
			}
			i.servers["main-0"].answer = refuses
			if test.after < 0 {
				i.look(2 * doubtTime)
				i.wants(platformv1.EntityCreated, refused)
				return
			}
			if test.after > 0 {
				i.look(time.Second)
				writes := i.writes
				if next := i.look(time.Second); next != refusedRetry || i.writes != writes {
					t.Errorf("an attempt in doubt took %d writes, and the next one is in %v", i.writes-writes, next)
				}
				i.wants(platformv1.EntityCreated, refused)
			}
			i.look(test.after)
			i.wants("", refused)
		})
	}
}

// What takes its time is told once, with the claim.
func TestACallThatTakesItsTimeIsToldOnce(t *testing.T) {
	i := newInstance(t, byDriver, "main-0")
	i.servers["main-0"].answer = runs
	for range 3 {
		i.look(time.Second)
		i.wants(platformv1.EntityCreated, platformv1.ReasonProgressing)
	}
	// The finalizer, and the claim.
	if i.writes != 2 {
		t.Errorf("it took %d writes", i.writes)
	}
}

// It comes late, and is the Entity's.
func TestWhatComesLateIsClaimed(t *testing.T) {
	i := newInstance(t, byDriver, "main-0")
	i.servers["main-0"].answer = failsAs(agentclient.Unreachable)
	i.look(0)
	i.dies()
	i.servers["main-0"].answer = refuses
	i.look(time.Second)
	i.servers["main-0"].objects["app"] = map[string]string{"login": "yes"}
	i.look(time.Second)
	i.wants(platformv1.EntityCreated, platformv1.ReasonReady)
	// From then on what somebody removes is made anew, and stays the Entity's while that is refused.
	delete(i.servers["main-0"].objects, "app")
	for range 3 {
		i.look(doubtTime)
		i.wants(platformv1.EntityCreated, platformv1.ReasonRefusedByMiddleware)
	}
}

// Of what is made in several steps some may be there when another is refused.
func TestWhatIsThereIsClaimed(t *testing.T) {
	i := newInstance(t, byDriver, "main-0")
	i.servers["main-0"].answer = func(s *server, _ string, change agentclient.EntityChange) (string, string, error) {
		s.objects[change.Name] = map[string]string{"login": "no"}
		return report.CallSucceeded, "it cannot log in", nil
	}
	i.look(0)
	i.wants(platformv1.EntityCreated, platformv1.ReasonRefusedByMiddleware)
	i.servers["main-0"].answer = makes
	i.look(refusedRetry)
	i.wants(platformv1.EntityCreated, platformv1.ReasonReady)
}

// A controller that dies between any two of its effects leaves an object of its own claimed.
func TestClaimsOutliveTheirController(t *testing.T) {
	i := newInstance(t, byDriver, "main-0")
	i.look(0)
	// The next attempt makes it, and the controller dies before it has the answer.
	i.servers["main-0"].answer = func(s *server, key string, change agentclient.EntityChange) (string, string, error) {
		if origin := i.entity().Status.Origin; origin != platformv1.EntityCreated {
			t.Errorf("it is asked for while origin is %q", origin)
		}
		_, _, _ = makes(s, key, change)
		return failsAs(agentclient.Unreachable)(s, key, change)
	}
	i.look(refusedRetry)
	i.dies()
	i.look(time.Second)
	i.wants(platformv1.EntityCreated, platformv1.ReasonReady)
}

// Where every pod has the object, all of them have to refuse it.
func TestWhatOnePodTookIsClaimed(t *testing.T) {
	each := schema.Entity{Driver: "role", Pods: schema.EntityEach}
	i := newInstance(t, each, "main-0", "main-1")
	if next := i.look(0); next != refusedRetry || i.writes != 3 {
		t.Errorf("it took %d writes, and the next turn is in %v", i.writes, next)
	}
	i.wants("", platformv1.ReasonRefusedByMiddleware)
	if i.look(time.Second); i.servers["main-0"].calls+i.servers["main-1"].calls != 2 {
		t.Error("it was asked for before its time")
	}
	i.servers["main-1"].answer = makes
	i.look(refusedRetry)
	i.wants(platformv1.EntityCreated, platformv1.ReasonRefusedByMiddleware)
	// One that cannot be asked may have it.
	i = newInstance(t, each, "main-0", "main-1")
	i.pods[1].Annotations[platformv1.ReportAnnotation] = report.Report{Health: report.Unhealthy}.String()
	i.look(0)
	i.wants(platformv1.EntityCreated, platformv1.ReasonRefusedByMiddleware)
	// What somebody made in one of them is left alone.
	i = newInstance(t, each, "main-0", "main-1")
	i.look(0)
	i.servers["main-1"].objects["app"] = map[string]string{"login": "no"}
	i.look(refusedRetry)
	i.wants("", platformv1.ReasonAlreadyExists)
	if calls := i.servers["main-0"].calls; calls != 1 {
		t.Errorf("the other pod was asked for it %d times", calls)
	}
}
