// SPDX-License-Identifier: Apache-2.0

// Package canary is the controller of the steps of canaries of Inferences.
//
// Duty: it decides which step of spec.canary is taken, and when a canary is rolled back. Inputs: Inferences with their
// status, the pods of their canaries, answers and metrics of these, the clock. Which metrics count requests and tokens,
// and which request is made, the plugin of a runtime says in annotations of its pods: a gate that it has nothing for is
// refused as soon as there is a WorkloadSet, whose template has them. What it decides is on record as the annotation
// aiv1.CanaryProgressAnnotation of the Inference, and nothing else is written: the kind Inference compiles to what that
// says, and tells of it in the status. Field owner: canary. To decide is a pure function.
//
// # When it measures
//
// Pods are asked only while a step is measured whose gate has a bound for what they answer, every interval.
// Measurements are of the last minute, and are kept in memory: a controller that begins anew measures anew, and the
// pause goes on.
//
// Where an Inference has an API key, the pods are shown it as clients show it: it is read from the Secret that the spec
// names, and is kept nowhere else. Whoever may name a Secret in an Inference has the pods mount it anyway.
//
// # How many pods
//
// Where autoscalers decide how many pods there are, the record says how many they have to leave: those that the weight
// of a step asks for, before it is raised, and those that take over from the canary. That is decided once for a step,
// since it follows from the pods that there are. The pods stay for settleTime after requests were given to them.
//
// # What may be lost
//
// The record is written where nobody has changed the Inference since it was read. Without the record, as after kubectl
// replace, the steps begin anew.
package canary

// +kubebuilder:rbac:groups=ai.zeroinfra.github.com,resources=inferences,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get
// +kubebuilder:rbac:groups=platform.zeroinfra.github.com,resources=workloadsets,verbs=get;list;watch
