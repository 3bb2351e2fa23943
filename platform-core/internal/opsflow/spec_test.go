// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

func edit(generation int64, words ...string) Change {
	return Change{Generation: generation, Words: words}
}

func application(generation int64) *platformv1.Application {
	return &platformv1.Application{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", Generation: generation,
		Labels: map[string]string{platformv1.DomainLabel: "database"}}}
}

// reports has an Application say how it is, for its generation.
func reports(app *platformv1.Application, o outcome.Outcome) Facts {
	conditions.Report(app, o, "fine")
	facts := Facts{Now: epoch, Template: Defaults()[TemplateApply], Target: `Application "web"`, Application: app}
	for condition, of := range map[string]*Condition{platformv1.ReadyCondition: &facts.Declared.Ready,
		platformv1.StalledCondition: &facts.Declared.Stalled} {
		if c := conditions.Get(app, condition); c != nil {
			*of = Condition{Status: c.Status, Reason: c.Reason, Message: c.Message}
		}
	}
	return facts
}

func TestChangesAreKept(t *testing.T) {
	op := SpecOperation(application(5), edit(5, "spec.a: 1 → 2", "spec.text: none → x\ny"))
	Amend(op, edit(7, "spec.b: 1 → 2"))
	got := describeChanges(ChangesOf(op))
	if got != "spec.a: 1 → 2, spec.text: none → x y; then, in generation 7, spec.b: 1 → 2" {
		t.Errorf("it says %q", got)
	}
	if op.Name != "web-spec-5" || TriggerOf(op) != platformv1.TriggerSpec || !Records(op) {
		t.Errorf("it is %+v", op)
	}
	var many []string
	for i := range 50 {
		many = append(many, fmt.Sprintf("spec.field%d: %s", i, strings.Repeat("long ", 100)))
	}
	for generation := range int64(100) {
		Amend(op, edit(8+generation, many...))
	}
	changes := ChangesOf(op)
	last := changes[len(changes)-1]
	if len(changes) != maxEdits || changes[0].Generation != 5 || last.Generation != 107 || len(last.Words) != maxChanges+
		1 || last.Words[maxChanges] != "and 30 more" {
		t.Errorf("%d edits, of which the last is %d with %d words", len(changes), last.Generation, len(last.Words))
	}
	if size := len(op.Annotations[platformv1.ChangesAnnotation]); size > 128<<10 {
		t.Errorf("the record is %d bytes", size)
	}
	// What somebody else wrote there is no edit, and neither is what a user writes on an Operation of his own.
	op.Annotations[platformv1.ChangesAnnotation] = "nonsense\n\n-\n9 spec.a: 1 → 2"
	if changes := ChangesOf(op); len(changes) != 1 || changes[0].Generation != 9 {
		t.Errorf("it reads %+v", changes)
	}
	delete(op.Labels, platformv1.TriggerLabel)
	if changes := ChangesOf(op); len(changes) != 0 {
		t.Errorf("it reads %+v of a user's Operation", changes)
	}
}

