// SPDX-License-Identifier: Apache-2.0

// Package opsflow decides how an Operation goes on. It is pure: from the
// Operation as recorded and the facts as observed it gives the status to record
// and at most one call to make, and it never talks to the API or to an agent.
//
// # Order of effects
//
// A Decision is carried out in this order: the status is written, then the call
// is made. So a call that was begun is always on record, and after a crash the
// same status and facts give the same call with the same idempotency key, which
// the agent answers from its own record.
//
// # Steps
//
// Steps run one after the other, in the order of the template. Each kind of step
// is a stepKind; kindOf is the only place that knows them all.
//
// An agent step acts on the pods of the target one at a time, those that do not
// take writes first, and by component, set and ordinal otherwise. The order and
// the UIDs are recorded when the step begins. A pod is done when its report
// shows our call as succeeded and the middleware as healthy.
//
// A pod that was replaced since the step began (another UID under its name)
// counts as done as soon as the new one is healthy: its process was started
// with the present plan after the step began, which is what Restart and Reload
// are for, and calling it too would interrupt clients once more. A pod that is no
// longer wanted, because its set was scaled in, counts as done.
package opsflow
