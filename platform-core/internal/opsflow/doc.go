// SPDX-License-Identifier: Apache-2.0

// Package opsflow decides how an Operation goes on. It is pure: from the
// Operation as recorded and the facts as observed it gives the status to record
// and at most one effect to bring about, and it never talks to the API or to an agent.
//
// # Order of effects
//
// A Decision is carried out in this order: the status is written, then the effect
// is brought about. So what was begun is always on record, and after a crash the
// same status and facts give the same effect with the same key. Each effect can
// be brought about twice without harm: agents answer a key from their own record,
// children are made under names that follow from it, edits and objects say what
// is to be there at the end.
//
// # Steps
//
// Steps form a graph: each begins when all that it needs have ended, and those that do not need each other go on side
// by side. They are recorded in topological order, and each turn goes through them once in that order. Each kind of
// step is a stepKind; kindOf is the only place that knows them all.
//
// A step that fails is tried again as its template or the Operation says, under another key. Then it ends the run, or
// the run goes on without it. A run that ends early, since a step failed, its time was over or somebody cancelled it,
// takes those steps that compensate what was begun, and no others, one after the other.
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
