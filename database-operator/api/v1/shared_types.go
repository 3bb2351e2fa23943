// SPDX-License-Identifier: Apache-2.0

package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// Auth says where the password of the instance's own user comes from.
type Auth struct {
	// passwordFrom names a Secret in the same namespace and the key that holds the password.
	// +required
	PasswordFrom platformv1.SecretKeyReference `json:"passwordFrom"`
}

// Failover says when a replica takes over from the primary.
type Failover struct {
	// mode: Auto has a replica take over by itself, Manual only when a person says so. Default Auto.
	// +optional
	Mode platformv1.FailoverMode `json:"mode,omitempty"`
	// after is how long the process of the primary may be down before a replica takes over, between 1s and 10m; it is
	// started again in place meanwhile. Default 1s for a Redis, 2s for a PostgreSQL.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('10m')",message="failover.after must be between 1s and 10m"
	After *metav1.Duration `json:"after,omitempty"`
}

// ReplicatedStatus is what is known of a primary and its replicas, beside what is known of all instances.
type ReplicatedStatus struct {
	// primary is the pod that takes writes.
	// +optional
	Primary string `json:"primary,omitempty"`
	// term grows at each change of the primary; absent for a server that stays alone, and where the middleware elects.
	// +optional
	Term int64 `json:"term,omitempty"`
	// changes of the primary are the latest eight, the last one last: from whom to whom, when, and why. Absent where
	// the middleware elects.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	Changes []platformv1.PrimaryChange `json:"changes,omitempty"`
	// replicas that follow the primary, as "healthy/wanted"; absent for a server that stays alone.
	// +optional
	Replicas string `json:"replicas,omitempty"`
	// durability: Synchronous while a replica has each write before a client is told of it, else Asynchronous; absent
	// for a server that stays alone, where nobody takes over.
	// +optional
	Durability platformv1.Durability `json:"durability,omitempty"`
	// lossWindowSeconds is of how many seconds the writes that were acknowledged can be lost when another pod takes
	// over: 0 while durability is Synchronous. Absent where nothing bounds it.
	// +optional
	LossWindowSeconds *int64 `json:"lossWindowSeconds,omitempty"`
	// readOnlyEndpoint leads to the replicas, as "host:port"; what is read there may be a moment old.
	// +optional
	ReadOnlyEndpoint string `json:"readOnlyEndpoint,omitempty"`
}

// ReplicaAutoscaling has a HorizontalPodAutoscaler decide how many replicas there are beside the primary, by the
// average over all of them.
// +kubebuilder:validation:XValidation:rule="self.minReplicas <= self.maxReplicas",message="autoscaling.minReplicas cannot be above autoscaling.maxReplicas"
// +kubebuilder:validation:XValidation:rule="has(self.cpuUtilization) || has(self.memoryUtilization) || has(self.metrics)",message="autoscaling needs something to go by: set autoscaling.cpuUtilization or memoryUtilization, in percent of what resources requests, or metrics"
type ReplicaAutoscaling struct {
	// minReplicas that there are at least, beside the primary.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4
	MinReplicas int32 `json:"minReplicas"`
	// maxReplicas that there are at most, beside the primary.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4
	MaxReplicas                   int32 `json:"maxReplicas"`
	platformv1.AutoscalingTargets `json:",inline"`
}
