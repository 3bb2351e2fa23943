// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// KafkaTopicSpec describes a topic of a KafkaCluster, and who may use it. What is left out is the cluster's default.
// +kubebuilder:validation:XValidation:rule="has(self.topicName) == has(oldSelf.topicName) && (!has(self.topicName) || self.topicName == oldSelf.topicName)",message="topicName is immutable: create another KafkaTopic and copy the records"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.partitions) || has(self.partitions) && self.partitions >= oldSelf.partitions",message="partitions can only grow: Kafka cannot take any away. Set the number back, or create another KafkaTopic"
// +kubebuilder:validation:XValidation:rule="!has(self.minInSyncReplicas) || !has(self.replicas) || self.minInSyncReplicas <= self.replicas",message="minInSyncReplicas cannot be above replicas: no write with acks=all would be taken"
// +kubebuilder:validation:XValidation:rule="!has(self.config) || !('min.insync.replicas' in self.config) || !has(self.replicas) || !string(self.config['min.insync.replicas']).matches('^[0-9]{1,9}$') || int(self.config['min.insync.replicas']) <= self.replicas",fieldPath=".config",message="min.insync.replicas cannot be above replicas: no write with acks=all would be taken"
// +kubebuilder:validation:XValidation:rule="!has(self.config) || !('cleanup.policy' in self.config) || !has(self.cleanupPolicy)",fieldPath=".config",message="cleanupPolicy and cleanup.policy of config say the same: take one of them out"
// +kubebuilder:validation:XValidation:rule="!has(self.config) || !('compression.type' in self.config) || !has(self.compressionType)",fieldPath=".config",message="compressionType and compression.type of config say the same: take one of them out"
// +kubebuilder:validation:XValidation:rule="!has(self.config) || !('max.message.bytes' in self.config) || !has(self.maxMessageBytes)",fieldPath=".config",message="maxMessageBytes and max.message.bytes of config say the same: take one of them out"
// +kubebuilder:validation:XValidation:rule="!has(self.config) || !('min.insync.replicas' in self.config) || !has(self.minInSyncReplicas)",fieldPath=".config",message="minInSyncReplicas and min.insync.replicas of config say the same: take one of them out"
// +kubebuilder:validation:XValidation:rule="!has(self.config) || !('retention.bytes' in self.config) || !has(self.retention) || !has(self.retention.bytes)",fieldPath=".config",message="retention.bytes and retention.bytes of config say the same: take one of them out"
// +kubebuilder:validation:XValidation:rule="!has(self.config) || !('retention.ms' in self.config) || !has(self.retention) || !has(self.retention.time)",fieldPath=".config",message="retention.time and retention.ms of config say the same: take one of them out"
// +kubebuilder:validation:XValidation:rule="!has(self.config) || !('leader.replication.throttled.replicas' in self.config) && !('follower.replication.throttled.replicas' in self.config)",fieldPath=".config",message="leader.replication.throttled.replicas and follower.replication.throttled.replicas are set while partitions are reassigned with a throttle: take them out"
type KafkaTopicSpec struct {
	// clusterRef names the KafkaCluster, in the same namespace, that has the topic. Immutable.
	// +required
	// +kubebuilder:validation:XValidation:rule="self.name == oldSelf.name",message="clusterRef is immutable: create another KafkaTopic"
	ClusterRef KafkaClusterReference `json:"clusterRef"`
	// topicName is the name of the topic in Kafka; the name of this object when left out. Immutable.
	// +optional
	// +kubebuilder:validation:Pattern=`^[a-zA-Z0-9._-]+$`
	// +kubebuilder:validation:MaxLength=249
	// +kubebuilder:validation:XValidation:rule="self != '.' && self != '..'",message="Kafka has no topic named . or .."
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('__')",message="topics that begin with __ are Kafka's own: take another name"
	TopicName string `json:"topicName,omitempty"`
	// partitions of the topic. Their number can only grow; with it, other keys go to other partitions. The cluster's
	// num.partitions when left out.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=32767
	Partitions int32 `json:"partitions,omitempty"`
	// replicas of each partition, at most as many as there are brokers. A change copies partitions, or removes copies.
	// When left out, a topic is made with the cluster's default.replication.factor, and keeps as many as it has.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=60
	Replicas int32 `json:"replicas,omitempty"`
	// retention says how long records are kept, of a topic whose cleanupPolicy has delete.
	// +optional
	Retention *KafkaRetention `json:"retention,omitempty"`
	// cleanupPolicy says what becomes of old records: delete removes them after retention, compact keeps the last one of
	// each key, and compact,delete does both.
	// +optional
	// +kubebuilder:validation:Enum=delete;compact;"compact,delete"
	CleanupPolicy string `json:"cleanupPolicy,omitempty"`
	// minInSyncReplicas have to have a record before a client with acks=all is told of it; while there are fewer, such
	// writes are refused. At most replicas.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=60
	MinInSyncReplicas int32 `json:"minInSyncReplicas,omitempty"`
	// maxMessageBytes is the size of the largest batch of records that is taken, such as 1Mi; less than 2Gi.
	// +optional
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('1')) >= 0 && quantity(string(self)).compareTo(quantity('2Gi')) < 0",message="maxMessageBytes must be 1 or more, and less than 2Gi"
	MaxMessageBytes *resource.Quantity `json:"maxMessageBytes,omitempty"`
	// compressionType of what is stored; producer keeps what the producer chose.
	// +optional
	// +kubebuilder:validation:Enum=producer;uncompressed;gzip;snappy;lz4;zstd
	CompressionType string `json:"compressionType,omitempty"`
	// config is everything else that a topic can be set, by Kafka's names. Kafka refuses what it does not know. What is
	// taken out goes back to the cluster's default.
	// +optional
	Config platformv1.Parameters `json:"config,omitempty"`
	// acls say what users may do with the topic. They are all that there are: what somebody adds by hand is removed.
	// Users that are in no list may do nothing with it, but for "admin".
	// +optional
	// +listType=map
	// +listMapKey=user
	// +kubebuilder:validation:MaxItems=64
	ACLs []KafkaACL `json:"acls,omitempty"`
	// quotas limit clients and users. Kafka has no quota of one topic: they hold for all that these do in the cluster.
	// They go when they are taken out of the list, and with this object, whatever deletionPolicy says.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self.all(q, self.exists_one(p, (has(p.user) ? p.user : '') == (has(q.user) ? q.user : '') && (has(p.clientID) ? p.clientID : '') == (has(q.clientID) ? q.clientID : '')))",message="two quotas are for the same user and clientID: take one of them out"
	Quotas []KafkaQuota `json:"quotas,omitempty"`
	// deletionPolicy says what becomes of the topic when this object is deleted: Retain leaves it as it is, Delete removes
	// it with all of its records. Default Retain.
	// +optional
	// +kubebuilder:validation:Enum=Retain;Delete
	// +kubebuilder:default=Retain
	DeletionPolicy platformv1.EntityDeletionPolicy `json:"deletionPolicy,omitempty"`
	// deleteWhileConsumed has deletionPolicy Delete remove the topic also while members of consumer groups read it.
	// Without it, the removal waits until none does. Default false.
	// +optional
	DeleteWhileConsumed bool `json:"deleteWhileConsumed,omitempty"`
	// adopt takes over a topic, and quotas, that somebody made by hand: they become what is said here. Without it, such a
	// topic is left alone and the object is stalled.
	// +optional
	Adopt bool `json:"adopt,omitempty"`
}

