// SPDX-License-Identifier: Apache-2.0

package cronjob

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/conditions"

	batchv1 "github.com/zeroinfra/batch-operator/api/v1"
	"github.com/zeroinfra/batch-operator/internal/taskgraph"
)

// obstacle is what keeps the pod of a run from starting, with the reason for a condition.
type obstacle struct{ reason, message string }

// obstacleOf is that of a run, in the words of its Operation.
func obstacleOf(op *platformv1.Operation) obstacle {
	ready := conditions.Get(op, platformv1.ReadyCondition)
	if op.Status.Phase.Ended() || ready == nil || !platformv1.StopsRun(ready.Reason) {
		return obstacle{}
	}
	message := strings.TrimPrefix(ready.Message, fmt.Sprintf("step %q: ", taskStep))
	return obstacle{reason: ready.Reason, message: taskgraph.Said(message)}
}

// tellActive has the status say for what runs wait that are under way: for a mutex or a semaphore, as waiting says by
// the name of the Operation, or for their pods to start. It returns whether one waits for a mutex or a semaphore.
func tellActive(cj *batchv1.CronJob, waiting map[string]string, runs map[string]run) bool {
	active := cj.Status.Active
	var blocked []*batchv1.ActiveRun
	for i := range active {
		one := &active[i]
		one.Message = waiting[one.Operation]
		if found := runs[one.Operation].obstacle; one.Message == "" && found != (obstacle{}) {
			one.Message, blocked = found.message, append(blocked, one)
		}
	}
	if len(blocked) == 0 {
		conditions.Remove(cj, batchv1.RunBlockedCondition)
		return len(waiting) > 0
	}
	first := blocked[0]
	message := fmt.Sprintf("Operation %s: %s", first.Operation, first.Message)
	if n := len(blocked); n > 1 {
		message += fmt.Sprintf("; %d runs are blocked: see status.active", n)
	}
	conditions.Set(cj, metav1.Condition{Type: batchv1.RunBlockedCondition, Status: metav1.ConditionTrue,
		Reason: runs[first.Operation].obstacle.reason, Message: message})
	return len(waiting) > 0
}
