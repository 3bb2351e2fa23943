// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// InferenceCanary is a version that gets a part of the requests.
// +kubebuilder:validation:XValidation:rule="has(self.weight) != has(self.steps)",message="set exactly one of weight and steps"
// +kubebuilder:validation:XValidation:rule="!has(self.gate) || has(self.steps)",fieldPath=".gate",message="gate is for steps: set steps, or take gate out"
// +kubebuilder:validation:XValidation:rule="!has(self.steps) || has(self.modelRef.version)",fieldPath=".modelRef",message="steps measure one version, and a stage can get another one meanwhile: set version"
type InferenceCanary struct {
	// modelRef names the Model, and the version or stage of it that the canary serves. Clients call it by the same name
	// as the other one.
	// +required
	ModelRef InferenceModelReference `json:"modelRef"`
	// weight is the part of the requests that the canary gets, in percent, 0 to 100. With httpRoute the Gateway splits
	// requests, and the canary has pods beside the replicas: none of the requests until one of them is ready. Without it
	// the canary has as many of the replicas, since the Service leads to each as often: a weight that the replicas cannot
	// have within 3 points is refused, and so is 100.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	Weight *int32 `json:"weight,omitempty"`
	// steps are weights that the canary has one after the other. A canary that is bad at one of them gets no more
	// requests, and has no pods, until canary is edited. After the last one it stays at that weight: move modelRef then.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=20
	Steps []InferenceCanaryStep `json:"steps,omitempty"`
	// gate says when a canary with steps is bad. Without it one is bad that does not become ready in 10m, or has no ready
	// pod for 20s.
	// +optional
	Gate *InferenceCanaryGate `json:"gate,omitempty"`
}

// InferenceCanaryStep is a weight that a canary has for a while.
type InferenceCanaryStep struct {
	// weight is the part of the requests, in percent, 1 to 100, with the rules of canary.weight.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	Weight int32 `json:"weight"`
	// pause is how long the canary is measured at this weight before the next step, from 0s to 168h. It begins once the
	// weight is in force and all pods of the canary are ready; with another bound of the gate than startTimeout it is 15s
	// at least.
	// +required
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s') && duration(self) <= duration('168h')",message="pause must be from 0s to 168h"
	Pause metav1.Duration `json:"pause"`
}

// InferenceCanaryGate says when a canary is bad.
type InferenceCanaryGate struct {
	// startTimeout is how long it may take at each step until the weight is in force and all pods of the canary are ready,
	// from 10s to 24h. Default 10m.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('10s') && duration(self) <= duration('24h')",message="startTimeout must be from 10s to 24h"
	StartTimeout *metav1.Duration `json:"startTimeout,omitempty"`
	// maxErrorRate is how many requests may fail, in percent, 0 to 99. What counts is the last minute. They are all
	// requests, by the counters of the pods that the plugin of the runtime names, and a step goes on only once there was
	// one. A runtime without these, such as llama-cpp, has a test request: the operator makes it at each pod of the canary
	// every 5s, and it has to be answered within 10s. With neither the bound is refused.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=99
	MaxErrorRate *int32 `json:"maxErrorRate,omitempty"`
	// maxTimePerToken is how long the pods of the canary may take for a token that they generate, on average over all
	// requests of the last minute, by the counters that the plugin of the runtime names: from 1us to 1m. A step goes on
	// only once there was a token. Refused where the plugin names none.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1us') && duration(self) <= duration('1m')",message="maxTimePerToken must be from 1us to 1m"
	MaxTimePerToken *metav1.Duration `json:"maxTimePerToken,omitempty"`
	// maxTimePerRequest is how long the pods of the canary may take for a request of a client, on average over those of
	// the last minute, by the counters that the plugin of the runtime names: from 1us to 1h. A step goes on only once
	// there was one. Refused where the plugin names none.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1us') && duration(self) <= duration('1h')",message="maxTimePerRequest must be from 1us to 1h"
	MaxTimePerRequest *metav1.Duration `json:"maxTimePerRequest,omitempty"`
}

