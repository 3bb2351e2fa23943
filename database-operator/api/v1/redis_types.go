// SPDX-License-Identifier: Apache-2.0

package v1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// RedisSpec describes a Redis server, or a primary with its replicas.
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.replicas) || has(self.replicas)",message="replicas can be added and changed, but not taken out: a server that was told who writes does not go back to deciding it alone. Set replicas to 0 for a server alone"
// +kubebuilder:validation:XValidation:rule="!has(self.replicas) || !has(self.persistence) || !has(self.persistence.mode) || self.persistence.mode in ['AOF', 'Both']",message="replicas need persistence.mode AOF or Both: a primary that starts again without its data would empty its replicas too"
// +kubebuilder:validation:XValidation:rule="!has(self.failover) || has(self.replicas)",message="failover needs replicas: nobody takes over from a server that is alone"
// +kubebuilder:validation:XValidation:rule="has(self.sentinel) == has(oldSelf.sentinel)",message="sentinel can neither be added nor taken out: who decides which server takes writes is decided when the object is made. Create another Redis and copy the data"
// +kubebuilder:validation:XValidation:rule="!has(self.sentinel) || has(self.replicas) && self.replicas >= 1",message="sentinel needs replicas, at least 1: there is nobody else to elect"
// +kubebuilder:validation:XValidation:rule="!has(self.sentinel) || !has(self.failover)",message="failover is for replicas without sentinel: set sentinel.after in place of failover.after, and take failover out"
// +kubebuilder:validation:XValidation:rule="!has(self.durability) || has(self.replicas) && self.durability.minReplicas <= self.replicas",message="durability.minReplicas cannot be above replicas: no write would ever be taken"
// +kubebuilder:validation:XValidation:rule="!has(self.maxmemory) || !has(self.resources) || !has(self.resources.limits) || !('memory' in self.resources.limits) || quantity(string(self.maxmemory)).compareTo(quantity(string(self.resources.limits['memory']))) <= 0",message="maxmemory cannot be above resources.limits.memory: the kernel would end the process before Redis makes room"
// +kubebuilder:validation:XValidation:rule="has(self.restoreFrom) == has(oldSelf.restoreFrom) && (!has(self.restoreFrom) || self.restoreFrom == oldSelf.restoreFrom)",message="restoreFrom is for an object that is made, and immutable: make another one from the other backup"
// +kubebuilder:validation:XValidation:rule="!has(self.restoreFrom) || !has(self.adoptVolumes) || size(self.adoptVolumes) == 0",message="restoreFrom and adoptVolumes say both where the data comes from: take one of them out"
type RedisSpec struct {
	// version of Redis: a release line such as 7.0. The plugin lists those that it
	// supports: kubectl get plugins -o yaml.
	// +required
	// +kubebuilder:validation:Pattern=`^[0-9]+(\.[0-9]+){0,2}$`
	// +kubebuilder:validation:MaxLength=20
	Version string `json:"version"`
	// replicas are the servers beside the primary, up to 4: each has all of its data, read-only, and one takes over when it fails. It can be
	// changed at any time. 0 is a server alone that is told by the engine whether it writes. Left out, it is a server that asks nobody, for all
	// persistence.modes; it can get replicas later, by which its process is started again once, but not the other way round.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=4
	Replicas *int32 `json:"replicas,omitempty"`
	// failover says when a replica takes over. Default: Auto, after 1s.
	// +optional
	Failover *Failover `json:"failover,omitempty"`
	// sentinel has Redis Sentinel elect the primary, in place of the engine, for clients that ask Sentinels who it is. Needs replicas; decided
	// for good when the object is made.
	// +optional
	Sentinel *RedisSentinel `json:"sentinel,omitempty"`
	// durability says how many replicas have to be there for a write to be taken. Default: none.
	// +optional
	Durability *RedisDurability `json:"durability,omitempty"`
	// resources of the Redis container: requests and limits of cpu and memory.
	// The plugin's defaults when left out. A change resizes the pod while it runs, where the cluster can, and replaces it otherwise.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.claims)",message="resources.claims is not supported"
	Resources corev1.ResourceRequirements `json:"resources,omitzero"`
	// storage that the data is kept on. Default 1Gi of the cluster's default class.
	// +optional
	// +kubebuilder:default={size: "1Gi"}
	Storage RedisStorage `json:"storage,omitzero"`
	// auth says where the password of the user "default" comes from. When left out,
	// a password is generated; status.bindingName names the Secret that holds it.
	// +optional
	Auth *Auth `json:"auth,omitempty"`
	// users of Redis' access control list, beside "default". Each is an Entity that this object owns; taken out of the list, it is removed from
	// Redis. An object is Ready when its users are as asked.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=256
	Users []RedisUser `json:"users,omitempty"`
	// maxmemory is the most memory that Redis uses for data, for example 256Mi; between 1Mi and
	// 1Pi, and not above resources.limits.memory. It changes while Redis runs. Default: what is left of resources.limits.memory
	// after 32Mi and a quarter of the rest, or a quarter of a limit below 48Mi; no limit without resources.limits.memory.
	// +optional
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('1Mi')) >= 0 && quantity(string(self)).compareTo(quantity('1Pi')) <= 0",message="maxmemory must be between 1Mi and 1Pi"
	Maxmemory *resource.Quantity `json:"maxmemory,omitempty"`
	// maxmemoryPolicy says what Redis does at maxmemory: refuse writes (noeviction), or which keys
	// it gives up. It changes while Redis runs. Default noeviction.
	// +optional
	MaxmemoryPolicy MaxmemoryPolicy `json:"maxmemoryPolicy,omitempty"`
	// persistence says how data survives a restart. Default: an append-only file, synced every second.
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
	// +kubebuilder:validation:XValidation:rule="!('min-replicas-to-write' in self)",message="set spec.durability.minReplicas in place of the parameter min-replicas-to-write"
	// +kubebuilder:validation:XValidation:rule="!('min-replicas-max-lag' in self)",message="set spec.durability.maxLagSeconds in place of the parameter min-replicas-max-lag"
	Parameters platformv1.Parameters `json:"parameters,omitempty"`
	// service says how clients reach Redis: the Service of the primary, and by overrides that of the replicas, whose name is replica.
	// Default: of type ClusterIP.
	// +optional
	Service *platformv1.ServiceExposure `json:"service,omitempty"`
	// tls has Redis speak TLS, and nothing else, with a certificate of cert-manager. A change replaces the pod, but that of
	// issuerRef, which does not. The binding Secret has the certificate of the CA: ca.crt.
	// +optional
	TLS *platformv1.TLS `json:"tls,omitempty"`
	// scheduling says where the pods may run. Pods are spread over nodes and zones as far as that goes, also without it. A change replaces the pods.
	// +optional
	Scheduling *platformv1.Scheduling `json:"scheduling,omitempty"`
	// podDisruptionBudget limits how many pods a drained node may take at once. Default 1.
	// +optional
	PodDisruptionBudget *platformv1.PodDisruptionBudget `json:"podDisruptionBudget,omitempty"`
	// networkPolicy, when set, lets only pods of this Redis and the operator reach what is not meant for clients.
	// +optional
	NetworkPolicy *platformv1.NetworkPolicy `json:"networkPolicy,omitempty"`
	// maintenance says when a change of this spec may restart Redis or replace its pod: in the windows that it lists. A reload, more
	// storage, stop and start do not wait. At any time when left out.
	// +optional
	Maintenance *platformv1.Maintenance `json:"maintenance,omitempty"`
	// schedules run Operations on this Redis at set times. Those that restart it or replace its pod wait for a maintenance window.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Schedules []platformv1.Schedule `json:"schedules,omitempty"`
	// monitoring has Prometheus read the metrics of Redis, from an exporter beside it.
	// +optional
	Monitoring *platformv1.Monitoring `json:"monitoring,omitempty"`
	// running is false for a server that is stopped: its pod is gone, its volume, Service and Secrets are kept. Default true.
	// +optional
	// +kubebuilder:default=true
	Running *bool `json:"running,omitempty"`
	// deletionPolicy says what becomes of the volume when this object is deleted: Retain keeps it,
	// Delete deletes it with all that is on it, and Snapshot does that once there is a VolumeSnapshot of it. Default Retain.
	// +optional
	// +kubebuilder:default=Retain
	DeletionPolicy     platformv1.DeletionPolicy `json:"deletionPolicy,omitempty"`
	platformv1.Keeping `json:",inline"`
	// restoreFrom has the data begin with that of a Backup, of the same namespace and major version, which is waited for. Immutable. Passwords and users are those of this object. The Backup can be of a server alone or with replicas.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.target)",message="restoreFrom.target is a point in time, which is reached by an archived log, and Redis has none: leave it out"
	RestoreFrom *platformv1.RestoreFrom `json:"restoreFrom,omitempty"`
	// pluginVersion is the version of the plugin redis that runs this server. Immutable but through an Operation of template
	// UpgradeApp. Default 1.5.0.
	// +optional
	// +kubebuilder:default="1.5.0"
	// +kubebuilder:validation:Pattern=`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9a-z.-]+)?$`
	// +kubebuilder:validation:MaxLength=40
	PluginVersion string `json:"pluginVersion,omitempty"`
}

