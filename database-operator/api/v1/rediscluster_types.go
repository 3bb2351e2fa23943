// SPDX-License-Identifier: Apache-2.0

package v1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// RedisClusterSpec describes a Redis Cluster: shards, each with a primary and its replicas, that share the keys by their slots.
// +kubebuilder:validation:XValidation:rule="!has(self.persistence) || !has(self.persistence.mode) || self.persistence.mode in ['AOF', 'Both']",message="persistence.mode must be AOF or Both: a primary that starts again without its data would empty its replicas too"
// +kubebuilder:validation:XValidation:rule="!has(self.maxmemory) || !has(self.resources) || !has(self.resources.limits) || !('memory' in self.resources.limits) || quantity(string(self.maxmemory)).compareTo(quantity(string(self.resources.limits['memory']))) <= 0",message="maxmemory cannot be above resources.limits.memory: the kernel would end the process before Redis makes room"
// +kubebuilder:validation:XValidation:rule="has(self.restoreFrom) == has(oldSelf.restoreFrom) && (!has(self.restoreFrom) || self.restoreFrom == oldSelf.restoreFrom)",message="restoreFrom is for an object that is made, and immutable: make another one from the other backup"
// +kubebuilder:validation:XValidation:rule="!has(self.restoreFrom) || !has(self.adoptVolumes) || size(self.adoptVolumes) == 0",message="restoreFrom and adoptVolumes say both where the data comes from: take one of them out"
type RedisClusterSpec struct {
	// version of Redis: a release line such as 7.0. The plugin lists those that it
	// supports: kubectl get plugins -o yaml.
	// +required
	// +kubebuilder:validation:Pattern=`^[0-9]+(\.[0-9]+){0,2}$`
	// +kubebuilder:validation:MaxLength=20
	Version string `json:"version"`
	// shards, 3 to 64, that the slots are spread over. It can be changed at any time: new shards get their share of the slots with the keys in them,
	// and shards that go give all of theirs away first, with the last ones going first. Setting the number back turns that round. Default 3.
	// +optional
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=3
	// +kubebuilder:validation:Maximum=64
	Shards int32 `json:"shards,omitempty"`
	// replicasPerShard are the servers beside the primary of each shard, up to 4: each has all of its data, and one takes over when it fails.
	// It can be changed at any time. With 0 the slots of a shard whose server fails are not served until it is back. Default 1.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=4
	ReplicasPerShard *int32 `json:"replicasPerShard,omitempty"`
	// resources of the Redis container of each pod: requests and limits of cpu and memory.
	// The plugin's defaults when left out. A change resizes the pods while they run, where the cluster can, and replaces them otherwise, one after
	// the other.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.claims)",message="resources.claims is not supported"
	Resources corev1.ResourceRequirements `json:"resources,omitzero"`
	// storage of each pod. Default 1Gi of the cluster's default class.
	// +optional
	// +kubebuilder:default={size: "1Gi"}
	Storage RedisStorage `json:"storage,omitzero"`
	// auth says where the password of the user "default" comes from. When left out,
	// a password is generated; status.bindingName names the Secret that holds it.
	// +optional
	Auth *Auth `json:"auth,omitempty"`
	// users of Redis' access control list, beside "default": each server has all of them, also one that comes later. Each is an Entity that this
	// object owns; taken out of the list, it is removed from Redis. An object is Ready when its users are as asked.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=256
	Users []RedisUser `json:"users,omitempty"`
	// maxmemory is the most memory that each server uses for data, for example 256Mi; between 1Mi and
	// 1Pi, and not above resources.limits.memory. It changes while Redis runs. Default: what is left of resources.limits.memory
	// after 32Mi and a quarter of the rest, or a quarter of a limit below 48Mi; no limit without resources.limits.memory.
	// +optional
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('1Mi')) >= 0 && quantity(string(self)).compareTo(quantity('1Pi')) <= 0",message="maxmemory must be between 1Mi and 1Pi"
	Maxmemory *resource.Quantity `json:"maxmemory,omitempty"`
	// maxmemoryPolicy says what Redis does at maxmemory: refuse writes (noeviction), or which keys
	// it gives up. It changes while Redis runs. Default noeviction.
	// +optional
	MaxmemoryPolicy MaxmemoryPolicy `json:"maxmemoryPolicy,omitempty"`
	// persistence says how data survives a restart. AOF or Both. Default: an append-only file, synced every second.
	// +optional
	// +kubebuilder:default={mode: AOF}
	Persistence RedisPersistence `json:"persistence,omitzero"`
	// parameters of Redis by the names of redis.conf, for those that have no field here.
	// Each is checked: an unknown name or a value out of range sets the condition Stalled, and nothing changes. What CONFIG SET takes changes while
	// Redis runs, also back when it is taken out; the rest restarts processes in place, those that take writes last.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!('maxmemory' in self)",message="set spec.maxmemory in place of the parameter maxmemory"
	// +kubebuilder:validation:XValidation:rule="!('maxmemory-policy' in self)",message="set spec.maxmemoryPolicy in place of the parameter maxmemory-policy"
	// +kubebuilder:validation:XValidation:rule="!('appendonly' in self)",message="set spec.persistence.mode in place of the parameter appendonly"
	// +kubebuilder:validation:XValidation:rule="!('appendfsync' in self)",message="set spec.persistence.appendFsync in place of the parameter appendfsync"
	// +kubebuilder:validation:XValidation:rule="!('save' in self)",message="set spec.persistence.saveRules in place of the parameter save"
	// +kubebuilder:validation:XValidation:rule="!('requirepass' in self)",message="set spec.auth.passwordFrom in place of the parameter requirepass"
	Parameters platformv1.Parameters `json:"parameters,omitempty"`
	// service says how clients reach the first server, which tells them of all others: those that it tells of have to be in reach, too. Default: of
	// type ClusterIP.
	// +optional
	Service *platformv1.ServiceExposure `json:"service,omitempty"`
	// tls has Redis speak TLS, and nothing else, also among the servers, with a certificate of cert-manager. It can change
	// only while running is false: servers before and after it would not talk to each other. The binding Secret has the certificate of the CA: ca.crt.
	// +optional
	TLS *platformv1.TLS `json:"tls,omitempty"`
	// scheduling says where the pods may run. The pods of a shard are spread over nodes and zones as far as that goes, also without it. A change replaces the pods.
	// +optional
	Scheduling *platformv1.Scheduling `json:"scheduling,omitempty"`
	// podDisruptionBudget limits how many pods of each shard a drained node may take at once. Default 1.
	// +optional
	PodDisruptionBudget *platformv1.PodDisruptionBudget `json:"podDisruptionBudget,omitempty"`
	// networkPolicy, when set, lets only pods of this cluster and the operator reach what is not meant for clients.
	// +optional
	NetworkPolicy *platformv1.NetworkPolicy `json:"networkPolicy,omitempty"`
	// maintenance says when a change of this spec may restart servers or replace pods: in the windows that it lists. More storage, other
	// numbers of shards and replicas, stop and start do not wait. At any time when left out.
	// +optional
	Maintenance *platformv1.Maintenance `json:"maintenance,omitempty"`
	// schedules run Operations on this cluster at set times. Those that restart servers or replace pods wait for a maintenance window.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Schedules []platformv1.Schedule `json:"schedules,omitempty"`
	// monitoring has Prometheus read the metrics of Redis, from an exporter beside each server.
	// +optional
	Monitoring *platformv1.Monitoring `json:"monitoring,omitempty"`
	// running is false for a cluster that is stopped: its pods are gone, its volumes, Service and Secrets are kept. Default true.
	// +optional
	// +kubebuilder:default=true
	Running *bool `json:"running,omitempty"`
	// deletionPolicy says what becomes of volumes when this object is deleted or a shard or replica goes: Retain keeps them,
	// Delete deletes them with all that is on them, and Snapshot does that once there is a VolumeSnapshot of each. Default Retain.
	// +optional
	// +kubebuilder:default=Retain
	DeletionPolicy     platformv1.DeletionPolicy `json:"deletionPolicy,omitempty"`
	platformv1.Keeping `json:",inline"`
	// restoreFrom has the data begin with that of a Backup of a RedisCluster, of the same namespace, major version and number of shards, which is waited for.
	// Each shard owns the slots that it had then. Immutable; shards can be changed when the condition Restored is True. Passwords and users are those of this object.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.target)",message="restoreFrom.target is a point in time, which is reached by an archived log, and Redis has none: leave it out"
	RestoreFrom *platformv1.RestoreFrom `json:"restoreFrom,omitempty"`
	// pluginVersion is the version of the plugin redis that runs this cluster. Immutable but through an Operation of template
	// UpgradeApp. Default 1.5.0.
	// +optional
	// +kubebuilder:default="1.5.0"
	// +kubebuilder:validation:Pattern=`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9a-z.-]+)?$`
	// +kubebuilder:validation:MaxLength=40
	PluginVersion string `json:"pluginVersion,omitempty"`
}

