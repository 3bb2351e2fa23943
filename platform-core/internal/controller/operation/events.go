// SPDX-License-Identifier: Apache-2.0

package operation

import (
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/opsflow"
)

// Reasons of events.
const (
	eventStarted   = "Started"
	eventSucceeded = "Succeeded"
	eventFailed    = "Failed"
	eventCancelled = "Cancelled"
	// eventAwaitingApproval: somebody has to approve.
	eventAwaitingApproval = "AwaitingApproval"
)

// tell publishes what happened between two states of an Operation.
func (c *Controller) tell(before, after *platformv1.Operation) {
	if before.Status.Phase == after.Status.Phase {
		return
	}
	if opsflow.Records(after) && after.Status.Phase != platformv1.OperationFailed {
		// The record itself says that there is a change, and each event would be one more write for it.
		return
	}
	subject := opsflow.Subject(after)
	switch after.Status.Phase {
	case platformv1.OperationRunning:
		// That one is made on time is told by what has the schedule, and with thousands of them each event counts.
		if opsflow.TriggerOf(after) == platformv1.TriggerSchedule ||
			before.Status.Phase == platformv1.OperationAwaitingApproval {
			return
		}
		c.events.Normal(after, eventStarted, "%s started", subject)
	case platformv1.OperationAwaitingApproval:
		c.events.Normal(after, eventAwaitingApproval, "%s waits for an approval", subject)
	case platformv1.OperationCancelled:
		c.events.Normal(after, eventCancelled, "%s was cancelled", subject)
	case platformv1.OperationSucceeded:
		c.events.Normal(after, eventSucceeded, "%s succeeded", subject)
	case platformv1.OperationFailed:
		c.events.Warning(after, eventFailed, "%s failed: %s", subject, after.Status.Error)
	}
}