func TestARecordFollowsItsSpec(t *testing.T) {
	app := application(5)
	op := SpecOperation(app, edit(5, "spec.a: 1 → 2"))
	app.Generation = 4
	facts := reports(app, outcome.Done())
	app.Generation = 5
	expect := func(what string, d Decision, phase platformv1.OperationPhase, reason, says string) {
		t.Helper()
		text := d.Outcome.Message() + d.Status.Error
		if d.Status.Phase != phase || reason != "" && d.Outcome.Reason() != reason || !strings.Contains(text, says) {
			t.Errorf("%s: it is %s, %s: %q; want %s, %s: %q", what, d.Status.Phase, d.Outcome.Reason(), text, phase, reason,
				says)
		}
		op.Status = d.Status
		conditions.Report(op, d.Outcome, "")
	}
	expect("Ready with the generation before", Start(op, "web", facts, nil), platformv1.OperationRunning, "",
		"to take up the change")
	expect("at work", Next(op, reports(app, outcome.Waiting(platformv1.ReasonPodsNotReady, "1 of 3 updated"))),
		platformv1.OperationRunning, platformv1.ReasonProgressing, "1 of 3 updated")
	if StandsAside(op) || op.Status.Steps[0].Outputs[OutputChanged] != "spec.a: 1 → 2" {
		t.Errorf("it is %+v", op.Status)
	}
	expect("after a year", Next(op, func() Facts {
		f := reports(app, outcome.Waiting(platformv1.ReasonPodsNotReady, "1 of 3 updated"))
		f.Now = epoch.Add(365 * 24 * time.Hour)
		return f
	}()), platformv1.OperationRunning, "", "1 of 3 updated")
	expect("a pod does not start", Next(op, reports(app, outcome.Waiting(platformv1.ReasonImageUnavailable, "no image"))),
		platformv1.OperationRunning, platformv1.ReasonImageUnavailable, "no image")
	if !StandsAside(op) {
		t.Error("it does not let others mend a pod")
	}
	const unsupported = platformv1.ReasonVolumeExpansionUnsupported
	expect("a volume does not grow", Next(op, reports(app, outcome.Waiting(unsupported, "the pool is full"))),
		platformv1.OperationRunning, unsupported, "the pool is full")
	if !StandsAside(op) {
		t.Error("it does not let others take the size back")
	}
	starts := outcome.Waiting(platformv1.ReasonPodsNotReady, "2 of 3 updated")
	if d := Next(op, reports(app, starts)); !OnlyProgress(op, d) {
		t.Error("that a pod starts after all is more than progress")
	}
	deferred := outcome.Deferred(platformv1.ReasonWaitingForMaintenance, "next at two")
	if d := Next(op, reports(app, deferred)); OnlyProgress(op, d) {
		t.Error("that it waits for a window is only progress")
	}
	expect("waiting for a window", Next(op, reports(app, deferred)), platformv1.OperationRunning,
		platformv1.ReasonWaitingForMaintenance, "next at two")
	if !StandsAside(op) {
		t.Error("it does not stand aside for its window")
	}
	app.Generation, app.Status.TakenUpGeneration = 6, new(int64(5))
	expect("the next edit is refused", Next(op,
		reports(app, outcome.Stalled(platformv1.ReasonInvalidSpec, "no such version"))), platformv1.OperationRunning,
		ReasonSpecRefused, "no such version")
	if !StandsAside(op) {
		t.Error("it does not stand aside for a mend")
	}
	app.Generation, app.Status.TakenUpGeneration = 7, nil
	Amend(op, edit(7, "spec.a: 2 → 3"))
	expect("mended", Next(op, reports(app, outcome.Waiting(platformv1.ReasonPodsNotReady, "0 of 3 updated"))),
		platformv1.OperationRunning, platformv1.ReasonProgressing, "0 of 3 updated")
	if got := op.Status.Steps[0].Outputs[OutputGeneration]; got != "7" {
		t.Errorf("it drives to generation %s", got)
	}
	stalled := *op.DeepCopy()
	d := Next(&stalled, reports(app.DeepCopy(),
		outcome.Stalled(platformv1.ReasonResizeInfeasible, "no node has that much")))
	if d.Status.Phase != platformv1.OperationFailed || !strings.Contains(d.Status.Error, "no node has that much") {
		t.Errorf("stalled, it is %s: %s", d.Status.Phase, d.Status.Error)
	}
	expect("there", Next(op, reports(app, outcome.Done())), platformv1.OperationSucceeded, "", "")
}

