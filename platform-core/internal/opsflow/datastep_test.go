// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"maps"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// restoring is an Operation of the engine's template, and a world that answers it.
type restoring struct {
	t     *testing.T
	op    *platformv1.Operation
	facts Facts
	// asked are the verbs about volumes, in order, each once in a row.
	asked []DataVerb
	// job is how the one that brings the data stands, refused why a verb is.
	job     JobState
	reason  string
	refused map[DataVerb]string
	// busy is a verb that is to be asked for again later; empty for none.
	busy DataVerb
	// term in which the volumes of before were written last when the pods left them; 0 where nobody is on record.
	term int64
	// set that it is about, as far as that is known.
	set string
}

// there is how the Job stands that has brought all.
var there = JobState{Phase: platformv1.OperationSucceeded}

func newRestoring(t *testing.T, job JobState, parameters platformv1.Parameters) *restoring {
	t.Helper()
	r := &restoring{t: t, job: job, refused: map[DataVerb]string{}, set: "s"}
	given := platformv1.Parameters{"backup": "nightly-backup"}
	maps.Copy(given, parameters)
	r.op = &platformv1.Operation{ObjectMeta: metav1.ObjectMeta{Name: "back", UID: "0123456789"},
		Spec: platformv1.OperationSpec{TemplateRef: TemplateRestore, Parameters: given}}
	r.facts = Facts{Now: epoch, Template: Defaults()[TemplateRestore], Target: `Redis "a"`,
		BackupMethods: []BackupMethod{rdb}, Data: map[string]DataState{"s": {Serves: "p", Writes: "p"}}}
	r.facts.Answers = map[string]*Answer{}
	r.facts.Declared = Declared{Object: `Redis "a"`, Ready: Condition{Status: metav1.ConditionTrue}}
	r.facts.Parameters = ParametersInForce(r.op.Spec, r.facts.Template)
	r.goOn(Start(r.op, "redis-a", r.facts, nil))
	return r
}

// goOn carries out what is decided until there is nothing to do.
func (r *restoring) goOn(d Decision) Decision {
	r.t.Helper()
	for ; d.Effect != nil; d = Next(r.op, r.facts) {
		r.op.Status = d.Status
		r.facts.Answers[d.Effect.Key] = r.answer(d.Effect)
	}
	r.op.Status = d.Status
	return d
}

// reconcile begins with nothing known of what was asked for before.
func (r *restoring) reconcile() Decision {
	r.facts.Answers = map[string]*Answer{}
	return r.goOn(Next(r.op, r.facts))
}

func (r *restoring) answer(e *Effect) *Answer {
	switch {
	case e.Backup != nil:
		if e.Backup.Verb == BackupMake && (e.Backup.Repository != "store" || e.Backup.Method != "rdb" ||
			e.Backup.Series != "safety-copy") {
			r.t.Errorf("the safety copy is %+v", e.Backup)
		}
		return &Answer{Backup: standing(platformv1.BackupCompleted, "")}
	case e.Job != nil:
		return &Answer{}
	}
	verb := e.Data.Verb
	if len(r.asked) == 0 || r.asked[len(r.asked)-1] != verb {
		r.asked = append(r.asked, verb)
	}
	if why := r.refused[verb]; why != "" {
		return &Answer{Failure: FailureRefused, Problem: why}
	}
	if verb == r.busy {
		return &Answer{Failure: FailureUnreachable, Problem: "somebody else changed it"}
	}
	if verb == DataPrepare {
		return &Answer{Job: r.job, Reason: r.reason,
			Outputs: map[string]string{OutputWorkloadSet: "s", OutputFormer: "", OutputMethod: "rdb", OutputRepository: "store",
				OutputMark: "uid"}}
	}
	if e.Data.Generation != "01234567" || e.Data.Former != "" || e.Data.Set != r.set {
		r.t.Errorf("it asks for %+v", e.Data)
	}
	if copies := r.op.Spec.Parameters["safetyCopy"] != "Skip"; verb == DataSwap && (e.Data.Copy != "") != copies {
		r.t.Errorf("it swaps %+v", e.Data)
	}
	if verb == DataDrop && e.Data.FormerTerm != r.term {
		r.t.Errorf("it drops what was written last in term %d, want %d", e.Data.FormerTerm, r.term)
	}
	if verb == DataDrop && (e.Data.Mark != "uid" || e.Data.Copy == "" || e.Data.CopyDigest == "") {
		r.t.Errorf("it drops %+v", e.Data)
	}
	return &Answer{}
}