// KafkaClusterReference names a KafkaCluster in the same namespace.
type KafkaClusterReference struct {
	// name of the KafkaCluster.
	// +required
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`
	// +kubebuilder:validation:MaxLength=25
	Name string `json:"name"`
}

// KafkaRetention says when records go.
// +kubebuilder:validation:XValidation:rule="has(self.time) || has(self.bytes)",message="retention needs time or bytes: without them it says nothing"
type KafkaRetention struct {
	// time after which a record goes, such as 168h; 1s or more. For ever is retention.ms -1 in config.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s')",message="retention.time must be 1s or more"
	Time *metav1.Duration `json:"time,omitempty"`
	// bytes of each partition above which the oldest records go, such as 10Gi.
	// +optional
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('1')) >= 0",message="retention.bytes must be 1 or more"
	Bytes *resource.Quantity `json:"bytes,omitempty"`
}

// KafkaACL is what one user may do with a topic.
type KafkaACL struct {
	// user by its name in Kafka: one of spec.users of the KafkaCluster, or the distinguished name of a client's
	// certificate.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^[^*\x00-\x1f\x7f]+$`
	User string `json:"user"`
	// operations: Read fetches records, and lets the user use the consumer groups <user> and <user>-…; Write sends them,
	// and Describe sees the topic, which the other two include.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=3
	Operations []KafkaOperation `json:"operations"`
}

