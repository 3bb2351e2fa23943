// SPDX-License-Identifier: Apache-2.0

package cronjob

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/conditions"

	batchv1 "github.com/zeroinfra/batch-operator/api/v1"
)

func running(reason, message string) *platformv1.Operation {
	op := &platformv1.Operation{Status: platformv1.OperationStatus{Phase: platformv1.OperationRunning}}
	conditions.Set(op, metav1.Condition{Type: platformv1.ReadyCondition, Status: metav1.ConditionFalse, Reason: reason,
		Message: message})
	return op
}

// The obstacle of a run is what its Operation says of a pod that does not start, in the words of the kind.
func TestObstacleOfARun(t *testing.T) {
	ended := running(platformv1.ReasonImageUnavailable, "")
	ended.Status.Phase = platformv1.OperationFailed
	for title, c := range map[string]struct {
		op   *platformv1.Operation
		want obstacle
	}{
		"not looked at yet": {&platformv1.Operation{}, obstacle{}},
		"on its way":        {running(platformv1.ReasonProgressing, `step "task": waiting for job a to end`), obstacle{}},
		"its task": {running(platformv1.ReasonImageUnavailable, `step "task": waiting for job a to end: no image`),
			obstacle{platformv1.ReasonImageUnavailable, "waiting for job a to end: no image"}},
		"a task of a Workflow": {running(platformv1.ReasonQuotaExceeded, `step "load": waiting for job a to end: no room`),
			obstacle{platformv1.ReasonQuotaExceeded, `task "load": waiting for job a to end: no room`}},
		"ended": {ended, obstacle{}},
	} {
		if got := obstacleOf(c.op); got != c.want {
			t.Errorf("%s: got %+v, want %+v", title, got, c.want)
		}
	}
}

// The condition speaks of the first run that is blocked, and says how many others there are. One that waits for its
// turn is not blocked.
func TestConditionOfBlockedRuns(t *testing.T) {
	cj := &batchv1.CronJob{Status: batchv1.CronJobStatus{Active: []batchv1.ActiveRun{{Operation: "a"}, {Operation: "b"},
		{Operation: "c"}, {Operation: "d"}}}}
	noImage := run{obstacle: obstacle{platformv1.ReasonImageUnavailable, "no image"}}
	runs := map[string]run{"a": noImage, "b": {}, "c": noImage, "d": noImage}
	if !tellActive(cj, map[string]string{"a": "held by b"}, runs) {
		t.Error("none waits for its turn")
	}
	c := conditions.Get(cj, batchv1.RunBlockedCondition)
	const want = "Operation c: no image; 2 runs are blocked: see status.active"
	if c == nil || c.Status != metav1.ConditionTrue || c.Reason != platformv1.ReasonImageUnavailable || c.Message != want {
		t.Errorf("the condition is %+v", c)
	}
	for i, want := range []string{"held by b", "", "no image", "no image"} {
		if got := cj.Status.Active[i].Message; got != want {
			t.Errorf("run %d says %q, want %q", i, got, want)
		}
	}
	if tellActive(cj, nil, map[string]run{}) || conditions.Get(cj, batchv1.RunBlockedCondition) != nil ||
		cj.Status.Active[2].Message != "" {
		t.Errorf("the status is %+v", cj.Status)
	}
}
