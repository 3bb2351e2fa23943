// SPDX-License-Identifier: Apache-2.0

//go:build integration

package engine_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// recorded are the Operations of a namespace that record an edited spec, by name.
func recorded(t *testing.T, namespace string) map[string]*platformv1.Operation {
	t.Helper()
	var list platformv1.OperationList
	if err := env.Client.List(t.Context(), &list, client.InNamespace(namespace),
		client.MatchingLabels{platformv1.TriggerLabel: string(platformv1.TriggerSpec)}); err != nil {
		t.Fatal(err)
	}
	records := map[string]*platformv1.Operation{}
	for i := range list.Items {
		records[list.Items[i].Name] = &list.Items[i]
	}
	return records
}

// ended waits until so many edits of a namespace are on record, and done.
func ended(t *testing.T, namespace string, records int) {
	t.Helper()
	testkit.Eventually(t, fmt.Sprintf("%d records of edits that are done", records), func(context.Context) error {
		found := recorded(t, namespace)
		for name, op := range found {
			if op.Status.Phase != platformv1.OperationSucceeded {
				return fmt.Errorf("%s is %s", name, op.Status.Phase)
			}
		}
		if len(found) != records {
			return fmt.Errorf("there are %v", found)
		}
		return nil
	})
}

// onlyRecord is the one record that there is to be, which is to be that of a generation.
func onlyRecord(t *testing.T, app *platformv1.Application, generation int64) *platformv1.Operation {
	t.Helper()
	records := recorded(t, app.Namespace)
	op := records[fmt.Sprintf("%s-spec-%d", app.Name, generation)]
	if len(records) != 1 || op == nil {
		t.Fatalf("the records are %v; want one of generation %d", records, generation)
	}
	return op
}

// placed has the pods of an instance made anew, since they are to be elsewhere.
func placed(where string) func(*platformv1.ApplicationSpec) {
	return func(s *platformv1.ApplicationSpec) {
		s.Components = []platformv1.ApplicationComponent{
			{Name: "redis", Scheduling: &platformv1.Scheduling{NodeSelector: map[string]string{"disk": where}}}}
	}
}

// readyInstance makes an instance whose pods start, and leaves them without a node that would start others.
func readyInstance(t *testing.T, namespace string) *platformv1.Application {
	t.Helper()
	app := application(namespace)
	t.Run("made", func(t *testing.T) {
		node(t, namespace)
		create(t, app)
		testkit.WaitForReady(t, env.Client, app)
	})
	return app
}