// KafkaOperation is something that a user may do with a topic.
// +kubebuilder:validation:Enum=Read;Write;Describe
type KafkaOperation string

// Values of KafkaOperation.
const (
	OperationRead     KafkaOperation = "Read"
	OperationWrite    KafkaOperation = "Write"
	OperationDescribe KafkaOperation = "Describe"
)

// KafkaQuota is a limit of a user, of a client, or of a client as a user.
// +kubebuilder:validation:XValidation:rule="has(self.user) || has(self.clientID)",message="a quota needs a user, a clientID or both"
type KafkaQuota struct {
	// user that it is for; * for each that has no quota of its own.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=100
	// +kubebuilder:validation:Pattern=`^(\*|[^*/\x00-\x1f\x7f]+)$`
	User string `json:"user,omitempty"`
	// clientID that clients give themselves (client.id); * for each that has no quota of its own.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=100
	// +kubebuilder:validation:Pattern=`^(\*|[^*/\x00-\x1f\x7f]+)$`
	ClientID   string `json:"clientID,omitempty"`
	KafkaRates `json:",inline"`
}

// KafkaTopicStatus is what is known of a topic.
type KafkaTopicStatus struct {
	// observedGeneration is the generation of the spec that this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// phase in one word, for printing: Ready, Updating, Stalled or Deleting.
	// +optional
	Phase platformv1.Phase `json:"phase,omitempty"`
	// conditions: Ready (topic and quotas are as asked, as they were read back), Reconciling and Stalled.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// topicName is the name of the topic in Kafka.
	// +optional
	TopicName string `json:"topicName,omitempty"`
	// partitions that the topic has, as read back.
	// +optional
	Partitions int32 `json:"partitions,omitempty"`
	// replicas of each partition, as read back; such as 1-3 where partitions differ.
	// +optional
	Replicas string `json:"replicas,omitempty" parameter:"replication-factor"`
	// driftRepairs is how often the topic or a quota was found changed or gone, and was put right.
	// +optional
	DriftRepairs int64 `json:"driftRepairs,omitempty"`
}

// KafkaTopic is a topic of a KafkaCluster, with the access rules and quotas of those who use it.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=kafkatopics,singular=kafkatopic,categories=zeroinfra
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.spec.clusterRef.name`
// +kubebuilder:printcolumn:name="Topic",type=string,JSONPath=`.status.topicName`
// +kubebuilder:printcolumn:name="Partitions",type=integer,JSONPath=`.status.partitions`
// +kubebuilder:printcolumn:name="Replicas",type=string,JSONPath=`.status.replicas`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Repairs",type=integer,JSONPath=`.status.driftRepairs`,priority=1
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="has(self.spec.topicName) || size(self.metadata.name) <= 249",message="the name of a topic has at most 249 characters: set topicName, or take a shorter name"
type KafkaTopic struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what you want.
	// +required
	Spec KafkaTopicSpec `json:"spec"`
	// status is what there is; the operator writes it.
	// +optional
	// +kubebuilder:default:={"observedGeneration":-1}
	Status KafkaTopicStatus `json:"status,omitzero"`
}

// KafkaTopicList is a list of topics.
// +kubebuilder:object:root=true
type KafkaTopicList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []KafkaTopic `json:"items"`
}
