// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// ComponentSet is one set of a component: pods with the same resources and configuration.
type ComponentSet struct {
	// name of the set.
	// +required
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:MaxLength=6
	Name string `json:"name"`
	// replicas is the number of pods. The component's when left out.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	Replicas *int32 `json:"replicas,omitempty"`
	// minReplicas that the autoscaler of the set leaves, at least as many as that of the component and at most
	// maxReplicas. The component's when left out; refused without autoscaling.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	MinReplicas *int32 `json:"minReplicas,omitempty"`
	// excludedOrdinals are numbers that no pod of the set has. To remove a named pod, put its ordinal here and lower
	// replicas.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=1000
	ExcludedOrdinals []int32 `json:"excludedOrdinals,omitempty"`
	// resources of the container that runs the middleware. The component's when left out.
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitzero"`
	// storageSize of each volume. The component's when left out.
	// +optional
	StorageSize *resource.Quantity `json:"storageSize,omitempty"`
	// parameters of this set, over those of the component.
	// +optional
	Parameters Parameters `json:"parameters,omitempty"`
	// scheduling of this set in place of the component's.
	// +optional
	Scheduling *Scheduling `json:"scheduling,omitempty"`
}

// Scheduling says where pods may run, in the terms of Kubernetes.
type Scheduling struct {
	// nodeSelector that nodes have to match.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	// tolerations of taints.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
	// affinity to nodes and pods. It is in force beside what the plugin's pod template and the engine, which spreads pods,
	// prefer.
	// +optional
	Affinity *corev1.Affinity `json:"affinity,omitempty"`
	// topologySpreadConstraints by key of node labels. The engine spreads the pods of a set over nodes and zones as far as
	// that goes, but for kubernetes.io/hostname or topology.kubernetes.io/zone where a constraint has that key. A
	// constraint without labelSelector is about the pods of its set.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	TopologySpreadConstraints []corev1.TopologySpreadConstraint `json:"topologySpreadConstraints,omitempty"`
	// priorityClassName of the pods.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	PriorityClassName string `json:"priorityClassName,omitempty"`
}

// PodDisruptionBudget limits voluntary disruptions of the pods of a set. Default: maxUnavailable 1, for a set of two
// pods or more.
// +kubebuilder:validation:XValidation:rule="(has(self.minAvailable) ? 1 : 0) + (has(self.maxUnavailable) ? 1 : 0) + (has(self.disabled) && self.disabled ? 1 : 0) == 1",message="set one of podDisruptionBudget.minAvailable, maxUnavailable and disabled: each says alone how many pods may go"
type PodDisruptionBudget struct {
	// minAvailable pods of each set have to stay: a number, or a percentage of the pods that the set has, rounded up.
	// +optional
	// +kubebuilder:validation:XIntOrString
	MinAvailable *intstr.IntOrString `json:"minAvailable,omitempty"`
	// maxUnavailable pods of each set may go: a number, or a percentage of the pods that the set has, rounded up.
	// +optional
	// +kubebuilder:validation:XIntOrString
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	// disabled has no PodDisruptionBudget made: a drained node takes all pods that are on it. Default false.
	// +optional
	Disabled bool `json:"disabled,omitempty"`
}

// Autoscaling has a HorizontalPodAutoscaler decide how many pods each set of a component has.
type Autoscaling struct {
	// minReplicas that a set has at least. It starts with the plugin's default, within these bounds.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	MinReplicas int32 `json:"minReplicas"`
	// maxReplicas that a set has at most.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	MaxReplicas        int32 `json:"maxReplicas"`
	AutoscalingTargets `json:",inline"`
}

// AutoscalingTargets are what a HorizontalPodAutoscaler keeps the average over the pods of a set to. A utilization or a
// metric is required; with several of them, the one that asks for most pods wins.
type AutoscalingTargets struct {
	// cpuUtilization to keep to, in percent of the CPU that the middleware's container requests. A utilization or a metric
	// is required; with several of them, the one that asks for most pods wins.
	// +optional
	// +kubebuilder:validation:Minimum=1
	CPUUtilization *int32 `json:"cpuUtilization,omitempty"`
	// memoryUtilization to keep to, in percent of the memory that the middleware's container requests.
	// +optional
	// +kubebuilder:validation:Minimum=1
	MemoryUtilization *int32 `json:"memoryUtilization,omitempty"`
	// metrics of the middleware to keep to, of those that its plugin declares. They need monitoring, and an adapter that
	// serves them in the API custom.metrics.k8s.io.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	Metrics []AutoscalingMetric `json:"metrics,omitempty"`
}

// AutoscalingMetric is a metric that each pod publishes, and what its average is kept to.
type AutoscalingMetric struct {
	// name of the metric of pods in the API custom.metrics.k8s.io.
	// +required
	// +kubebuilder:validation:Pattern=`^[a-zA-Z_:][a-zA-Z0-9_:]*$`
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// averageValue over the pods of a set to keep to, greater than 0: above it pods are added.
	// +required
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('0')) > 0",message="averageValue must be greater than 0"
	AverageValue resource.Quantity `json:"averageValue"`
}

// NetworkPolicy says who may reach an instance over the network.
type NetworkPolicy struct {
	// from lists who may reach the ports that are meant for clients. Anyone when left out.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	From []networkingv1.NetworkPolicyPeer `json:"from,omitempty"`
	// monitoringFrom lists who may reach the ports that metrics are read from, where monitoring is enabled. Anyone when
	// left out.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	MonitoringFrom []networkingv1.NetworkPolicyPeer `json:"monitoringFrom,omitempty"`
}

// OrdinalsOf returns the ordinals that the pods of a set have: the first numbers from 0 that are not excluded.
func OrdinalsOf(replicas int32, excluded []int32) []int32 {
	ordinals := make([]int32, 0, max(replicas, 0))
	for ordinal := int32(0); int32(len(ordinals)) < replicas; ordinal++ {
		if !slices.Contains(excluded, ordinal) {
			ordinals = append(ordinals, ordinal)
		}
	}
	return ordinals
}