func TestRecordFor(t *testing.T) {
	bundle := &plugin.Bundle{}
	user := func(template string, step platformv1.StepStatus, phase platformv1.OperationPhase) *platformv1.Operation {
		step.Name = Defaults()[template].Steps[0].Name
		return &platformv1.Operation{ObjectMeta: metav1.ObjectMeta{Name: "user"},
			Spec:   platformv1.OperationSpec{TemplateRef: template},
			Status: platformv1.OperationStatus{Phase: phase, Steps: []platformv1.StepStatus{step}}}
	}
	running, said := platformv1.StepStatus{Phase: platformv1.OperationRunning},
		func(generation string, phase platformv1.OperationPhase) platformv1.StepStatus {
			return platformv1.StepStatus{Phase: phase, Outputs: map[string]string{OutputGeneration: generation}}
		}
	open := SpecOperation(application(5), edit(5, "x"))
	ended := open.DeepCopy()
	ended.Status.Phase = platformv1.OperationSucceeded
	gone := open.DeepCopy()
	gone.DeletionTimestamp = new(metav1.Now())
	for name, tc := range map[string]struct {
		op    *platformv1.Operation
		found bool
	}{
		"a record that runs":          {open, true},
		"one that has ended":          {ended, false},
		"one that is being deleted":   {gone, false},
		"an edit that is about to be": {user("HorizontalScale", running, platformv1.OperationRunning), true},
		"an edit that was made": {
			user("HorizontalScale", said("6", platformv1.OperationRunning), platformv1.OperationRunning), true},
		"an edit that was, and cancelled": {
			user("HorizontalScale", said("6", platformv1.OperationCancelled), platformv1.OperationCancelled), true},
		"cancelled before it was": {user("HorizontalScale", platformv1.StepStatus{Phase: platformv1.OperationCancelled},
			platformv1.OperationCancelled), false},
		"an earlier edit": {user("HorizontalScale", said("5", platformv1.OperationRunning), platformv1.OperationRunning),
			false},
		"yet to begin": {user("HorizontalScale", platformv1.StepStatus{Phase: platformv1.OperationPending},
			platformv1.OperationPending), false},
		"it edits nothing": {user("Restart", running, platformv1.OperationRunning), false},
		"it hands over":    {user("Switchover", said("6", platformv1.OperationRunning), platformv1.OperationRunning), false},
	} {
		if got := RecordFor(6, []*platformv1.Operation{tc.op},
			func(*platformv1.Operation) *plugin.Bundle { return bundle }); (got != nil) != tc.found {
			t.Errorf("%s: found is %v", name, got)
		}
	}
}

func TestPreempts(t *testing.T) {
	urgent := func(op *platformv1.Operation) bool { return op.Spec.TemplateRef == "Stop" }
	made := 0
	op := func(template string, phase platformv1.OperationPhase) *platformv1.Operation {
		made++
		return &platformv1.Operation{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(made), UID: types.UID(fmt.Sprint(made)),
				CreationTimestamp: metav1.NewTime(epoch.Add(time.Duration(made) * time.Minute))},
			Spec:   platformv1.OperationSpec{TemplateRef: template},
			Status: platformv1.OperationStatus{Phase: phase, Application: "web"}}
	}
	queue := func(ops ...*platformv1.Operation) Queue { return Queue{Operations: ops, Urgent: urgent} }
	runs, waits, stop := op("Restart", platformv1.OperationRunning), op("Reload", platformv1.OperationPending),
		op("Stop", platformv1.OperationPending)
	q := queue(runs, waits, stop)
	if q.Ahead(stop) != runs || q.Ahead(waits) != runs || q.Preempts(runs) != stop || q.Preempts(stop) != nil {
		t.Errorf("ahead of the stop is %v, of what waits %v; what runs ends for %v", q.Ahead(stop), q.Ahead(waits),
			q.Preempts(runs))
	}
	runs.Status.Phase = platformv1.OperationCancelled
	if q.Ahead(stop) != nil || q.Ahead(waits) != stop {
		t.Errorf("then ahead of the stop is %v, of what waits %v", q.Ahead(stop), q.Ahead(waits))
	}
	// Two queue, whoever runs.
	other := op("Stop", platformv1.OperationPending)
	stop.Status.Phase = platformv1.OperationRunning
	if q := queue(stop, other, waits); q.Ahead(other) != stop || q.Preempts(stop) != nil {
		t.Errorf("ahead of the other is %v; the first ends for %v", q.Ahead(other), q.Preempts(stop))
	}
	// What one runs as its step neither ends it nor is ended with others of its kind.
	parent, child := op("Repair", platformv1.OperationRunning), op("Stop", platformv1.OperationPending)
	child.OwnerReferences = []metav1.OwnerReference{{Kind: "Operation", UID: parent.UID, Controller: new(true)}}
	if q := queue(parent, child); q.Preempts(parent) != nil || q.Ahead(child) != nil {
		t.Errorf("a step ends its own Operation: %v, ahead of it is %v", q.Preempts(parent), q.Ahead(child))
	}
	// Records wait for nobody; others wait for them, but those that pre-empt; one that stops the instance ends what runs.
	record := SpecOperation(application(5), edit(5, "x"))
	record.UID = "record"
	runs.Status.Phase = platformv1.OperationRunning
	stop.Status.Phase = platformv1.OperationPending
	q = queue(runs, waits, stop, record)
	if q.Ahead(record) != nil || q.Preempts(record) != nil || queue(waits, record).Ahead(waits) != record ||
		queue(stop, record).Ahead(stop) != nil {
		t.Errorf("ahead of the record is %v", q.Ahead(record))
	}
	if q := queue(runs, record); q.Preempts(runs) != nil {
		t.Error("an edit that goes on ends what runs")
	}
	Amend(record, Change{Generation: 6, Words: []string{"spec.running: true → false"}, Stops: Stops})
	if q := queue(runs, record); q.Preempts(runs) != record {
		t.Error("an edit that stops the instance does not end what runs")
	}
	Amend(record, Change{Generation: 7, Words: []string{"spec.running: false → true"}})
	if q := queue(runs, record); q.Preempts(runs) != nil {
		t.Error("an edit that was taken back ends what runs")
	}
}