// An edit that needs work on pods is one record, of three writes; one that needs none is none.
func TestAnEditedSpecIsOnRecord(t *testing.T) {
	namespace := env.Namespace(t)
	f, _, stop := run(t, -1)
	node(t, namespace)
	app := application(namespace)
	create(t, app)
	testkit.WaitForReady(t, env.Client, app)
	change(t, app, func(s *platformv1.ApplicationSpec) {
		s.OperationHistory = &platformv1.OperationHistory{Limit: new(int32(50))}
		s.DeletionPolicy, s.DeletionProtection = platformv1.DeletionPolicyDelete, true
		s.Schedules = []platformv1.Schedule{
			{Name: "nightly", Schedule: "0 3 1 1 *", TimeZone: "UTC",
				Operation: platformv1.ScheduledOperation{TemplateRef: "Restart"}}}
		s.Components = []platformv1.ApplicationComponent{
			{Name: "redis", Service: &platformv1.ServiceExposure{
				ServiceSettings: platformv1.ServiceSettings{Annotations: map[string]string{"a": "b"}}}}}
	})
	testkit.WaitForReady(t, env.Client, app)
	if records := recorded(t, namespace); len(records) > 0 {
		t.Errorf("what touches no pod is on record: %v", records)
	}
	before := len(f.spent())
	change(t, app, func(s *platformv1.ApplicationSpec) {
		s.Components[0].Resources.Limits = map[corev1.ResourceName]resource.Quantity{"memory": resource.MustParse("768Mi")}
		s.Components[0].Scheduling = &platformv1.Scheduling{NodeSelector: map[string]string{"disk": "fast"}}
	})
	testkit.WaitForReady(t, env.Client, app)
	op := onlyRecord(t, app, app.Generation)
	status := ends(t, op, platformv1.OperationSucceeded)
	if !metav1.IsControlledBy(op, app) || status.Trigger != platformv1.TriggerSpec || op.Spec.TemplateRef != "Apply" ||
		len(op.Spec.Parameters) > 0 {
		t.Errorf("the record is %+v", op)
	}
	outputs := status.Steps[0].Outputs
	if outputs["generation"] != fmt.Sprint(app.Generation) ||
		!strings.Contains(outputs["changed"], "spec.components[redis].resources.limits.memory: ") ||
		!strings.Contains(outputs["changed"], "spec.components[redis].scheduling.nodeSelector.disk: none → fast") ||
		strings.Contains(outputs["changed"], "annotations") {
		t.Errorf("the outputs are %v", outputs)
	}
	var writes []string
	for _, write := range f.spent()[before:] {
		if strings.Contains(write, app.Namespace+"/operations") {
			writes = append(writes, write)
		}
	}
	if len(writes) > 3 {
		t.Errorf("%d writes for a record:\n%s", len(writes), strings.Join(writes, "\n"))
	}
	// What is done again by hand is recorded, too, and so is a stop.
	change(t, app, func(s *platformv1.ApplicationSpec) { s.Running = new(false) })
	testkit.WaitForReady(t, env.Client, app)
	halt := recorded(t, namespace)[fmt.Sprintf("%s-spec-%d", app.Name, app.Generation)]
	if halt == nil {
		t.Fatal("there is no record of the stop")
	}
	got := ends(t, halt, platformv1.OperationSucceeded).Steps[0].Outputs["changed"]
	if got != "spec.running: true → false" {
		t.Errorf("it says %q", got)
	}
	// What an Operation changes it says itself.
	ends(t, operate(t, app, "start", "Start", nil), platformv1.OperationSucceeded)
	// Nothing is left to write once the instance says that nobody works at it: it does so after the Operation has ended.
	operatedBy(t, app, "")
	testkit.WaitForReady(t, env.Client, app)
	stop()
	findsNothingToRecord(t, namespace)
	if records := recorded(t, namespace); len(records) != 2 {
		t.Errorf("the records are %v", records)
	}
}

// findsNothingToRecord runs another engine, which writes nothing in a namespace.
func findsNothingToRecord(t *testing.T, namespace string) {
	t.Helper()
	f, _, stop := run(t, -1)
	probe := application(env.Namespace(t))
	node(t, probe.Namespace)
	create(t, probe)
	testkit.WaitForReady(t, env.Client, probe)
	stop()
	for _, write := range f.spent() {
		if strings.Contains(write, namespace) {
			t.Errorf("a restart wrote: %s", write)
		}
	}
}

// What is edited while an edit takes effect is taken up by the record of that, which ends with the last of them.
func TestEditsDuringARolloutAreOneRecord(t *testing.T) {
	namespace := env.Namespace(t)
	run(t, -1)
	app := readyInstance(t, namespace)
	first := app.Generation + 1
	for _, where := range []string{"slow", "fast", "faster"} {
		change(t, app, placed(where))
		record := fmt.Sprintf("%s-spec-%d", app.Name, first)
		op := &platformv1.Operation{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: record}}
		testkit.WaitFor(t, env.Client, op, "follows the spec to "+where, func() error {
			if len(op.Status.Steps) == 0 || op.Status.Steps[0].Outputs["generation"] != fmt.Sprint(app.Generation) {
				return fmt.Errorf("it is %+v", op.Status.Steps)
			}
			return nil
		})
		if op.Status.Phase != platformv1.OperationRunning {
			t.Errorf("it is %s", op.Status.Phase)
		}
	}
	node(t, namespace)
	testkit.WaitForReady(t, env.Client, app)
	status := ends(t, onlyRecord(t, app, first), platformv1.OperationSucceeded)
	outputs := status.Steps[0].Outputs
	want := fmt.Sprintf("spec.components[redis].scheduling.nodeSelector.disk: none → slow; then, in generation %d, "+
		"spec.components[redis].scheduling.nodeSelector.disk: slow → fast; "+
		"then, in generation %d, spec.components[redis].scheduling.nodeSelector.disk: fast → faster", first+1, first+2)
	_, later, _ := strings.Cut(want, ";")
	if outputs["generation"] != fmt.Sprint(app.Generation) || !strings.HasSuffix(outputs["changed"], later) {
		t.Errorf("outputs are %v; want %q", outputs, want)
	}
}