// RedisSentinel are the Sentinels of a Redis. Most of them have to agree for another primary to be elected.
type RedisSentinel struct {
	// replicas are the Sentinels: 3, which can lose one, or 5, which can lose two. Default 3.
	// +optional
	// +kubebuilder:default=3
	// +kubebuilder:validation:Enum=3;5
	Replicas int32 `json:"replicas,omitempty"`
	// after is how long the primary may not answer before another one is elected, between 5s and 10m: what Sentinels know of replicas is as old
	// as that. Default 5s.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('5s') && duration(self) <= duration('10m')",message="sentinel.after must be between 5s and 10m"
	After *metav1.Duration `json:"after,omitempty"`
}

// RedisDurability says which writes Redis takes. Replication is asynchronous all the same: a write is acknowledged before a replica has it, and a
// client that has to know waits for that with WAIT.
type RedisDurability struct {
	// minReplicas that have to follow the primary, and have been heard of within maxLagSeconds; while there are fewer, writes are refused.
	// At most replicas. So a primary that is cut off from its replicas takes writes no longer than that.
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

// RedisStorage is the volume of a Redis server.
// +kubebuilder:validation:XValidation:rule="has(self.storageClassName) == has(oldSelf.storageClassName) && (!has(self.storageClassName) || self.storageClassName == oldSelf.storageClassName)",message="storage.storageClassName is immutable"
type RedisStorage struct {
	// size of the volume. It can grow, where its class allows that; never shrink, but that a size
	// which the class could not give can be taken back. Default 1Gi.
	// +optional
	// +kubebuilder:default="1Gi"
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('0')) > 0",message="storage.size must be greater than 0"
	Size resource.Quantity `json:"size,omitzero"`
	// storageClassName of the volume; the cluster's default class when left out. Immutable.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	StorageClassName *string `json:"storageClassName,omitempty"`
}