// What somebody has to approve first ends nothing before that.
func TestUrgentOnceApproved(t *testing.T) {
	failover := func(accept platformv1.ParameterValue, approval *platformv1.OperationApproval) *platformv1.Operation {
		return &platformv1.Operation{Spec: platformv1.OperationSpec{TemplateRef: "Failover",
			Parameters: platformv1.Parameters{"acceptDataLoss": accept}, Approval: approval}}
	}
	template := Defaults()["Failover"]
	approval := &platformv1.OperationApproval{By: "bob", Decision: platformv1.OperationApproved}
	if !Urgent(failover("false", nil), template) || Urgent(failover("true", nil), template) ||
		!Urgent(failover("true", approval), template) {
		t.Error("a failover is urgent before it is approved, or is not afterwards")
	}
	if !Urgent(&platformv1.Operation{}, Defaults()["Stop"]) || Urgent(&platformv1.Operation{}, Defaults()["Restart"]) {
		t.Error("it is not the template that says it")
	}
}

// In random histories of edits, reconciles and crashes there is one open record at most, no edit is on none or on two,
// and none succeeds before the instance is Ready with its last edit.
func TestRecordsInRandomHistories(t *testing.T) {
	for seed := range uint64(400) {
		h := &history{random: rand.New(rand.NewPCG(seed, 7)), app: application(1), taken: 1}
		reports(h.app, outcome.Done())
		for range 120 {
			h.step()
		}
		for range 20 {
			if h.takeUp(); h.taken == h.app.Generation {
				reports(h.app, outcome.Done())
			}
			h.reconcile(*h.app.DeepCopy())
		}
		h.judge()
		if len(h.problems) > 0 {
			t.Fatalf("seed %d: %v\n%s", seed, h.problems, strings.Join(h.story, "\n"))
		}
	}
}

type history struct {
	random   *rand.Rand
	app      *platformv1.Application
	taken    int64
	edits    []int64
	records  []*platformv1.Operation
	problems []string
	story    []string
}

func (h *history) tell(text string, args ...any) {
	h.story = append(h.story, fmt.Sprintf(text, args...))
}