// An edit that stalls fails with the sentence, and the edit that mends it is a record of its own that waits for nobody.
func TestAFailedEditAndItsMend(t *testing.T) {
	app := served(t)
	namespace := app.Namespace
	change(t, app, func(s *platformv1.ApplicationSpec) {
		s.Components = []platformv1.ApplicationComponent{
			{Name: "redis", Scheduling: &platformv1.Scheduling{PriorityClassName: "absent"}}}
	})
	testkit.WaitForCondition(t, env.Client, app, platformv1.StalledCondition, metav1.ConditionTrue)
	failed := onlyRecord(t, app, app.Generation)
	status := ends(t, failed, platformv1.OperationFailed)
	if stalled := conditions.Get(app, platformv1.StalledCondition); !strings.Contains(status.Error, stalled.Message) ||
		!strings.Contains(stalled.Message, "absent") {
		t.Errorf("it says %q", status.Error)
	}
	change(t, app, placed("fast"))
	testkit.WaitForReady(t, env.Client, app)
	mend := recorded(t, namespace)[fmt.Sprintf("%s-spec-%d", app.Name, app.Generation)]
	if mend == nil {
		t.Fatalf("there is no record of the mend: %v", recorded(t, namespace))
	}
	ends(t, mend, platformv1.OperationSucceeded)
}

// An engine is killed after each write that an edit takes, and the next one finishes: there is one record, whoever
// makes the edit.
func TestARecordSurvivesAKillAfterEachWrite(t *testing.T) {
	for name, tc := range map[string]struct {
		edit    func(t *testing.T, app *platformv1.Application)
		records int
	}{
		"by hand":         {func(t *testing.T, app *platformv1.Application) { change(t, app, placed("fast")) }, 1},
		"by an Operation": {func(t *testing.T, app *platformv1.Application) { operate(t, app, "stop", "Stop", nil) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			for writes := 0; ; writes++ {
				namespace := env.Namespace(t)
				node(t, namespace)
				_, _, stop := run(t, -1)
				app := application(namespace)
				create(t, app)
				testkit.WaitForReady(t, env.Client, app)
				stop()
				tc.edit(t, app)
				survived := outlives(t, namespace, app, writes)
				_, _, stop = run(t, -1)
				testkit.WaitForReady(t, env.Client, app)
				var list platformv1.OperationList
				testkit.Eventually(t, "the end of every Operation", func(ctx context.Context) error {
					if err := env.Client.List(ctx, &list, client.InNamespace(namespace)); err != nil {
						return err
					}
					for _, op := range list.Items {
						if op.Status.Phase != platformv1.OperationSucceeded {
							return fmt.Errorf("%s is %s: %s", op.Name, op.Status.Phase, op.Status.Error)
						}
					}
					return nil
				})
				stop()
				if records := recorded(t, namespace); len(records) != tc.records || len(list.Items) != 1 {
					t.Errorf("killed after %d writes: the records are %v of %d Operations; want %d", writes, records, len(list.Items),
						tc.records)
				}
				if survived {
					t.Logf("%d writes", writes)
					return
				}
			}
		})
	}
}

