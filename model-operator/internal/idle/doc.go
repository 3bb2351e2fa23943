// SPDX-License-Identifier: Apache-2.0

// Package idle is the controller that takes the servers of Inferences away while no request comes.
//
// Duty: it decides whether an Inference with spec.idle has servers. Inputs: Inferences, what the pods of their doors
// report (the attribute demand), the sets of servers. What it decides is on record as the annotation
// aiv1.IdleProgressAnnotation of the Inference, and nothing else is written: the kind Inference compiles to what that
// says. Field owner: idle. To decide is a pure function.
//
// # What it goes by
//
// A door says Waiting while a request waits, Active for spec.idle.after from the last request, or from its own start,
// and Idle from then on. One that says Waiting has servers be made. They go where all doors say Idle, the Inference is
// ready and nothing of it changes. In between all stays as it is: a door that begins anew changes nothing.
//
// # What may be lost
//
// The record is written where nobody has changed the Inference since it was read. Without the record, as after kubectl
// replace, servers are made.
package idle

// +kubebuilder:rbac:groups=ai.zeroinfra.github.com,resources=inferences,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch
// +kubebuilder:rbac:groups=platform.zeroinfra.github.com,resources=workloadsets,verbs=get;list;watch
