// SPDX-License-Identifier: Apache-2.0

package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// RedisSpec describes a Redis server, or a primary with its replicas. storage is 1Gi by default. With replicas, tls
// can change only while running is false.
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.replicas) && !has(oldSelf.autoscaling) || has(self.replicas) || has(self.autoscaling)",message="replicas can be added and changed, but not taken out: a server that was told who writes does not go back to deciding it alone. Set replicas to 0 for a server alone, and to those that stay where autoscaling is taken out"
// +kubebuilder:validation:XValidation:rule="!has(self.replicas) && !has(self.autoscaling) || !has(self.persistence) || !has(self.persistence.mode) || self.persistence.mode in ['AOF', 'Both']",message="replicas need persistence.mode AOF or Both: a primary that starts again without its data would empty its replicas too"
// +kubebuilder:validation:XValidation:rule="!has(self.failover) || has(self.replicas) || has(self.autoscaling)",message="failover needs replicas: nobody takes over from a server that is alone"
// +kubebuilder:validation:XValidation:rule="has(self.sentinel) == has(oldSelf.sentinel)",message="sentinel can neither be added nor taken out: who decides which server takes writes is decided when the object is made. Create another Redis and copy the data"
// +kubebuilder:validation:XValidation:rule="!has(self.sentinel) || has(self.replicas) && self.replicas >= 1",message="sentinel needs replicas, at least 1: there is nobody else to elect"
// +kubebuilder:validation:XValidation:rule="!has(self.sentinel) || !has(self.failover)",message="failover is for replicas without sentinel: set sentinel.after in place of failover.after, and take failover out"
// +kubebuilder:validation:XValidation:rule="!has(self.durability) || has(self.replicas) && self.durability.minReplicas <= self.replicas || has(self.autoscaling) && self.durability.minReplicas <= self.autoscaling.minReplicas",message="durability.minReplicas cannot be above replicas, or autoscaling.minReplicas: no write would ever be taken"
// +kubebuilder:validation:XValidation:rule="has(self.version)",fieldPath=".version",message="version is required: a release line of Redis such as 7.0"
// +kubebuilder:validation:XValidation:rule="!has(self.parameters) || !('min-replicas-to-write' in self.parameters)",fieldPath=".parameters",message="set spec.durability.minReplicas in place of the parameter min-replicas-to-write"
// +kubebuilder:validation:XValidation:rule="!has(self.parameters) || !('min-replicas-max-lag' in self.parameters)",fieldPath=".parameters",message="set spec.durability.maxLagSeconds in place of the parameter min-replicas-max-lag"
// +kubebuilder:validation:XValidation:rule="!has(self.autoscaling) || !has(self.replicas)",message="autoscaling says how many replicas there are: take replicas out"
// +kubebuilder:validation:XValidation:rule="!has(self.autoscaling) || !has(self.autoscaling.metrics) || has(self.monitoring) && has(self.monitoring.enabled) && self.monitoring.enabled",message="autoscaling by metrics needs a Prometheus that reads the pods: set monitoring.enabled, or take autoscaling.metrics out"
type RedisSpec struct {
	platformv1.InstanceSpec `json:",inline"`
	RedisServers            `json:",inline"`
	// replicas are the servers beside the primary, up to 4: each has all of its data, read-only, and one takes over when
	// it fails. It can be changed at any time. 0 is a server alone that is told by the engine whether it writes. Left out,
	// it is a server that asks nobody, for all persistence.modes; it can get replicas later, by which its process is
	// started again once, but not the other way round.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=4
	Replicas *int32 `json:"replicas,omitempty"`
	// autoscaling has a HorizontalPodAutoscaler decide how many replicas there are, in place of replicas, by the load
	// of the primary and the replicas. Not with sentinel. When it is taken out, replicas says how many stay.
	// +optional
	Autoscaling *ReplicaAutoscaling `json:"autoscaling,omitempty"`
	// failover says when a replica takes over. Default: Auto, after 1s.
	// +optional
	Failover *Failover `json:"failover,omitempty"`
	// sentinel has Redis Sentinel elect the primary, in place of the engine, for clients that ask Sentinels who it is.
	// Needs replicas; decided for good when the object is made.
	// +optional
	Sentinel *RedisSentinel `json:"sentinel,omitempty"`
	// durability says how many replicas have to be there for a write to be taken. Default: none.
	// +optional
	Durability *RedisDurability `json:"durability,omitempty"`
	// pluginVersion is the version of the plugin redis that runs this instance. Immutable but through an Operation of
	// template UpgradeApp. Default 1.0.0.
	// +optional
	// +kubebuilder:default="1.0.0"
	PluginVersion platformv1.PluginVersion `json:"pluginVersion,omitempty"`
}