// RedisClusterStatus is what is known of a Redis Cluster.
type RedisClusterStatus struct {
	// observedGeneration is the generation of the spec that this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// phase is one word for printing.
	// +optional
	Phase platformv1.Phase `json:"phase,omitempty"`
	// conditions: Ready, Reconciling, Stalled and Accepted. Ready says that all shards are there, own all slots, and have their replicas in sync.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// version of Redis that runs, as read back from it; empty while there are several.
	// +optional
	Version string `json:"version,omitempty"`
	// ready counts pods as "ready/wanted".
	// +optional
	Ready string `json:"ready,omitempty"`
	// shards that have a primary which answers, as "served/wanted".
	// +optional
	Shards string `json:"shards,omitempty"`
	// roles counts the pods by what they do, as "3 primaries, 3 replicas", of those that have a role.
	// +optional
	Roles string `json:"roles,omitempty"`
	// members are the pods with their shards and roles, of those that have one.
	// +optional
	// +listType=map
	// +listMapKey=name
	Members []RedisClusterMember `json:"members,omitempty"`
	// durability: Asynchronous, since a replica can take over without a write that was acknowledged the moment before. Nothing bounds
	// how far it is behind, so that there is no lossWindowSeconds. Absent where shards have no replicas.
	// +optional
	Durability platformv1.Durability `json:"durability,omitempty"`
	// endpoint of any of the servers, as "host:port": clients for Redis Cluster learn the others from it.
	// +optional
	Endpoint string `json:"endpoint,omitempty"`
	// bindingName names the Secret with host, port, username and password, after the Service Binding specification.
	// +optional
	BindingName string `json:"bindingName,omitempty"`
	// application names the Application that this object compiles to.
	// +optional
	Application string `json:"application,omitempty"`
	// schedules, the one that comes next first.
	// +optional
	// +listType=map
	// +listMapKey=name
	Schedules []platformv1.ScheduleStatus `json:"schedules,omitempty"`
}