// outlives runs an engine for a number of writes, and says whether it did all that was to be done with them.
func outlives(t *testing.T, namespace string, app *platformv1.Application, writes int) (survived bool) {
	t.Helper()
	_, done, stop := run(t, writes)
	defer stop()
	testkit.Eventually(t, fmt.Sprintf("the end after %d writes, or of the work", writes), func(ctx context.Context) error {
		select {
		case <-done:
			return nil
		default:
		}
		var list platformv1.OperationList
		if err := env.Client.List(ctx, &list, client.InNamespace(namespace)); err != nil {
			return err
		}
		if err := env.Client.Get(ctx, client.ObjectKeyFromObject(app), app); err != nil {
			return err
		}
		survived = len(list.Items) == 1 && list.Items[0].Status.Phase == platformv1.OperationSucceeded &&
			conditions.IsTrue(app, platformv1.ReadyCondition)
		if survived {
			return nil
		}
		return fmt.Errorf("still at work")
	})
	return survived
}

// A stop does not queue: the Operation that runs ends for it, and one that waits goes on waiting.
func TestAStopPreempts(t *testing.T) {
	namespace := env.Namespace(t)
	run(t, -1)
	app := shop(namespace, "shop-a", "tiers")
	t.Run("made", func(t *testing.T) {
		node(t, namespace)
		create(t, app)
		testkit.WaitForReady(t, env.Client, app)
	})
	scale := operate(t, app, "scale", "HorizontalScale", nil, "replicas", "3", "component", "web")
	ends(t, scale, platformv1.OperationRunning)
	queued := operate(t, app, "restart", "Restart", nil)
	ends(t, queued, platformv1.OperationPending)
	stop := operate(t, app, "stop", "Stop", nil)
	status := ends(t, scale, platformv1.OperationCancelled)
	if status.Error != `pre-empted by Operation "stop"` {
		t.Errorf("it says %q", status.Error)
	}
	ends(t, stop, platformv1.OperationSucceeded)
	ends(t, queued, platformv1.OperationRunning)
	if records := recorded(t, namespace); len(records) > 0 {
		t.Errorf("the records are %v", records)
	}
}

// Who sets running to false by hand, or deletes the instance, ends what runs as well.
func TestAnEditThatStopsPreempts(t *testing.T) {
	namespace := env.Namespace(t)
	run(t, -1)
	app := shop(namespace, "shop-a", "tiers")
	t.Run("made", func(t *testing.T) {
		node(t, namespace)
		create(t, app)
		testkit.WaitForReady(t, env.Client, app)
	})
	scale := operate(t, app, "scale", "HorizontalScale", nil, "replicas", "3", "component", "web")
	ends(t, scale, platformv1.OperationRunning)
	testkit.WaitFor(t, env.Client, app, "has three replicas", func() error {
		if len(app.Spec.Components) == 0 {
			return fmt.Errorf("not yet")
		}
		return nil
	})
	change(t, app, func(s *platformv1.ApplicationSpec) { s.Running = new(false) })
	record := fmt.Sprintf("%s-spec-%d", app.Name, app.Generation)
	status := ends(t, scale, platformv1.OperationCancelled)
	if status.Error != fmt.Sprintf("pre-empted by Operation %q", record) {
		t.Errorf("it says %q", status.Error)
	}
	testkit.WaitForReady(t, env.Client, app)
	ends(t, onlyRecord(t, app, app.Generation), platformv1.OperationSucceeded)

	start := operate(t, app, "start", "Start", nil)
	ends(t, start, platformv1.OperationRunning)
	if err := env.Client.Delete(t.Context(), app); err != nil {
		t.Fatal(err)
	}
	if status := ends(t, start,
		platformv1.OperationCancelled); status.Error != `pre-empted by the deletion of Application "shop-a"` {
		t.Errorf("it says %q", status.Error)
	}
}

