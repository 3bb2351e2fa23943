// SPDX-License-Identifier: Apache-2.0

package workflow

import (
	"errors"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"

	batchv1 "github.com/zeroinfra/batch-operator/api/v1"
)

var noon = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

func accept(string) error { return nil }

// simple is a Workflow with one task.
func simple() *batchv1.Workflow {
	wf := &batchv1.Workflow{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "simple", UID: "0a1b2c3d-0000"}}
	wf.Spec.Tasks = []batchv1.WorkflowTask{{Name: "a", HTTP: &batchv1.HTTPTask{URL: "http://x"}}}
	return wf
}

// A decision that is made again, since a controller died or had an old cache, creates the same Operation.
func TestSameAttemptHasTheSameName(t *testing.T) {
	first, again := decide(simple(), facts{now: noon, check: accept}),
		decide(simple(), facts{now: noon.Add(time.Hour), check: accept})
	if first.create == nil || again.create == nil || first.create.Name != again.create.Name ||
		first.create.Name != "simple-0a1b2c3d-1" {
		t.Errorf("the Operations are %v and %v", first.create, again.create)
	}
}

func TestRetryGoesOnWhereTheTemplateIsTheSame(t *testing.T) {
	for title, c := range map[string]struct {
		change func(*batchv1.Workflow)
		want   string
	}{
		"same":    {func(*batchv1.Workflow) {}, "simple-0a1b2c3d-1"},
		"another": {func(wf *batchv1.Workflow) { wf.Spec.Tasks[0].HTTP.URL = "http://y" }, ""},
	} {
		t.Run(title, func(t *testing.T) {
			wf := simple()
			op := decide(wf, facts{now: noon, check: accept}).create
			op.Status.Phase = platformv1.OperationFailed
			decide(wf, facts{now: noon, check: accept, operation: op})
			if wf.Status.Phase != batchv1.WorkflowFailed || decide(wf, facts{now: noon, check: accept}).create != nil {
				t.Fatalf("it says %+v", wf.Status)
			}
			c.change(wf)
			wf.Annotations = map[string]string{batchv1.RetryAnnotation: "now"}
			p := decide(wf, facts{now: noon, check: accept, operation: op})
			if p.create == nil || p.create.Name != "simple-0a1b2c3d-2" || p.create.Spec.RetryOf != c.want {
				t.Fatalf("the retry is %+v", p.create)
			}
			if wf.Status.LastRetry != "now" || wf.Status.Attempt != 2 || wf.Status.Progress != "0/1" {
				t.Errorf("it says %+v", wf.Status)
			}
		})
	}
}

func TestErrorOfATemplateNamesThePathInTheSpec(t *testing.T) {
	wf := simple()
	wf.Spec.OnExit = []batchv1.ExitTask{{Name: "end", HTTP: &batchv1.HTTPTask{URL: "http://x"}}}
	p := decide(wf, facts{now: noon, check: func(string) error {
		return errors.New(`line 1: steps[0].when is wrong; line 1: steps[1].http.url names step "a"`)
	}})
	if want := `spec.tasks[a].when is wrong; spec.onExit[end].http.url names task "a"`; p.invalid == nil ||
		p.invalid.Error() != want {
		t.Errorf("the error is %v, want %s", p.invalid, want)
	}
}

func TestTimeAfterTheEnd(t *testing.T) {
	wf := simple()
	wf.Spec.TTLSecondsAfterFinished = new(int32(60))
	wf.Status.Phase, wf.Status.CompletionTime = batchv1.WorkflowSucceeded, new(metav1.NewTime(noon))
	if p := decide(wf, facts{now: noon.Add(59 * time.Second)}); p.remove || !p.wake.Equal(noon.Add(time.Minute)) {
		t.Errorf("before its time the plan is %+v", p)
	}
	if p := decide(wf, facts{now: noon.Add(time.Minute)}); !p.remove {
		t.Errorf("after its time the plan is %+v", p)
	}
}

// One whose end nobody saw before its time was over says first how it ended: others may wait for that.
func TestAnEndIsOnRecordBeforeTheTimeAfterItIsOver(t *testing.T) {
	wf := simple()
	wf.Spec.TTLSecondsAfterFinished = new(int32(0))
	op := decide(wf, facts{now: noon, check: accept}).create
	op.Status.Phase, op.Status.CompletionTime = platformv1.OperationSucceeded, new(metav1.NewTime(noon))
	if p := decide(wf, facts{now: noon, check: accept, operation: op}); p.remove || p.wake.IsZero() {
		t.Errorf("as it ends the plan is %+v", p)
	}
	if p := decide(wf, facts{now: noon, check: accept}); !p.remove {
		t.Errorf("after that the plan is %+v", p)
	}
}

