// SPDX-License-Identifier: Apache-2.0

//go:build integration

package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/testkit"
	"github.com/zeroinfra/platform-core/sdk/typed"
)

// mergePatch edits an object as kubectl does.
func mergePatch(t *testing.T, obj client.Object, body string) {
	t.Helper()
	if err := env.Client.Patch(t.Context(), obj, client.RawPatch(types.MergePatchType, []byte(body)),
		client.FieldOwner("kubectl-edit")); err != nil {
		t.Fatal(err)
	}
}

func aComponent(namespace, name string) *platformv1.Component {
	return &platformv1.Component{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

func aSet(namespace, name string) *platformv1.WorkloadSet {
	return &platformv1.WorkloadSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

// notes are what the events of a reason say in a namespace.
func notes(ctx context.Context, namespace, reason string) ([]string, error) {
	events := &eventsv1.EventList{}
	if err := env.Client.List(ctx, events, client.InNamespace(namespace)); err != nil {
		return nil, err
	}
	var notes []string
	for _, e := range events.Items {
		if e.Reason == reason {
			notes = append(notes, e.Note)
		}
	}
	return notes, nil
}

// tellsOf waits until an event of a reason says all of the texts.
func tellsOf(t *testing.T, namespace, reason string, texts ...string) {
	t.Helper()
	testkit.Eventually(t, fmt.Sprintf("an event %s with %q", reason, texts), func(ctx context.Context) error {
		found, err := notes(ctx, namespace, reason)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(found, func(note string) bool {
			return !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(note, text) })
		}) {
			return fmt.Errorf("they say %q", found)
		}
		return nil
	})
}

// declares waits until the Application declares these components.
func declares(t *testing.T, app *platformv1.Application, want string) {
	t.Helper()
	testkit.WaitFor(t, env.Client, app, "declares "+want, func() error {
		if got, _ := json.Marshal(app.Spec.Components); string(got) != want {
			return fmt.Errorf("it declares %s", got)
		}
		return nil
	})
}

// What somebody gives a Component, or a set, of replicas, resources and parameters is declared, and on record; the
// object that he edited keeps it.
func TestEditsGoUpToTheApplication(t *testing.T) {
	namespace, app := standing(t, "tiers")
	pods := recordPods(t, namespace)
	mergePatch(t, aComponent(namespace, "a-web"), `{"spec":{"replicas":3}}`)
	replicasOf(t, app, "a-web-main", 3)
	declares(t, app, `[{"name":"web","replicas":3}]`)
	tellsOf(t, namespace, "EditTakenUp", "spec.components[web].replicas: none → 3", "Component a-web", "kubectl-edit")
	record := onlyRecord(t, app, app.Generation)
	changed := ends(t, record, platformv1.OperationSucceeded).Steps[0].Outputs["changed"]
	if changed != "spec.components[web].replicas: 1 → 3" {
		t.Errorf("the record says %q", changed)
	}
	if pods.first("-") >= 0 {
		t.Errorf("pods went meanwhile: %v", pods.events)
	}

	set := aSet(namespace, "a-web-main")
	refresh(t, set)
	template := map[string]any{}
	if err := json.Unmarshal(set.Spec.Template.Raw, &template); err != nil {
		t.Fatal(err)
	}
	for _, container := range template["spec"].(map[string]any)["containers"].([]any) {
		if c := container.(map[string]any); c["name"] == "main" {
			c["resources"] = map[string]any{"limits": map[string]any{"memory": "1024Mi"}}
		}
	}
	body, _ := json.Marshal(map[string]any{"spec": map[string]any{"template": template}})
	mergePatch(t, set, string(body))
	declares(t, app, `[{"name":"web","replicas":3,"resources":{"limits":{"memory":"1Gi"}}}]`)
	testkit.WaitFor(t, env.Client, set, "the engine's own again", func() error {
		for _, entry := range set.ManagedFields {
			if entry.Manager == "kubectl-edit" && strings.Contains(entry.FieldsV1.GetRawString(), "f:template") {
				return fmt.Errorf("the template is still %s's", entry.Manager)
			}
		}
		return nil
	})
	if found, err := notes(t.Context(), namespace, "EditReverted"); err != nil || len(found) > 0 {
		t.Errorf("what was declared is said to be reverted: %q, %v", found, err)
	}
}

func TestParametersGoUpToTheApplication(t *testing.T) {
	app := served(t, ownMemory)
	redis := aComponent(app.Namespace, "redis-a-redis")
	mergePatch(t, redis, `{"spec":{"parameters":{"hz":"20"}}}`)
	declares(t, app, `[{"name":"redis","parameters":{"hz":"20","maxmemory":"64mb"}}]`)
	testkit.Eventually(t, "the record of it", func(context.Context) error {
		for _, op := range recorded(t, app.Namespace) {
			if strings.Contains(op.Annotations[platformv1.ChangesAnnotation],
				"spec.components[redis].parameters.hz: 20, edited in Component redis-a-redis by kubectl-edit") {
				return nil
			}
		}
		return fmt.Errorf("there is none")
	})
	testkit.WaitFor(t, env.Client, redis, "the engine's own", func() error {
		for _, entry := range redis.ManagedFields {
			if entry.Manager == "application" && strings.Contains(entry.FieldsV1.GetRawString(), "f:hz") {
				return nil
			}
		}
		return fmt.Errorf("hz is not")
	})
	mergePatch(t, redis, `{"spec":{"parameters":{"hz":null}}}`)
	declares(t, app, `[{"name":"redis","parameters":{"maxmemory":"64mb"}}]`)
	mergePatch(t, redis, `{"spec":{"parameters":{"hz":"often"}}}`)
	tellsOf(t, app.Namespace, "EditReverted", "spec.parameters.hz", "kubectl-edit", "often")
	testkit.WaitFor(t, env.Client, redis, "as it was", func() error {
		if _, is := redis.Spec.Parameters["hz"]; is {
			return fmt.Errorf("it has %v", redis.Spec.Parameters)
		}
		return nil
	})
	declares(t, app, `[{"name":"redis","parameters":{"maxmemory":"64mb"}}]`)
}

// Other edits are taken back, with one event that says of what and where to change it: what was changed, added and
// taken out.
func TestOtherEditsAreReverted(t *testing.T) {
	namespace, app := standing(t, "tiers")
	of, set := aComponent(namespace, "a-web"), aSet(namespace, "a-web-main")
	refresh(t, of)
	refresh(t, set)
	was, setWas := of.DeepCopy(), set.DeepCopy()
	mergePatch(t, of, `{"spec":{"topology":"quorum","maintenance":{"windows":[{"schedule":"0 2 * * `+
		`0","duration":"1h","timeZone":"UTC"}]}}}`)
	tellsOf(t, namespace, "EditReverted", "spec.maintenance", "spec.topology", "kubectl-edit",
		`it follows from Application "a": change that`)
	testkit.WaitFor(t, env.Client, of, "as it was, and its set too", func() error {
		if of.Status.ObservedGeneration != of.Generation || !equality.Semantic.DeepEqual(of.Spec, was.Spec) {
			return fmt.Errorf("generation %d, observed is %d", of.Generation, of.Status.ObservedGeneration)
		}
		return nil
	})
	mergePatch(t, set, `{"spec":{"podManagementPolicy":"OrderedReady","adoptVolumes":"x"}}`)
	tellsOf(t, namespace, "EditReverted", "spec.adoptVolumes", "spec.podManagementPolicy")
	mergePatch(t, set, `{"spec":{"revision":"mine"}}`)
	tellsOf(t, namespace, "EditReverted", "spec.revision")
	for obj, same := range map[client.Object]func() bool{
		of:  func() bool { return equality.Semantic.DeepEqual(of.Spec, was.Spec) },
		set: func() bool { return equality.Semantic.DeepEqual(set.Spec, setWas.Spec) },
	} {
		testkit.WaitFor(t, env.Client, obj, "as it was", func() error {
			if !same() {
				return fmt.Errorf("it is %+v", obj)
			}
			return nil
		})
	}
	testkit.WaitForReady(t, env.Client, app)
	if len(app.Spec.Components) > 0 || len(recorded(t, namespace)) > 0 {
		t.Errorf("the Application has %+v", app.Spec.Components)
	}
	found, err := notes(t.Context(), namespace, "EditReverted")
	if err != nil || len(found) > 3 {
		t.Errorf("it is told more than once: %q, %v", found, err)
	}
}

// What somebody wrote in a Component is no reason to refuse a spec that is not taken up yet: it is taken back.
func TestEditsBesideAChangeThatWaitsAreReverted(t *testing.T) {
	namespace, app := standing(t, "tiers")
	heldUp(t, app)
	of := aComponent(namespace, "a-web")
	mergePatch(t, of, `{"spec":{"topology":"quorum"}}`)
	testkit.WaitForReady(t, env.Client, of)
	change(t, app, func(s *platformv1.ApplicationSpec) {
		s.Credentials, s.Components = nil, []platformv1.ApplicationComponent{{Name: "db", Replicas: new(int32(2))}}
	})
	tellsOf(t, namespace, "EditReverted", "spec.topology", "kubectl-edit", `it follows from Application "a": change that`)
	testkit.WaitForReady(t, env.Client, app)
}

// The middleware counts its members when it is made: another number in the Component is taken back, and does not come
// to be declared by that it is there.
func TestEditsOfWhatIsFixedAreReverted(t *testing.T) {
	namespace, app := standing(t, "quorum")
	of := aComponent(namespace, "a-quorum")
	mergePatch(t, of, `{"spec":{"replicas":5}}`)
	tellsOf(t, namespace, "EditReverted", "spec.replicas", "kubectl-edit", "cannot be scaled once it is made")
	testkit.WaitFor(t, env.Client, of, "as it was", func() error {
		if of.Spec.Replicas != 3 {
			return fmt.Errorf("it has %d replicas", of.Spec.Replicas)
		}
		return nil
	})
	testkit.WaitForReady(t, env.Client, app)
	if got := podNames(t, namespace); len(got) != 3 || len(app.Spec.Components) > 0 {
		t.Errorf("pods %v, and the Application declares %+v", got, app.Spec.Components)
	}
}

// What a GitOps tool owns is not changed: it would write it back.
func TestEditsOfWhatGitOpsOwnsAreReverted(t *testing.T) {
	namespace, app := standing(t, "tiers")
	before := app.DeepCopy()
	app.Spec.Components = []platformv1.ApplicationComponent{{Name: "web", Replicas: new(int32(1))}}
	err := env.Client.Patch(t.Context(), app, client.MergeFrom(before), client.FieldOwner("argocd-controller"))
	if err != nil {
		t.Fatal(err)
	}
	scale(t, namespace, "a-web-main", 2)
	tellsOf(t, namespace, "EditReverted", "spec.replicas", "autoscaler",
		"is managed by argocd-controller, which would write it back")
	replicasOf(t, app, "a-web-main", 1)
	mergePatch(t, aComponent(namespace, "a-web"), `{"spec":{"replicas":2}}`)
	tellsOf(t, namespace, "EditReverted", "spec.replicas", "kubectl-edit", "is managed by argocd-controller")
	declares(t, app, `[{"name":"web","replicas":1}]`)
	replicasOf(t, app, "a-web-main", 1)
}

// A typed object is the one that declares: edits go up to it, in its own words, and what it has no field for is taken
// back.
func TestEditsGoUpToATypedObject(t *testing.T) {
	sample, app := servedSample(t, typed.Register(store{}), "1.0")
	namespace := sample.Namespace
	mayWrite(t, namespace)
	has := func(want int32) {
		t.Helper()
		testkit.WaitFor(t, env.Client, sample, fmt.Sprintf("%d replicas", want), func() error {
			if sample.Spec.Replicas != want {
				return fmt.Errorf("it has %d", sample.Spec.Replicas)
			}
			return nil
		})
		refresh(t, app)
		replicasOf(t, app, "sample-a-web-main", want)
	}
	scale(t, namespace, "sample-a-web-main", 2)
	has(2)
	tellsOf(t, namespace, "EditTakenUp", "spec.replicas: 1 → 2", "WorkloadSet sample-a-web-main", "autoscaler")
	of := aComponent(namespace, "sample-a-web")
	testkit.WaitFor(t, env.Client, of, "what the set had", func() error {
		if of.Spec.Replicas != 2 || of.Status.ObservedGeneration != of.Generation {
			return fmt.Errorf("it has %d, and generation %d of %d is observed", of.Spec.Replicas, of.Status.ObservedGeneration,
				of.Generation)
		}
		return nil
	})
	// The next edit would be on the record of this one while that runs.
	ended(t, namespace, 1)
	mergePatch(t, of, `{"spec":{"sets":[{"name":"main","replicas":3}]}}`)
	has(3)
	ended(t, namespace, 2)
	scale(t, namespace, "sample-a-db-1", 3)
	tellsOf(t, namespace, "EditReverted", `Sample "a" has no field for components[db].sets[1].replicas`)
	scale(t, namespace, "sample-a-web-main", 9)
	tellsOf(t, namespace, "EditReverted", "replicas", "9")
	has(3)
}

// An operator that renders otherwise edits nothing, and finds no edits: not even where others wrote before.
func TestAnotherRenderingIsNoEdit(t *testing.T) {
	namespace := env.Namespace(t)
	_, _, stop := run(t, -1)
	node(t, namespace)
	app := shop(namespace, "a", "tiers")
	create(t, app)
	testkit.WaitForReady(t, env.Client, app)
	scale(t, namespace, "a-web-main", 2)
	replicasOf(t, app, "a-web-main", 2)
	mergePatch(t, aComponent(namespace, "a-web"), `{"metadata":{"labels":{"mine":"yes"}}}`)
	stop()

	set := aSet(namespace, "a-web-main")
	refresh(t, set)
	template := string(set.Spec.Template.Raw)
	t.Cleanup(func() { rendering.Use("", "") })
	rendering.Use("mirror.example.com", "")
	f, _, _ := run(t, -1)
	testkit.WaitFor(t, env.Client, set, "rendered otherwise", func() error {
		if string(set.Spec.Template.Raw) == template {
			return fmt.Errorf("it is as it was")
		}
		return nil
	})
	testkit.WaitForReady(t, env.Client, app)
	for _, write := range f.spent() {
		if strings.HasSuffix(write, "/applications/a") {
			t.Errorf("the engine wrote what it had rendered into the Application: %s", write)
		}
	}
	if found, err := notes(t.Context(), namespace, "EditReverted"); err != nil || len(found) > 0 {
		t.Errorf("there are events: %q, %v", found, err)
	}
	declares(t, app, `[{"name":"web","replicas":2}]`)
}

// secondsAfter waits until what is written is down for a later second than what anybody wrote to a set.
func secondsAfter(t *testing.T, set *platformv1.WorkloadSet) {
	t.Helper()
	testkit.WaitFor(t, env.Client, set, "a second later", func() error {
		for _, entry := range set.ManagedFields {
			if now := time.Now(); entry.Time != nil && now.Unix() <= entry.Time.Unix() {
				return fmt.Errorf("it is still %s", now)
			}
		}
		return nil
	})
}

// An edit of a suspended instance is declared when it goes on, but not over what was declared after it.
func TestEditsOfASuspendedInstance(t *testing.T) {
	namespace, app := standing(t, "tiers")
	set := aSet(namespace, "a-web-main")
	scaleSuspended := func(replicas int32) {
		t.Helper()
		mergePatch(t, app, `{"spec":{"suspend":true}}`)
		testkit.WaitFor(t, env.Client, set, "suspended", func() error {
			if !set.Spec.Suspend {
				return fmt.Errorf("it is not")
			}
			return nil
		})
		scale(t, namespace, set.Name, replicas)
		secondsAfter(t, set)
	}
	scaleSuspended(2)
	mergePatch(t, app, `{"spec":{"suspend":false}}`)
	declares(t, app, `[{"name":"web","replicas":2}]`)
	replicasOf(t, app, set.Name, 2)
	if found, err := notes(t.Context(), namespace, "EditReverted"); err != nil || len(found) > 0 {
		t.Errorf("there are events: %q, %v", found, err)
	}

	scaleSuspended(3)
	mergePatch(t, app, `{"spec":{"suspend":false,"components":[{"name":"web","replicas":1}]}}`)
	tellsOf(t, namespace, "EditReverted", "spec.replicas", "autoscaler", "was declared later, by kubectl-edit")
	replicasOf(t, app, set.Name, 1)
	declares(t, app, `[{"name":"web","replicas":1}]`)
}

// Who first gave a Component parameters is down for having made them, for ever. That is no edit of what the engine
// writes there later, and costs nothing.
func TestAnEditedComponentComesToRest(t *testing.T) {
	namespace := env.Namespace(t)
	f, _, _ := run(t, -1)
	node(t, namespace)
	app := application(namespace)
	create(t, app)
	testkit.WaitForReady(t, env.Client, app)
	redis := aComponent(namespace, "redis-a-redis")
	has := func(hz string) {
		t.Helper()
		testkit.WaitFor(t, env.Client, redis, "the engine's own hz "+hz, func() error {
			for _, entry := range redis.ManagedFields {
				if string(redis.Spec.Parameters["hz"]) == hz && entry.Manager == "application" &&
					strings.Contains(entry.FieldsV1.GetRawString(), "f:hz") {
					return nil
				}
			}
			return fmt.Errorf("it has %v", redis.Spec.Parameters)
		})
	}
	mergePatch(t, redis, `{"spec":{"parameters":{"hz":"20"}}}`)
	has("20")
	mergePatch(t, app, `{"spec":{"components":[{"name":"redis","parameters":{"hz":"30"}}]}}`)
	has("30")
	if !slices.ContainsFunc(redis.ManagedFields, func(entry metav1.ManagedFieldsEntry) bool {
		return entry.Manager == "kubectl-edit" && strings.Contains(entry.FieldsV1.GetRawString(), `"f:parameters":{}`)
	}) {
		t.Fatalf("who made the parameters is down for %v", redis.ManagedFields)
	}
	applies := func() (count int) {
		for _, write := range f.spent() {
			if strings.HasSuffix(write, "/components/"+redis.Name) {
				count++
			}
		}
		return count
	}
	before := applies()
	mergePatch(t, app, `{"metadata":{"annotations":{"look":"again"}}}`)
	other := application(namespace)
	other.Name = "redis-b"
	create(t, other)
	testkit.WaitForReady(t, env.Client, other)
	if after := applies(); after > before {
		t.Errorf("the Component was applied %d times, and then %d times", before, after)
	}
	if found, err := notes(t.Context(), namespace, "EditReverted"); err != nil || len(found) > 0 {
		t.Errorf("there are events: %q, %v", found, err)
	}
}