func (h *history) step() {
	switch h.random.IntN(6) {
	case 0:
		h.app.Generation++
		h.edits = append(h.edits, h.app.Generation)
		h.tell("edit %d", h.app.Generation)
	case 1:
		h.takeUp()
	case 2:
		outcomes := []outcome.Outcome{outcome.Done(), outcome.Waiting(platformv1.ReasonPodsNotReady, "at work"),
			outcome.Stalled(platformv1.ReasonResizeInfeasible, "stuck"),
			outcome.Deferred(platformv1.ReasonWaitingForMaintenance, "next at two")}
		if o := outcomes[h.random.IntN(len(outcomes))]; h.taken == h.app.Generation {
			reports(h.app, o)
			h.tell("it reports %s for %d", o.Kind(), h.app.Generation)
		}
	default:
		h.reconcile(*h.app.DeepCopy())
	}
}

// takeUp is what the controller of the Application does; it may die after it wrote the record and comes to the same
// again.
func (h *history) takeUp() {
	if h.taken == h.app.Generation || len(h.edits) == 0 {
		return
	}
	change := edit(h.app.Generation, fmt.Sprintf("to %d", h.app.Generation))
	op := RecordFor(h.app.Generation, h.records, func(*platformv1.Operation) *plugin.Bundle { return &plugin.Bundle{} })
	switch {
	case op == nil:
		op = SpecOperation(h.app, change)
		if !slices.ContainsFunc(h.records, func(r *platformv1.Operation) bool { return r.Name == op.Name }) {
			h.records = append(h.records, op)
		}
	case ChangesOf(op)[len(ChangesOf(op))-1].Generation < h.app.Generation:
		Amend(op, change)
	}
	h.tell("%d is on record as %s", h.app.Generation, op.Name)
	if h.random.IntN(3) == 0 {
		h.tell("  and the controller dies")
		return
	}
	h.taken = h.app.Generation
	reports(h.app, outcome.Waiting(platformv1.ReasonPodsNotReady, "at work"))
}

// reconcile is one of the controller of Operations, which sees the Application as it was.
func (h *history) reconcile(app platformv1.Application) {
	for _, op := range h.records {
		if Finished(op) {
			continue
		}
		facts := Facts{Now: epoch, Template: Defaults()[TemplateApply], Target: `Application "web"`, Application: &app}
		for condition, of := range map[string]*Condition{platformv1.ReadyCondition: &facts.Declared.Ready,
			platformv1.StalledCondition: &facts.Declared.Stalled} {
			if c := conditions.Get(&app, condition); c != nil {
				*of = Condition{Status: c.Status, Reason: c.Reason, Message: c.Message}
			}
		}
		d := Decision{}
		if Running(op) {
			d = Next(op, facts)
		} else {
			d = Start(op, "web", facts, nil)
		}
		if h.random.IntN(5) == 0 {
			h.tell("a decision on %s is lost", op.Name)
			continue
		}
		op.Status = d.Status
		conditions.Report(op, d.Outcome, "")
		h.tell("%s is %s", op.Name, op.Status.Phase)
		changes := ChangesOf(op)
		ready := conditions.Get(&app, platformv1.ReadyCondition)
		if op.Status.Phase == platformv1.OperationSucceeded &&
			(ready.Status != metav1.ConditionTrue || ready.ObservedGeneration < changes[len(changes)-1].Generation) {
			h.problems = append(h.problems, fmt.Sprintf("%s succeeded too early", op.Name))
		}
	}
	open := 0
	for _, op := range h.records {
		if !Finished(op) {
			open++
		}
	}
	if open > 1 {
		h.problems = append(h.problems, fmt.Sprintf("%d records are open", open))
	}
}

func (h *history) judge() {
	on := map[int64]int{}
	for _, op := range h.records {
		if !Finished(op) {
			h.problems = append(h.problems, op.Name+" never ends")
		}
		for _, change := range ChangesOf(op) {
			on[change.Generation]++
		}
	}
	for generation, records := range on {
		if records > 1 {
			h.problems = append(h.problems, fmt.Sprintf("generation %d is on %d records", generation, records))
		}
	}
	if last := len(h.edits) - 1; last >= 0 && on[h.edits[last]] != 1 {
		h.problems = append(h.problems, fmt.Sprintf("the last edit is on %d records", on[h.edits[last]]))
	}
}
