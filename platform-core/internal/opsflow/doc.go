// SPDX-License-Identifier: Apache-2.0

// Package opsflow plans Operations. It is pure: from the recorded Operation and the observed facts it derives the next
// status and at most one effect, without a client.
//
// # Order of effects
//
// The status of a Decision is written before its effect is executed. Each started effect is therefore recorded, and
// after a crash the same status and facts give the same effect with the same key. Each effect is idempotent: agents
// answer a repeated key from their record, children have deterministic names, and edits and objects are declarative.
//
// # Steps
//
// Steps form a directed acyclic graph: a step starts when the steps that it needs have ended, and independent steps run
// in parallel. They are recorded in topological order, and each reconcile visits them once in that order. Each kind of
// step is a stepKind; kindOf is the only function that knows all kinds.
//
// A failed step is retried as its template or the Operation says, with a new key. Then it ends the run, or the run
// continues without it. A run that ends early, because of a failed step, a timeout or a cancellation, executes only the
// steps that compensate what was started, one after the other.
//
// An agent step acts on the pods of the target one at a time: replicas first, then the primary, and by component, set
// and ordinal otherwise. The order and the UIDs are recorded when the step starts. A pod is done when its report has
// the call as succeeded and the middleware as healthy.
//
// A pod that was replaced since the step started (a new UID with the same name) is done when the new pod is healthy:
// its process was started with the current plan, which is the purpose of Restart and Reload, and another call would
// interrupt clients again. A pod that is not wanted any more, because its set was scaled in, is done as well.
package opsflow