// CanaryMechanism is what splits requests between a canary and the other pods.
// +kubebuilder:validation:Enum=HTTPRoute;Replicas
type CanaryMechanism string

// Mechanisms.
const (
	// CanaryByHTTPRoute: the Gateway, by the weights of an HTTPRoute.
	CanaryByHTTPRoute CanaryMechanism = "HTTPRoute"
	// CanaryByReplicas: the Service, which leads to each ready pod as often.
	CanaryByReplicas CanaryMechanism = "Replicas"
)

// CanaryPhase is where the steps of a canary stand.
// +kubebuilder:validation:Enum=Starting;Measuring;Complete;RolledBack;Refused
type CanaryPhase string

// Phases.
const (
	// CanaryStarting: the weight of the step is not in force yet, or not all pods are ready.
	CanaryStarting CanaryPhase = "Starting"
	// CanaryMeasuring: the pause of the step goes on.
	CanaryMeasuring CanaryPhase = "Measuring"
	// CanaryComplete: the last step is through. The canary keeps its weight.
	CanaryComplete CanaryPhase = "Complete"
	// CanaryRolledBack: the canary was bad. It gets no requests and has no pods.
	CanaryRolledBack CanaryPhase = "RolledBack"
	// CanaryRefused: the plugin of the runtime has nothing by which a bound of the gate is measured. The canary gets no
	// requests and has no pods, and the steps begin once the gate can be measured.
	CanaryRefused CanaryPhase = "Refused"
)

// Ended says whether no further step is taken.
func (p CanaryPhase) Ended() bool { return p == CanaryComplete || p == CanaryRolledBack }

// Out says whether the canary gets no requests and has no pods.
func (p CanaryPhase) Out() bool { return p == CanaryRolledBack || p == CanaryRefused }

// InferenceCanaryStatus is how a canary is.
type InferenceCanaryStatus struct {
	// model is the version that the canary is to serve.
	// +optional
	Model *InferenceModelStatus `json:"model,omitempty"`
	// mechanism that splits requests: HTTPRoute or Replicas.
	// +required
	Mechanism CanaryMechanism `json:"mechanism"`
	// weight that is in force, in percent: that of the HTTPRoute once a Gateway says that it has accepted it, or the
	// canary's part of the ready pods.
	// +required
	Weight int32 `json:"weight"`
	// replicas are the pods of the canary.
	// +required
	Replicas int32 `json:"replicas"`
	// readyReplicas are those that serve.
	// +required
	ReadyReplicas int32 `json:"readyReplicas"`
	// phase of the steps: Starting, Measuring, Complete, RolledBack or Refused; absent without steps.
	// +optional
	Phase CanaryPhase `json:"phase,omitempty"`
	// step that is taken, from 1 on; absent without steps.
	// +optional
	Step int32 `json:"step,omitempty"`
	// since is when the phase of this step began; absent without steps.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
	// message says why the canary was rolled back or refused, what the step waits for, or why the weight of an HTTPRoute
	// is not in force.
	// +optional
	Message string `json:"message,omitempty"`
}

// Annotations of pods by which the plugin of a runtime names counters of its server, for the bounds of a gate. Each is
// a list, separated by spaces, of metrics that are added: a name stands for the sum of all its series, and a name with
// labels, such as requests_total{status="500"}, for that of the series that have these.
const (
	// RequestsMetricAnnotation names the counters of requests, those that failed included.
	RequestsMetricAnnotation = "ai.zeroinfra.github.com/requests-metric"
	// FailedRequestsMetricAnnotation names the counters of requests that failed.
	FailedRequestsMetricAnnotation = "ai.zeroinfra.github.com/failed-requests-metric"
	// RequestSecondsMetricAnnotation names the counters of the seconds that requests took.
	RequestSecondsMetricAnnotation = "ai.zeroinfra.github.com/request-seconds-metric"
	// TokensMetricAnnotation names the counters of tokens that were generated.
	TokensMetricAnnotation = "ai.zeroinfra.github.com/tokens-metric"
	// TokenSecondsMetricAnnotation names the counters of the seconds that these tokens took.
	TokenSecondsMetricAnnotation = "ai.zeroinfra.github.com/token-seconds-metric"
)