// While an edit takes effect, users' Operations wait; while it only waits for its window they do not.
func TestUsersOperationsWaitForAnEditButNotForItsWindow(t *testing.T) {
	namespace := env.Namespace(t)
	run(t, -1)
	app := readyInstance(t, namespace)
	change(t, app, placed("slow"))
	record := fmt.Sprintf("%s-spec-%d", app.Name, app.Generation)
	ends(t, &platformv1.Operation{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: record}},
		platformv1.OperationRunning)
	op := operate(t, app, "reload", "Restart", nil)
	testkit.WaitFor(t, env.Client, op, "waits for "+record, func() error {
		if ready := conditions.Get(op, platformv1.ReadyCondition); ready == nil || !strings.Contains(ready.Message, record) {
			return fmt.Errorf("it says %+v", ready)
		}
		return nil
	})
	if err := env.Client.Patch(t.Context(), op,
		client.RawPatch(types.MergePatchType, []byte(`{"spec":{"cancel":true}}`))); err != nil {
		t.Fatal(err)
	}
	node(t, namespace)
	testkit.WaitForReady(t, env.Client, app)

	change(t, app, func(s *platformv1.ApplicationSpec) {
		opens := time.Now().UTC().Add(12 * time.Hour)
		s.Maintenance = &platformv1.Maintenance{Windows: []platformv1.MaintenanceWindow{{
			Schedule: platformv1.CronLine(fmt.Sprintf("0 %d * * *", opens.Hour())),
			Duration: metav1.Duration{Duration: time.Hour}, TimeZone: "UTC"}}}
	})
	testkit.WaitForReady(t, env.Client, app)
	change(t, app, placed("fast"))
	waits := &platformv1.Operation{ObjectMeta: metav1.ObjectMeta{Namespace: namespace,
		Name: fmt.Sprintf("%s-spec-%d", app.Name, app.Generation)}}
	testkit.WaitFor(t, env.Client, waits, "waits for the window", func() error {
		if ready := conditions.Get(waits, platformv1.ReadyCondition); ready == nil ||
			ready.Reason != platformv1.ReasonWaitingForMaintenance {
			return fmt.Errorf("it says %+v", ready)
		}
		return nil
	})
	ends(t, operate(t, app, "stop", "Stop", nil), platformv1.OperationSucceeded)
	ends(t, waits, platformv1.OperationSucceeded)
}

// No pod that serves is taken out for an edit while an Operation works through the pods, and it goes on as soon as that
// has ended.
func TestAnEditWaitsForAnOperationThatWorksThroughPods(t *testing.T) {
	app := served(t)
	namespace := app.Namespace
	pod := onlyPod(t, namespace)
	// Nobody answers for the agent of this pod, so that it goes on trying.
	restart := operate(t, app, "restart", "Restart", nil)
	ends(t, restart, platformv1.OperationRunning)
	testkit.WaitFor(t, env.Client, restart, "works through the pods", func() error {
		if len(restart.Status.Steps[0].Targets) == 0 {
			return fmt.Errorf("it is %+v", restart.Status.Steps)
		}
		return nil
	})
	change(t, app, placed("fast"))
	testkit.WaitFor(t, env.Client, app, "waits for the Operation", func() error {
		if ready := conditions.Get(app, platformv1.ReadyCondition); ready.Reason != platformv1.ReasonOperationAtWork ||
			!strings.Contains(ready.Message, `waits for Operation "restart" to have gone through the pods: pod `+
				`redis-a-redis-main-0 is to be replaced`) {
			return fmt.Errorf("it says %+v", ready)
		}
		return nil
	})
	op := onlyRecord(t, app, app.Generation)
	ends(t, op, platformv1.OperationRunning)
	if now := onlyPod(t, namespace); now.UID != pod.UID {
		t.Error("the pod was replaced under the Operation")
	}
	if err := env.Client.Patch(t.Context(), restart,
		client.RawPatch(types.MergePatchType, []byte(`{"spec":{"cancel":true}}`))); err != nil {
		t.Fatal(err)
	}
	ends(t, restart, platformv1.OperationCancelled)
	testkit.WaitForReady(t, env.Client, app)
	ends(t, op, platformv1.OperationSucceeded)
	if now := onlyPod(t, namespace); now.UID == pod.UID {
		t.Error("the pod was not replaced")
	}
}
