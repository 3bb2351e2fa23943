// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"cmp"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// Stopped is the condition that says what keeps the pod of a step from starting; nil while nothing does.
func Stopped(status *platformv1.OperationStatus) *metav1.Condition {
	ready := meta.FindStatusCondition(status.Conditions, platformv1.ReadyCondition)
	if ready == nil || status.Phase.Ended() || !platformv1.StopsRun(ready.Reason) {
		return nil
	}
	return ready
}

// stopped is the reason on record for what keeps the pod of a step from starting whose message this is; empty where the
// record has none.
func (r *run) stopped(step, message string) string {
	before := Stopped(&r.op.Status)
	if before == nil || before.Message != saying(step, message) {
		return ""
	}
	return before.Reason
}

// saying is what a run says whose step says this.
func saying(step, message string) string { return fmt.Sprintf("step %q: %s", step, message) }

// told is the verdict that a run tells of all those that it waits for: the first whose pod cannot start, else the first
// one.
func (r *run) told() verdict {
	for _, v := range r.waits {
		if platformv1.StopsRun(v.reason) {
			return v
		}
	}
	return r.waits[0]
}

// joined is what two items wait for: the effect of the first that has one, the earlier of the times to look again, and
// the words of the first whose pod cannot start.
func joined(first, second verdict) verdict {
	if first.done() {
		return second
	}
	if first.effect == nil {
		first.effect = second.effect
	}
	if first.retry == 0 || second.retry > 0 && second.retry < first.retry {
		first.retry = second.retry
	}
	if platformv1.StopsRun(second.reason) && !platformv1.StopsRun(first.reason) {
		first.waiting, first.reason = second.waiting, second.reason
	}
	first.untouched = ""
	return first
}

// several is what a number of items wait for, of which one says this.
func several(items int, one verdict) string {
	which := "the first"
	if platformv1.StopsRun(one.reason) {
		which = "one"
	}
	return fmt.Sprintf("%d items, %s of them for %s", items, which, one.waiting)
}

// ofChild adds to what a step waits for what keeps a pod of the Operation from starting that it runs.
func (v verdict) ofChild(status *platformv1.OperationStatus) verdict {
	if stopped := Stopped(status); stopped != nil {
		v.waiting, v.reason = v.waiting+": "+stopped.Message, cmp.Or(v.reason, stopped.Reason)
	}
	return v
}
