// SPDX-License-Identifier: Apache-2.0

package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// RedisClusterSpec describes a Redis Cluster: shards, each with a primary and its replicas, that share the keys by
// their slots. storage is 1Gi for each server by default. tls can change only while running is false. restoreFrom
// takes a Backup of a RedisCluster with as many shards, which can be changed when the condition Restored is True.
// +kubebuilder:validation:XValidation:rule="!has(self.persistence) || !has(self.persistence.mode) || self.persistence.mode in ['AOF', 'Both']",message="persistence.mode must be AOF or Both: a primary that starts again without its data would empty its replicas too"
// +kubebuilder:validation:XValidation:rule="has(self.version)",fieldPath=".version",message="version is required: a release line of Redis such as 7.0"
type RedisClusterSpec struct {
	platformv1.InstanceSpec `json:",inline"`
	RedisServers            `json:",inline"`
	// shards, 3 to 64, that the slots are spread over. It can be changed at any time: new shards get their share of the
	// slots with the keys in them, and shards that go give all of theirs away first, with the last ones going first.
	// Setting the number back turns that round. Default 3.
	// +optional
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=3
	// +kubebuilder:validation:Maximum=64
	Shards int32 `json:"shards,omitempty"`
	// replicasPerShard are the servers beside the primary of each shard, up to 4: each has all of its data, and one takes
	// over when it fails. It can be changed at any time. With 0 the slots of a shard whose server fails are not served
	// until it is back. Default 1.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=4
	ReplicasPerShard *int32 `json:"replicasPerShard,omitempty"`
	// pluginVersion is the version of the plugin redis that runs this instance. Immutable but through an Operation of
	// template UpgradeApp. Default 1.0.0.
	// +optional
	// +kubebuilder:default="1.0.0"
	PluginVersion platformv1.PluginVersion `json:"pluginVersion,omitempty"`
}

// RedisClusterStatus is what is known of a Redis Cluster. It is Ready when all shards are there, own all slots, and
// have their replicas in sync.
type RedisClusterStatus struct {
	platformv1.InstanceStatus `json:",inline"`
	// shards that have a primary which answers, as "served/wanted".
	// +optional
	Shards string `json:"shards,omitempty"`
	// roles counts the pods by what they do, as "3 primaries, 3 replicas", of those that have a role.
	// +optional
	Roles string `json:"roles,omitempty"`
	// durability: Asynchronous, since a replica can take over without a write that was acknowledged the moment before.
	// Nothing bounds how far it is behind, so that there is no lossWindowSeconds. Absent where shards have no replicas.
	// +optional
	Durability platformv1.Durability `json:"durability,omitempty"`
}

// RedisCluster is a Redis Cluster: its keys are spread over shards, and in each a replica takes over when the primary
// fails.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=redisclusters,singular=rediscluster,categories=zeroinfra
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.version`
// +kubebuilder:printcolumn:name="Shards",type=string,JSONPath=`.status.shards`
// +kubebuilder:printcolumn:name="Roles",type=string,JSONPath=`.status.roles`
// +kubebuilder:printcolumn:name="Pods",type=string,JSONPath=`.status.ready`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Endpoint",type=string,JSONPath=`.status.endpoint`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="quantity(has(self.spec.storage) && has(self.spec.storage.size) ? string(self.spec.storage.size) : '1Gi').compareTo(quantity(has(oldSelf.spec.storage) && has(oldSelf.spec.storage.size) ? string(oldSelf.spec.storage.size) : '1Gi')) >= 0 || (has(self.status) && has(self.status.conditions) && self.status.conditions.exists(c, c.type == 'Ready' && c.reason != 'Ready'))",message="storage.size cannot shrink: a volume can only grow"
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 25",message="the name of a RedisCluster has at most 25 characters"
// +kubebuilder:validation:XValidation:rule="!self.metadata.name.contains('.')",message="the name of a RedisCluster cannot hold a dot: it becomes part of the name of a Service"
type RedisCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what you want.
	// +required
	Spec RedisClusterSpec `json:"spec"`
	// status is what there is; the operator writes it.
	// +optional
	// +kubebuilder:default:={"observedGeneration":-1}
	Status RedisClusterStatus `json:"status,omitzero"`
}

// RedisClusterList is a list of Redis Clusters.
// +kubebuilder:object:root=true
type RedisClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []RedisCluster `json:"items"`
}