// RedisClusterMember is a pod of a Redis Cluster and what it does.
type RedisClusterMember struct {
	// name of the pod.
	Name string `json:"name"`
	// shard that it is part of.
	Shard string `json:"shard"`
	// role: primary or replica.
	Role string `json:"role"`
}

// RedisCluster is a Redis Cluster: its keys are spread over shards, and in each a replica takes over when the primary fails.
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
// +kubebuilder:validation:XValidation:rule="!has(self.spec.storage) || !has(oldSelf.spec.storage) || !has(self.spec.storage.size) || !has(oldSelf.spec.storage.size) || quantity(string(self.spec.storage.size)).compareTo(quantity(string(oldSelf.spec.storage.size))) >= 0 || (has(self.status) && has(self.status.conditions) && self.status.conditions.exists(c, c.type == 'Ready' && c.reason != 'Ready'))",message="storage.size cannot shrink: a volume can only grow"
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
	Status RedisClusterStatus `json:"status,omitzero"`
}

// RedisClusterList is a list of Redis Clusters.
// +kubebuilder:object:root=true
type RedisClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []RedisCluster `json:"items"`
}

// GetConditions implements platformv1.Conditioned.
func (r *RedisCluster) GetConditions() []metav1.Condition { return r.Status.Conditions }

// SetConditions implements platformv1.Conditioned.
func (r *RedisCluster) SetConditions(c []metav1.Condition) { r.Status.Conditions = c }

// SetObservedGeneration implements platformv1.Conditioned.
func (r *RedisCluster) SetObservedGeneration(g int64) { r.Status.ObservedGeneration = g }

// SetPhase implements typed.Object.
func (r *RedisCluster) SetPhase(phase platformv1.Phase) { r.Status.Phase = phase }