// is checks what was asked for so far.
func (r *restoring) is(phase platformv1.OperationPhase, says string, asked ...DataVerb) {
	r.t.Helper()
	var got, want []string
	for _, verb := range r.asked {
		got = append(got, string(verb))
	}
	for _, verb := range asked {
		want = append(want, string(verb))
	}
	ready := ""
	for _, c := range r.op.Status.Conditions {
		ready += c.Message
	}
	said := r.op.Status.Error + ready
	for _, step := range r.op.Status.Steps {
		said += step.Message
	}
	if r.op.Status.Phase != phase || !strings.Contains(said, says) || strings.Join(got, " ") != strings.Join(want, " ") {
		r.t.Errorf("it is %s after %v, want %s after %v; it says %s", r.op.Status.Phase, got, phase, want, said)
	}
}

func TestRestoreGoesThrough(t *testing.T) {
	r := newRestoring(t, there, nil)
	r.is(platformv1.OperationRunning, "to take up the change", DataPrepare, DataSwap)
	r.facts.Data["s"] = DataState{Generation: "01234567", Elsewhere: 2}
	r.reconcile()
	r.is(platformv1.OperationRunning, "2 pods of s with the previous volumes to end", DataPrepare, DataSwap)
	r.facts.Data["s"] = DataState{Generation: "01234567", Message: "0 of 1 ready"}
	r.reconcile()
	r.is(platformv1.OperationRunning, "to work with the restored data: 0 of 1 ready", DataPrepare, DataSwap)
	if Passed(r.op) {
		t.Error("there is no way back before anybody is led there")
	}
	r.facts.Data["s"] = DataState{Generation: "01234567", Writes: "p"}
	r.reconcile()
	r.is(platformv1.OperationRunning, "to become the primary", DataPrepare, DataSwap, DataOpen)
	if !Passed(r.op) {
		t.Error("it says nothing of the point of no return")
	}
	r.op.Spec.Cancel = true
	r.facts.Data["s"] = DataState{Generation: "01234567", Writes: "p", Serves: "p"}
	r.reconcile()
	r.is(platformv1.OperationSucceeded, "", DataPrepare, DataSwap, DataOpen, DataDrop)
}

// What is known of who wrote before is what was so when the pods left, also where the run is tried again.
func TestRestoreDropsWhatItLeft(t *testing.T) {
	r := newRestoring(t, there, nil)
	r.term = 4
	r.facts.Data["s"] = DataState{Generation: "01234567", Writes: "p", Serves: "p",
		Terms: map[string]int64{"": 4, "g9": 7}}
	r.refused[DataDrop] = "the store is away"
	r.reconcile()
	r.is(platformv1.OperationFailed, "the store is away", DataPrepare, DataSwap, DataOpen, DataDrop)
	// They were written again meanwhile.
	r.facts.Data["s"] = DataState{Generation: "01234567", Writes: "p", Serves: "p", Terms: map[string]int64{"": 6}}
	earlier := r.again()
	delete(r.refused, DataDrop)
	r.goOn(Start(r.op, "redis-a", r.facts, earlier))
	r.is(platformv1.OperationSucceeded, "", DataDrop)
}

