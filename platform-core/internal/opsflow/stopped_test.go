// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// line is a run of an inline template whose Jobs a test has at hand, by name.
type line struct {
	*testing.T
	op    *platformv1.Operation
	facts Facts
	jobs  map[string]JobState
}

func newLine(t *testing.T, steps string) *line {
	t.Helper()
	op := &platformv1.Operation{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "run", UID: "1"}}
	op.Spec.Template, op.Spec.ServiceAccountName = "name: A\nsteps:\n"+steps, "worker"
	template, refusal := InlineTemplate(op.Spec)
	if refusal != nil {
		t.Fatal(refusal)
	}
	return &line{T: t, op: op, facts: Facts{Now: epoch, Template: template, Parameters: map[string]string{}},
		jobs: map[string]JobState{}}
}

// reconcile decides and records as the controller does, and returns the reasons of all that was written.
func (l *line) reconcile() (written []string) {
	l.Helper()
	l.facts.Answers, l.facts.Lists = map[string]*Answer{}, map[string][]string{}
	for range 100 {
		d := Next(l.op, l.facts)
		if l.op.Status.StartTime == nil {
			d = Start(l.op, "", l.facts, nil)
		}
		if NeedsRecord(l.op, d) {
			after := *d.Status.DeepCopy()
			meta.SetStatusCondition(&after.Conditions, metav1.Condition{Type: platformv1.ReadyCondition,
				Status: metav1.ConditionFalse, Reason: d.Outcome.Reason(), Message: d.Outcome.Message()})
			if !equality.Semantic.DeepEqual(l.op.Status, after) {
				l.op.Status, written = after, append(written, d.Outcome.Reason())
			}
		}
		if d.Effect == nil {
			return written
		}
		job := l.jobs[d.Effect.Job.Name]
		if job.Phase == "" {
			job.Phase = platformv1.OperationRunning
		}
		l.facts.Answers[d.Effect.Key] = &Answer{Job: job}
	}
	l.Fatal("it asks for ever")
	return nil
}

// says checks what the run says of itself.
func (l *line) says(reason, message string) {
	l.Helper()
	ready := meta.FindStatusCondition(l.op.Status.Conditions, platformv1.ReadyCondition)
	if ready.Reason != reason || ready.Message != message {
		l.Errorf("it says %s: %q, want %s: %q", ready.Reason, ready.Message, reason, message)
	}
}

const lacking = `pod run-stuck-x: container task cannot get image "b"`

// A run names the step whose pod cannot start, whichever step it waits for first. While that lasts, nothing is written
// for it, and what other steps write keeps the reason.
func TestRunSaysWhatKeepsAPodFromStarting(t *testing.T) {
	l := newLine(t, `
  - {name: fine, needs: [], container: {image: a}}
  - {name: stuck, needs: [], container: {image: b}}
  - {name: later, needs: [fine], container: {image: c}}
`)
	l.reconcile()
	l.says(platformv1.ReasonProgressing, `step "fine": waiting for job run-fine to end`)
	l.jobs["run-stuck"] = JobState{Reason: platformv1.ReasonImageUnavailable, Message: lacking}
	l.reconcile()
	stuck := `step "stuck": waiting for job run-stuck to end: ` + lacking
	l.says(platformv1.ReasonImageUnavailable, stuck)
	if written := l.reconcile(); len(written) > 0 {
		t.Errorf("nothing changed, and it is written %d times", len(written))
	}
	l.jobs["run-fine"] = JobState{Phase: platformv1.OperationSucceeded}
	written := l.reconcile()
	if l.op.Status.Steps[2].Phase != platformv1.OperationRunning || len(written) == 0 {
		t.Fatalf("the last step has not begun: %+v", l.op.Status)
	}
	for _, reason := range written {
		if reason != platformv1.ReasonImageUnavailable {
			t.Errorf("the reasons that are written are %q", written)
		}
	}
	l.says(platformv1.ReasonImageUnavailable, stuck)
	delete(l.jobs, "run-stuck")
	l.reconcile()
	l.says(platformv1.ReasonProgressing, `step "stuck": waiting for job run-stuck to end`)
}

// Of many items the one is named whose pod cannot start.
func TestRunNamesTheItemWhosePodCannotStart(t *testing.T) {
	l := newLine(t, "  - {name: each, forEach: '[\"a\", \"b\", \"c\"]', parallelism: 3, container: {image: a}}\n")
	l.reconcile()
	l.says(platformv1.ReasonProgressing, `step "each": waiting for 3 items, the first of them for job run-each-1 to end`)
	l.jobs["run-each-2"] = JobState{Reason: platformv1.ReasonPodUnschedulable, Message: "no node for pod x"}
	l.reconcile()
	l.says(platformv1.ReasonPodUnschedulable,
		`step "each": waiting for 3 items, one of them for job run-each-2 to end: no node for pod x`)
	if written := l.reconcile(); len(written) > 0 {
		t.Errorf("nothing changed, and it is written %d times", len(written))
	}
}

// What keeps a pod from starting is told from its beginning, where the image is named; of what a container says the end
// counts.
func TestLongMessageOfAPodKeepsItsBeginning(t *testing.T) {
	long := lacking + strings.Repeat(" and so on", 100)
	if got := stateOfJob(JobState{Message: long, Reason: platformv1.ReasonImageUnavailable}); !strings.HasPrefix(got,
		": "+lacking) || len(got) > longestTail+10 {
		t.Errorf("it says %q", got)
	}
	if got := stateOfJob(JobState{Message: long}); strings.Contains(got, lacking) || !strings.HasSuffix(got, "so on") {
		t.Errorf("it says %q", got)
	}
	if got := stateOfJob(JobState{}); got != "" {
		t.Errorf("it says %q", got)
	}
}