// RedisSentinel are the Sentinels of a Redis. Most of them have to agree for another primary to be elected.
type RedisSentinel struct {
	// replicas are the Sentinels: 3, which can lose one, or 5, which can lose two. Default 3.
	// +optional
	// +kubebuilder:default=3
	// +kubebuilder:validation:Enum=3;5
	Replicas int32 `json:"replicas,omitempty"`
	// after is how long the primary may not answer before another one is elected, between 5s and 10m: what Sentinels know
	// of replicas is as old as that. Default 5s.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('5s') && duration(self) <= duration('10m')",message="sentinel.after must be between 5s and 10m"
	After *metav1.Duration `json:"after,omitempty"`
}

// RedisDurability says which writes Redis takes. Replication is asynchronous all the same: a write is acknowledged
// before a replica has it, and a client that has to know waits for that with WAIT.
type RedisDurability struct {
	// minReplicas that have to follow the primary, and have been heard of within maxLagSeconds; while there are fewer,
	// writes are refused. At most replicas. So a primary that is cut off from its replicas takes writes no longer than
	// that.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4
	MinReplicas int32 `json:"minReplicas"`
	// maxLagSeconds since a replica was heard of, for it to count. Default 10.
	// +optional
	// +kubebuilder:default=10
	// +kubebuilder:validation:Minimum=2
	// +kubebuilder:validation:Maximum=3600
	MaxLagSeconds int32 `json:"maxLagSeconds,omitempty"`
}

// RedisStatus is what is known of a Redis.
type RedisStatus struct {
	platformv1.InstanceStatus `json:",inline"`
	ReplicatedStatus          `json:",inline"`
	// sentinels that watch the primary, as "healthy/wanted"; absent without sentinel.
	// +optional
	Sentinels string `json:"sentinels,omitempty"`
	// sentinelEndpoint is where clients ask for the primary, under the name mymaster, as "host:port"; absent without
	// sentinel.
	// +optional
	SentinelEndpoint string `json:"sentinelEndpoint,omitempty"`
}

// Redis is one Redis server with a volume of its own, or a primary with replicas, of which one takes over when it
// fails. A pod is restarted when it fails, and finds its data again.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=redis,singular=redis,categories=zeroinfra
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.version`
// +kubebuilder:printcolumn:name="Pods",type=string,JSONPath=`.status.ready`
// +kubebuilder:printcolumn:name="Primary",type=string,JSONPath=`.status.primary`
// +kubebuilder:printcolumn:name="Replicas",type=string,JSONPath=`.status.replicas`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Endpoint",type=string,JSONPath=`.status.endpoint`
// +kubebuilder:printcolumn:name="Sentinels",type=string,JSONPath=`.status.sentinels`,priority=1
// +kubebuilder:printcolumn:name="Read-Only",type=string,JSONPath=`.status.readOnlyEndpoint`,priority=1
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="quantity(has(self.spec.storage) && has(self.spec.storage.size) ? string(self.spec.storage.size) : '1Gi').compareTo(quantity(has(oldSelf.spec.storage) && has(oldSelf.spec.storage.size) ? string(oldSelf.spec.storage.size) : '1Gi')) >= 0 || (has(self.status) && has(self.status.conditions) && self.status.conditions.exists(c, c.type == 'Ready' && c.reason != 'Ready'))",message="storage.size cannot shrink: a volume can only grow"
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 32",message="the name of a Redis has at most 32 characters"
// +kubebuilder:validation:XValidation:rule="!self.metadata.name.contains('.')",message="the name of a Redis cannot hold a dot: it becomes part of the name of a Service"
type Redis struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what you want.
	// +required
	Spec RedisSpec `json:"spec"`
	// status is what there is; the operator writes it.
	// +optional
	// +kubebuilder:default:={"observedGeneration":-1}
	Status RedisStatus `json:"status,omitzero"`
}

// RedisList is a list of Redis servers.
// +kubebuilder:object:root=true
type RedisList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Redis `json:"items"`
}
