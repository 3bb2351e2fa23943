// SPDX-License-Identifier: Apache-2.0

package conditions

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// BeingApplied is what an Entity says, and what declares it says of it, from its declaration until its change has
// ended. It is one text so that the object that declares Entities is not written at each of their steps: with ten
// thousand of them every write counts.
const BeingApplied = "it is being applied"

// Outcome reads an outcome back from the conditions of an object that somebody
// else reconciles, so that its owner can pass it on. Conditions of an older
// generation, or none, mean that the object is still waiting for its turn.
func Outcome(obj platformv1.Conditioned) outcome.Outcome {
	ready := Get(obj, platformv1.ReadyCondition)
	if !Reported(obj) {
		return outcome.Waiting(platformv1.ReasonProgressing, fmt.Sprintf("%s is being reconciled", obj.GetName()))
	}
	switch {
	case ready.Reason == platformv1.ReasonSuspended:
		return outcome.Held(ready.Reason, ready.Message)
	case ready.Status == metav1.ConditionTrue && ready.Reason != platformv1.ReasonReady:
		return outcome.DoneAs(ready.Reason, ready.Message)
	case ready.Status == metav1.ConditionTrue:
		return outcome.Done()
	case IsTrue(obj, platformv1.StalledCondition):
		return outcome.Stalled(ready.Reason, ready.Message)
	case ready.Reason == platformv1.ReasonWaitingForMaintenance:
		return outcome.Deferred(ready.Reason, ready.Message)
	}
	return outcome.Waiting(ready.Reason, ready.Message)
}

// Worst is outcome.Worst of the parts of an object, with what stops a pod of any of them first in the message, whatever
// else there is to say.
func Worst(outcomes ...outcome.Outcome) outcome.Outcome {
	worst := outcome.Worst(outcomes...)
	if platformv1.StopsPods(worst.Reason()) {
		return worst
	}
	for _, o := range outcomes {
		if o.Kind() >= outcome.KindWaiting && platformv1.StopsPods(o.Reason()) {
			return worst.Because(o.Reason(), o.Message())
		}
	}
	return worst
}

// Reported says whether the condition Ready of an object is there and speaks of its present generation.
func Reported(obj platformv1.Conditioned) bool {
	ready := Get(obj, platformv1.ReadyCondition)
	return ready != nil && ready.ObservedGeneration == obj.GetGeneration()
}