// RedisUser is a user of the access control list. What is not said is not allowed. What belongs to the engine, such as ACL, CONFIG and REPLICAOF, is
// kept from every user, whatever commands says.
type RedisUser struct {
	// name that it logs in with. "default" and "sentinel" are the instance's own.
	// +required
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9][A-Za-z0-9._@-]{0,62}$`
	// +kubebuilder:validation:XValidation:rule="self != 'default'",message="the user default is the instance's own: its password is auth.passwordFrom"
	// +kubebuilder:validation:XValidation:rule="self != 'sentinel'",message="the user sentinel is the instance's own: name another one"
	Name string `json:"name"`
	// passwordFrom names a Secret in the same namespace and the key that holds the password. Redis follows a change of it.
	// +required
	PasswordFrom platformv1.SecretKeyReference `json:"passwordFrom"`
	// enabled is false for a user that cannot log in; its connections stay. Default true.
	// +optional
	// +kubebuilder:default=true
	Enabled *bool `json:"enabled,omitempty"`
	// keys that it may read and write: patterns as in ACL SETUSER with blanks between them, such as "~app:* %R~shared:*". None when left out.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	// +kubebuilder:validation:Pattern=`^((~|%(R|W|RW)~)[^ "'\\]+( (~|%(R|W|RW)~)[^ "'\\]+)*)?$`
	Keys string `json:"keys,omitempty"`
	// channels that it may subscribe to and publish on, such as "&news.* &chat". None when left out.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	// +kubebuilder:validation:Pattern=`^(&[^ "'\\]+( &[^ "'\\]+)*)?$`
	Channels string `json:"channels,omitempty"`
	// commands and categories in order, of which later ones count, such as "+@read +@write -keys". None when left out.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	// +kubebuilder:validation:Pattern=`^([+-]@?[a-z0-9][a-z0-9_|-]*( [+-]@?[a-z0-9][a-z0-9_|-]*)*)?$`
	Commands string `json:"commands,omitempty"`
	// adopt takes over a user of this name that somebody made by hand; it becomes what is said here. Without it, such a user is left alone and
	// the object is stalled.
	// +optional
	Adopt bool `json:"adopt,omitempty"`
}

// MaxmemoryPolicy is what Redis does when maxmemory is reached, by its name in redis.conf.
// +kubebuilder:validation:Enum=noeviction;allkeys-lru;allkeys-lfu;allkeys-random;volatile-lru;volatile-lfu;volatile-random;volatile-ttl
type MaxmemoryPolicy string

// RedisPersistence says how data survives a restart.
// +kubebuilder:validation:XValidation:rule="self.mode == oldSelf.mode || (self.mode in ['AOF', 'Both'] && oldSelf.mode in ['AOF', 'Both'])",message="persistence.mode can change between AOF and Both only: after any other change Redis would start with no data or old data"
// +kubebuilder:validation:XValidation:rule="!has(self.appendFsync) || self.mode in ['AOF', 'Both']",message="persistence.appendFsync needs persistence.mode AOF or Both"
// +kubebuilder:validation:XValidation:rule="!has(self.saveRules) || self.mode in ['RDB', 'Both']",message="persistence.saveRules needs persistence.mode RDB or Both"
type RedisPersistence struct {
	// mode: AOF appends every write to a file, RDB saves snapshots, Both does both, None keeps
	// data in memory only, so that a restart loses it. Default AOF. It can change between AOF and Both.
	// +optional
	// +kubebuilder:default=AOF
	Mode PersistenceMode `json:"mode,omitempty"`
	// appendFsync says when the append-only file is synced to the disk: Always before a write is
	// acknowledged (nothing acknowledged is lost), EverySec (a crash of the node may lose a second, and of Redis on a slow disk two), No (when
	// the kernel likes). Default EverySec; Always where durability is set.
	// +optional
	AppendFsync AppendFsync `json:"appendFsync,omitempty"`
	// saveRules say when a snapshot is saved: when any one of them holds. Default: after 3600 s with 1
	// change, 300 s with 100 changes, 60 s with 10000 changes.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	SaveRules []SaveRule `json:"saveRules,omitempty"`
}

// PersistenceMode is a way to keep data.
// +kubebuilder:validation:Enum=AOF;RDB;Both;None
type PersistenceMode string

// Ways to keep data.
const (
	// PersistenceAOF appends every write to a file.
	PersistenceAOF PersistenceMode = "AOF"
	// PersistenceRDB saves snapshots.
	PersistenceRDB PersistenceMode = "RDB"
	// PersistenceBoth appends every write to a file and saves snapshots.
	PersistenceBoth PersistenceMode = "Both"
	// PersistenceNone keeps data in memory only.
	PersistenceNone PersistenceMode = "None"
)

// AppendFsync says when the append-only file is synced to the disk.
// +kubebuilder:validation:Enum=Always;EverySec;No
type AppendFsync string

// Times at which the append-only file is synced.
const (
	// AppendFsyncAlways syncs before a write is acknowledged.
	AppendFsyncAlways AppendFsync = "Always"
	// AppendFsyncEverySec syncs once a second.
	AppendFsyncEverySec AppendFsync = "EverySec"
	// AppendFsyncNo leaves it to the kernel.
	AppendFsyncNo AppendFsync = "No"
)

// SaveRule has a snapshot saved once this many seconds have passed and at least this many keys changed.
type SaveRule struct {
	// seconds since the last snapshot, up to a week.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=604800
	Seconds int32 `json:"seconds"`
	// changes since the last snapshot.
	// +required
	// +kubebuilder:validation:Minimum=1
	Changes int32 `json:"changes"`
}

// RedisStatus is what is known of a Redis server.
type RedisStatus struct {
	// observedGeneration is the generation of the spec that this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// phase is one word for printing.
	// +optional
	Phase platformv1.Phase `json:"phase,omitempty"`
	// conditions: Ready, Reconciling, Stalled and Accepted.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// version of Redis that runs, as read back from it.
	// +optional
	Version string `json:"version,omitempty"`
	// ready counts pods as "ready/wanted".
	// +optional
	Ready string `json:"ready,omitempty"`
	// primary is the pod that takes writes.
	// +optional
	Primary string `json:"primary,omitempty"`
	// term grows at each change of the primary; absent for a server that stays alone, and where Sentinels elect.
	// +optional
	Term int64 `json:"term,omitempty"`
	// changes of the primary are the latest eight, the last one last: from whom to whom, when, and why. Absent where Sentinels elect.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	Changes []platformv1.WriterChange `json:"changes,omitempty"`
	// replicas that follow the primary, as "healthy/wanted"; absent for a server that stays alone.
	// +optional
	Replicas string `json:"replicas,omitempty"`
	// members are the pods and their roles, of those that have one.
	// +optional
	// +listType=map
	// +listMapKey=name
	Members []Member `json:"members,omitempty"`
	// durability: Asynchronous where a replica can take over without a write that was acknowledged the moment before; absent for a server
	// that stays alone, where nobody takes over.
	// +optional
	Durability platformv1.Durability `json:"durability,omitempty"`
	// lossWindowSeconds is of how many seconds the writes that were acknowledged can be lost when another pod takes over. Absent where nothing
	// bounds it, as while durability is Asynchronous.
	// +optional
	LossWindowSeconds *int64 `json:"lossWindowSeconds,omitempty"`
	// endpoint that clients use, as "host:port".
	// +optional
	Endpoint string `json:"endpoint,omitempty"`
	// sentinels that watch the primary, as "healthy/wanted"; absent without sentinel.
	// +optional
	Sentinels string `json:"sentinels,omitempty"`
	// sentinelEndpoint is where clients ask for the primary, under the name mymaster, as "host:port"; absent without sentinel.
	// +optional
	SentinelEndpoint string `json:"sentinelEndpoint,omitempty"`
	// readOnlyEndpoint leads to the replicas, as "host:port"; what is read there may be a moment old.
	// +optional
	ReadOnlyEndpoint string `json:"readOnlyEndpoint,omitempty"`
	// bindingName names the Secret with host, port, username and password, after the Service Binding specification; with replicas also
	// host-ro and uri-ro, and with sentinel sentinel-host, sentinel-port and sentinel-master-name.
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

// Redis is one Redis server with a volume of its own, or a primary with replicas, of which one takes over when it fails. A
// pod is restarted when it fails, and finds its data again.
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
// +kubebuilder:validation:XValidation:rule="!has(self.spec.storage) || !has(oldSelf.spec.storage) || !has(self.spec.storage.size) || !has(oldSelf.spec.storage.size) || quantity(string(self.spec.storage.size)).compareTo(quantity(string(oldSelf.spec.storage.size))) >= 0 || (has(self.status) && has(self.status.conditions) && self.status.conditions.exists(c, c.type == 'Ready' && c.reason != 'Ready'))",message="storage.size cannot shrink: a volume can only grow"
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
	Status RedisStatus `json:"status,omitzero"`
}

// RedisList is a list of Redis servers.
// +kubebuilder:object:root=true
type RedisList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Redis `json:"items"`
}

// GetConditions implements platformv1.Conditioned.
func (r *Redis) GetConditions() []metav1.Condition { return r.Status.Conditions }

// SetConditions implements platformv1.Conditioned.
func (r *Redis) SetConditions(c []metav1.Condition) { r.Status.Conditions = c }

// SetObservedGeneration implements platformv1.Conditioned.
func (r *Redis) SetObservedGeneration(g int64) { r.Status.ObservedGeneration = g }

// SetPhase implements typed.Object.
func (r *Redis) SetPhase(phase platformv1.Phase) { r.Status.Phase = phase }