// Annotations of pods by which the plugin of a runtime names the request that the operator makes at each pod of a
// canary while it is measured. Where the server does not count requests that failed, maxErrorRate goes by its answers.
const (
	// TestRequestPathAnnotation is the path of the request.
	TestRequestPathAnnotation = "ai.zeroinfra.github.com/test-request-path"
	// TestRequestBodyAnnotation is what is posted there, as JSON. Without it the request is a GET.
	TestRequestBodyAnnotation = "ai.zeroinfra.github.com/test-request-body"
)

// CanarySet is the set that the pods of a canary are.
const CanarySet = "canary"

// CanaryProgressAnnotation of an Inference has its CanaryProgress as JSON. Whoever deletes it has the steps begin anew.
const CanaryProgressAnnotation = "ai.zeroinfra.github.com/canary-progress"

// CanaryProgress is how far the steps of a canary are: a decision that is on record, and that what runs follows.
type CanaryProgress struct {
	// Of is a digest of the version and the steps that this is about.
	Of string `json:"of"`
	// Phase is where they stand.
	Phase CanaryPhase `json:"phase"`
	// Step that is taken, from 0 on.
	Step int32 `json:"step"`
	// Since is when the phase of this step began.
	Since metav1.Time `json:"since"`
	// Message says why the canary was rolled back or refused, or what the step waits for.
	Message string `json:"message,omitempty"`
	// Pods are how many pods the autoscaler of the canary has to leave, since the weight of the step asks for them; 0
	// where it decides alone.
	Pods int32 `json:"pods,omitempty"`
	// MainPods are how many pods the autoscaler of the others has to leave, since these take over from the canary; 0 where
	// it decides alone. It is on record for a while after the canary was taken out: with no Of, Since is when that was.
	MainPods int32 `json:"mainPods,omitempty"`
}

// Digest tells one version with steps from another.
func (c *InferenceCanary) Digest() string {
	data, err := json.Marshal(struct {
		ModelRef InferenceModelReference
		Steps    []InferenceCanaryStep
	}{c.ModelRef, c.Steps})
	if err != nil {
		panic(err) // It came as JSON.
	}
	return fmt.Sprintf("%x", sha256.Sum256(data))[:16]
}

// RecordedCanary returns what is on record, of whatever canary; nothing where that cannot be read.
func (i *Inference) RecordedCanary() CanaryProgress {
	var p CanaryProgress
	if json.Unmarshal([]byte(i.Annotations[CanaryProgressAnnotation]), &p) != nil {
		return CanaryProgress{}
	}
	return p
}

// CanaryProgress returns how far the steps of the canary are. What is on record of another canary, or cannot be read,
// does not count: then nothing has been decided yet, and the phase is empty.
func (i *Inference) CanaryProgress() CanaryProgress {
	canary := i.Spec.Canary
	if canary == nil || len(canary.Steps) == 0 {
		return CanaryProgress{}
	}
	none := CanaryProgress{Of: canary.Digest()}
	if p := i.RecordedCanary(); p.Of == none.Of && p.Step >= 0 && int(p.Step) < len(canary.Steps) {
		return p
	}
	return none
}

// CanaryWeight is the part of the requests that the canary is to have now, in percent; 0 without one.
func (i *Inference) CanaryWeight() int32 {
	canary := i.Spec.Canary
	switch p := i.CanaryProgress(); {
	case canary == nil, p.Phase.Out():
		return 0
	case len(canary.Steps) > 0:
		return canary.Steps[p.Step].Weight
	case canary.Weight != nil:
		return *canary.Weight
	}
	return 0
}