// Whatever comes of it before clients are led there, the volumes of before are in place, and the others are gone.
func TestRestoreIsUndone(t *testing.T) {
	for name, tc := range map[string]struct {
		before func(*restoring)
		phase  platformv1.OperationPhase
		says   string
		asked  []DataVerb
	}{
		"cancelled while the data comes": {before: func(r *restoring) { r.op.Spec.Cancel = true },
			phase: platformv1.OperationCancelled, asked: []DataVerb{DataPrepare, DataDiscard}},
		"too late while the data comes": {before: func(r *restoring) { r.facts.Now = epoch.Add(DefaultTimeout) },
			phase: platformv1.OperationFailed, says: "not done within", asked: []DataVerb{DataPrepare, DataDiscard}},
		"damaged": {before: func(r *restoring) {
			r.job, r.reason = JobState{Phase: platformv1.OperationFailed, Message: "BackupDamaged: no"}, "BackupDamaged"
		}, phase: platformv1.OperationFailed, says: "BackupDamaged: no", asked: []DataVerb{DataPrepare, DataDiscard}},
		"refused": {before: func(r *restoring) { r.refused[DataPrepare] = "it does not fit" },
			phase: platformv1.OperationFailed, says: "it does not fit", asked: []DataVerb{DataPrepare, DataDiscard}},
		"scaled meanwhile": {before: func(r *restoring) {
			r.job.Phase, r.refused[DataSwap] = platformv1.OperationSucceeded,
				"it was scaled"
		},
			phase: platformv1.OperationFailed, says: "it was scaled",
			asked: []DataVerb{DataPrepare, DataSwap, DataReturn, DataDiscard}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRestoring(t, JobState{Phase: platformv1.OperationRunning, Message: "half of it"}, nil)
			r.is(platformv1.OperationRunning, "half of it", DataPrepare)
			tc.before(r)
			r.reconcile()
			r.is(tc.phase, tc.says, tc.asked...)
		})
	}
}

// What was made is deleted also where nobody came to note it.
func TestRestoreThatIsCancelledAtOnce(t *testing.T) {
	r := newRestoring(t, JobState{Phase: platformv1.OperationRunning}, nil)
	for i := range r.op.Status.Steps {
		r.op.Status.Steps[i].Outputs = nil
	}
	r.set = ""
	r.op.Spec.Cancel = true
	r.reconcile()
	r.is(platformv1.OperationCancelled, "", DataPrepare, DataDiscard)
}

// Clients that cannot be led to the data were not led there, so that there is a way back.
func TestRestoreThatCannotBeOpened(t *testing.T) {
	t.Run("once", func(t *testing.T) { cannotBeOpened(t, nil) })
	t.Run("with further attempts", func(t *testing.T) { cannotBeOpened(t, &platformv1.OperationRetry{Limit: 3}) })
}

func cannotBeOpened(t *testing.T, retry *platformv1.OperationRetry) {
	r := newRestoring(t, there, nil)
	r.op.Spec.Retry = retry
	r.facts.Data["s"], r.refused[DataOpen] = DataState{Generation: "01234567", Writes: "p"}, "the volume is another one"
	r.reconcile()
	r.is(platformv1.OperationRunning, "to take up the change", DataPrepare, DataSwap, DataOpen, DataReturn)
	r.facts.Data["s"] = DataState{Serves: "p", Writes: "p"}
	r.reconcile()
	r.is(platformv1.OperationFailed, "the volume is another one", DataPrepare, DataSwap, DataOpen, DataReturn, DataDiscard)
	if Passed(r.op) {
		t.Error("it says that there was no way back")
	}
}