// TestTimeAfterTheEndBeginsWithIt: nothing else happens to a Workflow after its end.
func TestTimeAfterTheEndBeginsWithIt(t *testing.T) {
	wf := simple()
	wf.Spec.TTLSecondsAfterFinished = new(int32(60))
	op := decide(wf, facts{now: noon, check: accept}).create
	op.Status.Phase, op.Status.CompletionTime = platformv1.OperationSucceeded, new(metav1.NewTime(noon))
	if p := decide(wf, facts{now: noon, check: accept, operation: op}); wf.Status.Phase != batchv1.WorkflowSucceeded ||
		!p.wake.Equal(noon.Add(time.Minute)) {
		t.Errorf("it is %s, and the plan is %+v", wf.Status.Phase, p)
	}
}

// A retry that cannot be had keeps no Workflow beyond its time, and wakes nobody in the past, which would be at once
// and again and again.
func TestTimeAfterTheEndOfARunWhoseRetryIsInvalid(t *testing.T) {
	wf := simple()
	wf.Spec.Tasks, wf.Spec.TemplateFrom = nil, &batchv1.WorkflowTemplate{Name: "gone"}
	wf.Spec.TTLSecondsAfterFinished = new(int32(60))
	wf.Annotations = map[string]string{batchv1.RetryAnnotation: "now"}
	wf.Status.Phase, wf.Status.CompletionTime = batchv1.WorkflowFailed, new(metav1.NewTime(noon))
	wf.Status.Operation = "simple-0a1b2c3d-1"
	if p := decide(wf, facts{now: noon.Add(59 * time.Second), check: accept}); p.invalid == nil || p.remove ||
		!p.wake.Equal(noon.Add(time.Minute)) {
		t.Errorf("before its time the plan is %+v", p)
	}
	if p := decide(wf, facts{now: noon.Add(time.Minute), check: accept}); !p.remove {
		t.Errorf("after its time the plan is %+v", p)
	}
}

// What a retry lacks may come as what a first attempt lacks may.
func TestAWorkflowIsWokenByTheTemplateThatItsRetryLacks(t *testing.T) {
	wf := simple()
	wf.Spec.Tasks, wf.Spec.TemplateFrom = nil, &batchv1.WorkflowTemplate{Name: "gone"}
	wf.Status.Phase, wf.Status.Operation = batchv1.WorkflowFailed, "simple-0a1b2c3d-1"
	if by := wokenBy(wf); len(by) > 0 {
		t.Errorf("without a retry it is woken by %v", by)
	}
	wf.Annotations = map[string]string{batchv1.RetryAnnotation: "now"}
	if by := wokenBy(wf); !slices.Contains(by, byTasks+"gone") || !slices.Contains(by, byTemplate) {
		t.Errorf("with a retry it is woken by %v", by)
	}
}

// The Operation of a run with artifacts stays for a while after it was deleted, and has failed then.
func TestARunWithArtifactsThatIsTerminatedIsStopped(t *testing.T) {
	for title, c := range map[string]struct {
		terminate bool
		reason    string
		phase     batchv1.WorkflowPhase
		message   string
	}{
		"terminated":          {true, platformv1.ReasonDeleting, batchv1.WorkflowStopped, "it was terminated"},
		"deleted by somebody": {false, platformv1.ReasonDeleting, batchv1.WorkflowFailed, "it was deleted before it ended"},
		"failed before":       {true, "StepFailed", batchv1.WorkflowFailed, "it was deleted before it ended"},
	} {
		t.Run(title, func(t *testing.T) {
			wf := simple()
			op := decide(wf, facts{now: noon, check: accept}).create
			op.DeletionTimestamp = new(metav1.NewTime(noon))
			op.Status.Phase, op.Status.Error = platformv1.OperationFailed, "it was deleted before it ended"
			op.Status.CompletionTime = new(metav1.NewTime(noon))
			op.Status.Conditions = []metav1.Condition{{Type: platformv1.ReadyCondition, Status: metav1.ConditionFalse,
				Reason: c.reason}}
			wf.Spec.Terminate = c.terminate
			decide(wf, facts{now: noon, check: accept, operation: op})
			if s := wf.Status; s.Phase != c.phase || s.Message != c.message || s.CompletionTime == nil {
				t.Errorf("the status is %+v", s)
			}
		})
	}
}