// Pods that cannot go to the data are not waited for.
func TestRestoreOntoNothing(t *testing.T) {
	r := newRestoring(t, there, platformv1.Parameters{"safetyCopy": "Skip"})
	r.facts.Data["s"] = DataState{Generation: "01234567", Elsewhere: 1, InvalidGeneration: "there are no volumes of that"}
	r.reconcile()
	r.is(platformv1.OperationRunning, "to take up the change", DataPrepare, DataSwap, DataReturn)
	r.facts.Data["s"] = DataState{Serves: "p", Writes: "p"}
	r.reconcile()
	r.is(platformv1.OperationFailed, "there are no volumes of that", DataPrepare, DataSwap, DataReturn, DataDiscard)
}

// Pods that do not start on the data go back to the volumes of before.
func TestRestoreThatDoesNotStart(t *testing.T) {
	r := newRestoring(t, there, platformv1.Parameters{"safetyCopy": "Skip"})
	r.facts.Data["s"] = DataState{Generation: "01234567"}
	r.facts.Now = epoch.Add(DefaultTimeout + time.Second)
	r.reconcile()
	r.is(platformv1.OperationRunning, "to take up the change", DataPrepare, DataSwap, DataReturn)
	r.facts.Data["s"] = DataState{Serves: "p", Writes: "p"}
	r.reconcile()
	r.is(platformv1.OperationFailed, "to work with the restored data", DataPrepare, DataSwap, DataReturn, DataDiscard)
	if Passed(r.op) {
		t.Error("it says that there was no way back")
	}
}

// dies has the controller die when it is on record that clients are to be led to the restored data, and the time be
// over when the next one looks.
func (r *restoring) dies() {
	r.t.Helper()
	r.facts.Data["s"] = DataState{Generation: "01234567", Writes: "p"}
	r.facts.Answers = map[string]*Answer{}
	d := Next(r.op, r.facts)
	if r.op.Status = d.Status; d.Effect == nil || d.Effect.Data.Verb != DataOpen || !Passed(r.op) {
		r.t.Fatalf("it asks for %+v", d.Effect)
	}
	r.facts.Now = epoch.Add(DefaultTimeout + time.Hour)
}

// Nobody is left on volumes that are not opened: the time is over only when clients are led there, or the run can go
// back.
func TestRestoreWhoseTimeEndsBeforeItIsOpened(t *testing.T) {
	r := newRestoring(t, there, nil)
	r.dies()
	r.reconcile()
	r.is(platformv1.OperationFailed, "not done within", DataPrepare, DataSwap, DataOpen)
	if !Passed(r.op) {
		t.Error("it says that there is a way back")
	}

	r = newRestoring(t, there, nil)
	r.dies()
	r.refused[DataOpen] = "the volume is another one"
	r.reconcile()
	r.is(platformv1.OperationRunning, "to take up the change", DataPrepare, DataSwap, DataOpen, DataReturn)

	r = newRestoring(t, there, nil)
	r.dies()
	r.busy = DataOpen
	if d := r.reconcile(); d.Outcome.After() != callRetry {
		t.Errorf("it looks again after %s", d.Outcome.After())
	}
	r.is(platformv1.OperationRunning, "somebody else changed it", DataPrepare, DataSwap, DataOpen)
	r.busy = ""
	r.reconcile()
	r.is(platformv1.OperationFailed, "not done within", DataPrepare, DataSwap, DataOpen)
}

// What is ready when the time is over goes back: nothing has passed its point of no return.
func TestRestoreThatIsReadyTooLate(t *testing.T) {
	r := newRestoring(t, there, nil)
	r.facts.Data["s"], r.facts.Now = DataState{Generation: "01234567", Writes: "p"}, epoch.Add(DefaultTimeout)
	r.reconcile()
	r.is(platformv1.OperationRunning, "to take up the change", DataPrepare, DataSwap, DataReturn)
	r.facts.Data["s"] = DataState{Serves: "p", Writes: "p"}
	r.reconcile()
	r.is(platformv1.OperationFailed, "not done within", DataPrepare, DataSwap, DataReturn, DataDiscard)
	if Passed(r.op) {
		t.Error("it says that there was no way back")
	}
}
