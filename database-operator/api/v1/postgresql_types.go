// SPDX-License-Identifier: Apache-2.0

package v1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// PostgreSQLSpec describes a PostgreSQL server, or a primary with its replicas.
// +kubebuilder:validation:XValidation:rule="!has(self.hba) || has(self.tls) && self.tls.enabled || self.hba.all(r, r.type != 'hostssl')",message="a rule of hba with type hostssl needs tls.enabled: without TLS it would never match"
// +kubebuilder:validation:XValidation:rule="!has(self.hba) || !has(self.tls) || !self.tls.enabled || self.hba.all(r, r.type != 'hostnossl')",message="with tls.enabled nobody is let in without TLS, and a rule of hba with type hostnossl would never match: take it out"
// +kubebuilder:validation:XValidation:rule="!has(self.synchronous) || !has(self.synchronous.replicas) || self.synchronous.replicas <= (has(self.replicas) ? self.replicas : 0)",message="synchronous.replicas cannot be above replicas: nobody would be there to have the copies. Raise replicas, or lower synchronous.replicas"
// +kubebuilder:validation:XValidation:rule="has(self.restoreFrom) == has(oldSelf.restoreFrom) && (!has(self.restoreFrom) || self.restoreFrom == oldSelf.restoreFrom)",message="restoreFrom is for an object that is made, and immutable: make another one from the other backup"
// +kubebuilder:validation:XValidation:rule="!has(self.restoreFrom) || !has(self.adoptVolumes) || size(self.adoptVolumes) == 0",message="restoreFrom and adoptVolumes say both where the data comes from: take one of them out"
type PostgreSQLSpec struct {
	// version of PostgreSQL: 15, 17 or 18, of which the plugin has the latest minor release. It changes by an Operation UpgradePaaS, which upgrades the
	// data, and by RollBackUpgrade: a server cannot read the data of another major version. By hand it cannot change while running is true.
	// +required
	// +kubebuilder:validation:Pattern=`^[1-9][0-9]$`
	// +kubebuilder:validation:MaxLength=2
	Version string `json:"version"`
	// replicas are the servers beside the primary, up to 4: each has all of its data, read-only, and one takes over when it fails. It can be
	// changed at any time, also from 0 and to 0. Default 0: a server alone.
	// +optional
	// +kubebuilder:default=0
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=4
	Replicas int32 `json:"replicas,omitempty"`
	// synchronous says how many replicas have a write before a client is told of it. Default: any one of them with 2 replicas or more, else
	// none.
	// +optional
	Synchronous *PostgreSQLSynchronous `json:"synchronous,omitempty"`
	// failover says when a replica takes over. Default: Auto, after 2s.
	// +optional
	Failover *Failover `json:"failover,omitempty"`
	// resources of the PostgreSQL container of each pod: requests and limits of cpu and memory. With a limit of memory above 512Mi,
	// shared_buffers is a quarter of it and effective_cache_size half of it, unless parameters say otherwise. The plugin's defaults when left out.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.claims)",message="resources.claims is not supported"
	Resources corev1.ResourceRequirements `json:"resources,omitzero"`
	// storage of each pod. Default 5Gi of the cluster's default class.
	// +optional
	// +kubebuilder:default={size: "5Gi"}
	Storage PostgreSQLStorage `json:"storage,omitzero"`
	// auth says where the password of the superuser "postgres" comes from. When left out, a password is generated; status.bindingName names
	// the Secret that holds it.
	// +optional
	Auth *Auth `json:"auth,omitempty"`
	// roles of PostgreSQL, users among them. Each is an Entity that this object owns; one that is taken out of the list is dropped, unless it
	// owns something. An object is Ready when its roles and databases are as asked.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=128
	Roles []PostgreSQLRole `json:"roles,omitempty"`
	// databases beside "postgres". Each is an Entity that this object owns; what becomes of one that is taken out of the list its deletionPolicy
	// says.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Databases []PostgreSQLDatabase `json:"databases,omitempty"`
	// hba are rules of pg_hba.conf: who may come from where, and how he shows who he is. The first that fits counts. Before them PostgreSQL lets in the
	// engine's own roles, postgres among them, by their passwords; whom none fits it lets in by his password. They are reloaded: sessions that there
	// are go on.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	HBA []PostgreSQLHBARule `json:"hba,omitempty"`
	// pooler has PgBouncer keep sessions with the primary for many clients, which wait while another server becomes the primary, and see no
	// error. None when left out; it can be added and taken out at any time.
	// +optional
	Pooler *PostgreSQLPooler `json:"pooler,omitempty"`
	// parameters of PostgreSQL by the names of postgresql.conf, for those that have no field here. Each is checked: an unknown name or a value
	// out of range is refused, or sets the condition Stalled, and nothing changes. Some are reloaded, others restart the process in place.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!('synchronous.replicas' in self)",message="set spec.synchronous.replicas in place of the parameter synchronous.replicas"
	// +kubebuilder:validation:XValidation:rule="!('synchronous.method' in self)",message="set spec.synchronous.method in place of the parameter synchronous.method"
	// +kubebuilder:validation:XValidation:rule="!('synchronous.shortage' in self)",message="set spec.synchronous.shortage in place of the parameter synchronous.shortage"
	// +kubebuilder:validation:XValidation:rule="!('synchronous_standby_names' in self)",message="set spec.synchronous in place of the parameter synchronous_standby_names"
	// +kubebuilder:validation:XValidation:rule="!('archive.endpoint' in self)",message="set spec.archive.endpoint in place of the parameter archive.endpoint"
	// +kubebuilder:validation:XValidation:rule="!('archive.bucket' in self)",message="set spec.archive.bucket in place of the parameter archive.bucket"
	// +kubebuilder:validation:XValidation:rule="!('archive.prefix' in self)",message="set spec.archive.prefix in place of the parameter archive.prefix"
	// +kubebuilder:validation:XValidation:rule="!('archive.region' in self)",message="set spec.archive.region in place of the parameter archive.region"
	// +kubebuilder:validation:XValidation:rule="!('archive.addressing' in self)",message="set spec.archive.addressing in place of the parameter archive.addressing"
	// +kubebuilder:validation:XValidation:rule="!('archive.accessKey' in self)",message="set spec.archive.accessKey in place of the parameter archive.accessKey"
	// +kubebuilder:validation:XValidation:rule="!('archive.timeout' in self)",message="set spec.archive.timeout in place of the parameter archive.timeout"
	// +kubebuilder:validation:XValidation:rule="!self.exists(name, name.startsWith('hba.'))",message="set spec.hba in place of parameters hba.*"
	// +kubebuilder:validation:XValidation:rule="!('ssl' in self)",message="set spec.tls.enabled in place of the parameter ssl"
	Parameters platformv1.Parameters `json:"parameters,omitempty"`
	// archive has the primary keep its write-ahead log in a BackupRepository or in a bucket, for restores to any point in time. The condition Archiving says how that goes.
	// Turning it on or off, or another volume, replaces the pods.
	// +optional
	Archive *PostgreSQLArchive `json:"archive,omitempty"`
	// service says how clients reach PostgreSQL: the Service of the primary, and by overrides that of the replicas, whose name is replica.
	// Default: of type ClusterIP.
	// +optional
	Service *platformv1.ServiceExposure `json:"service,omitempty"`
	// tls has PostgreSQL let in nobody without TLS, replicas included, with a certificate of cert-manager. It can be turned on or off only while
	// running is false: servers before and after it would not talk to each other. The binding Secret has the certificate of the CA: ca.crt.
	// +optional
	TLS *platformv1.TLS `json:"tls,omitempty"`
	// scheduling says where the pods may run. Pods are spread over nodes and zones as far as that goes, also without it. A change replaces the pods.
	// +optional
	Scheduling *platformv1.Scheduling `json:"scheduling,omitempty"`
	// podDisruptionBudget limits how many pods a drained node may take at once. Default 1.
	// +optional
	PodDisruptionBudget *platformv1.PodDisruptionBudget `json:"podDisruptionBudget,omitempty"`
	// networkPolicy, when set, lets only pods of this PostgreSQL and the operator reach what is not meant for clients.
	// +optional
	NetworkPolicy *platformv1.NetworkPolicy `json:"networkPolicy,omitempty"`
	// maintenance says when a change of this spec may restart PostgreSQL or replace its pods: in the windows that it lists. A reload, more
	// storage, other numbers of replicas, stop and start do not wait. At any time when left out.
	// +optional
	Maintenance *platformv1.Maintenance `json:"maintenance,omitempty"`
	// schedules run Operations on this PostgreSQL at set times. Those that restart it or replace its pods wait for a maintenance window.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Schedules []platformv1.Schedule `json:"schedules,omitempty"`
	// monitoring has Prometheus read the metrics of PostgreSQL, from an agent beside each server.
	// +optional
	Monitoring *platformv1.Monitoring `json:"monitoring,omitempty"`
	// running is false for an instance that is stopped: its pods are gone, its volumes, Services and Secrets are kept. Default true.
	// +optional
	// +kubebuilder:default=true
	Running *bool `json:"running,omitempty"`
	// suspend has the engine do nothing at all with this instance, healing and failover included, until it is false again.
	// +optional
	Suspend bool `json:"suspend,omitempty"`
	// deletionPolicy says what becomes of volumes when this object is deleted or a replica goes: Retain keeps them, Delete deletes them with
	// all that is on them, and Snapshot does that once there is a VolumeSnapshot of each. Default Retain.
	// +optional
	// +kubebuilder:default=Retain
	DeletionPolicy     platformv1.DeletionPolicy `json:"deletionPolicy,omitempty"`
	platformv1.Keeping `json:",inline"`
	// restoreFrom has the data begin with that of a Backup, of the same namespace and major version, which is waited for. Immutable. The password of the superuser and those of roles with passwordFrom are those of this object; roles and databases that the Backup has and this object lists are taken over as with adopt.
	// With target it goes on from there to a point in time, by the archive of the PostgreSQL that was backed up: its parameters archive.endpoint, archive.bucket, archive.prefix (default <namespace>/<Application> of the Backup), archive.region, archive.addressing and archive.accessKey, and its credentials archive, the secret key, and archive-ca; or by target.repositoryRef, the BackupRepository of that archive. This object's own archive can be in the same place: its log goes into a folder of its own there.
	// +optional
	RestoreFrom *platformv1.RestoreFrom `json:"restoreFrom,omitempty"`
	// pluginVersion is the version of the plugin postgresql that runs this instance. Immutable but through an Operation of template
	// UpgradeApp. Default 1.5.0.
	// +optional
	// +kubebuilder:default="1.5.0"
	// +kubebuilder:validation:Pattern=`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9a-z.-]+)?$`
	// +kubebuilder:validation:MaxLength=40
	PluginVersion string `json:"pluginVersion,omitempty"`
}

// PostgreSQLSynchronous says how many replicas have a write before a client is told of it. A failover never loses one that so many have.
type PostgreSQLSynchronous struct {
	// replicas that have each write on disk, at most as many as there are; 0 for none, so that the last moment's writes can be lost with
	// the primary. Default 1 with 2 replicas or more, else 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=4
	Replicas *int32 `json:"replicas,omitempty"`
	// method: Any of the replicas have it, or the First in the order of their names that are there. A change restarts the processes. Default
	// Any.
	// +optional
	// +kubebuilder:default=Any
	Method SynchronousMethod `json:"method,omitempty"`
	// shortage says what becomes of writes while fewer replicas are left than synchronous.replicas: they Wait, or Continue with fewer copies
	// once a replica has been away for 30s. Default Wait.
	// +optional
	// +kubebuilder:default=Wait
	Shortage platformv1.CopiesShortage `json:"shortage,omitempty"`
}

// SynchronousMethod says which replicas are waited for.
// +kubebuilder:validation:Enum=Any;First
type SynchronousMethod string

// Methods of waiting.
const (
	// SynchronousAny waits for as many replicas, whichever they are.
	SynchronousAny SynchronousMethod = "Any"
	// SynchronousFirst waits for the first ones by name that are there.
	SynchronousFirst SynchronousMethod = "First"
)

// PostgreSQLStorage is the volume of each server.
// +kubebuilder:validation:XValidation:rule="has(self.storageClassName) == has(oldSelf.storageClassName) && (!has(self.storageClassName) || self.storageClassName == oldSelf.storageClassName)",message="storage.storageClassName is immutable"
type PostgreSQLStorage struct {
	// size of the volume. It can grow, where its class allows that; never shrink, but that a size
	// which the class could not give can be taken back. Default 5Gi.
	// +optional
	// +kubebuilder:default="5Gi"
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('0')) > 0",message="storage.size must be greater than 0"
	Size resource.Quantity `json:"size,omitzero"`
	// storageClassName of the volume; the cluster's default class when left out. Immutable.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	StorageClassName *string `json:"storageClassName,omitempty"`
}

// PostgreSQLStatus is what is known of a PostgreSQL.
type PostgreSQLStatus struct {
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
	// version of PostgreSQL that runs, as read back from it; empty while there are several.
	// +optional
	Version string `json:"version,omitempty"`
	// ready counts pods as "ready/wanted".
	// +optional
	Ready string `json:"ready,omitempty"`
	// primary is the pod that takes writes.
	// +optional
	Primary string `json:"primary,omitempty"`
	// term grows at each change of the primary.
	// +optional
	Term int64 `json:"term,omitempty"`
	// changes of the primary are the latest eight, the last one last: from whom to whom, when, and why.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	Changes []platformv1.WriterChange `json:"changes,omitempty"`
	// replicas that follow the primary, as "healthy/wanted".
	// +optional
	Replicas string `json:"replicas,omitempty"`
	// members are the pods and their roles, of those that have one: primary, replica, or joining for one that has yet to follow.
	// +optional
	// +listType=map
	// +listMapKey=name
	Members []Member `json:"members,omitempty"`
	// durability: Synchronous while a replica has each write before a client is told of it, else Asynchronous.
	// +optional
	Durability platformv1.Durability `json:"durability,omitempty"`
	// lossWindowSeconds is of how many seconds the writes that were acknowledged can be lost when another pod takes over: 0 while durability is
	// Synchronous. Absent where nothing bounds it.
	// +optional
	LossWindowSeconds *int64 `json:"lossWindowSeconds,omitempty"`
	// endpoint that clients use, as "host:port". It leads to the primary.
	// +optional
	Endpoint string `json:"endpoint,omitempty"`
	// readOnlyEndpoint leads to the replicas, as "host:port"; what is read there may be a moment old.
	// +optional
	ReadOnlyEndpoint string `json:"readOnlyEndpoint,omitempty"`
	// poolers that answer, as "healthy/wanted"; absent without pooler.
	// +optional
	Poolers string `json:"poolers,omitempty"`
	// poolerEndpoint leads to the pooler, as "host:port"; absent without pooler.
	// +optional
	PoolerEndpoint string `json:"poolerEndpoint,omitempty"`
	// bindingName names the Secret with host, port, username, password and uri of the superuser, after the Service Binding specification,
	// with host-ro and uri-ro for the replicas, and with pooler also pooler-host and pooler-port.
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

// PostgreSQL is one PostgreSQL server, or a primary with replicas, of which one takes over when it fails. A process that fails is started again
// in its pod, and a pod that is lost finds its data again.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=postgresqls,singular=postgresql,shortName=pg,categories=zeroinfra
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.version`
// +kubebuilder:printcolumn:name="Pods",type=string,JSONPath=`.status.ready`
// +kubebuilder:printcolumn:name="Primary",type=string,JSONPath=`.status.primary`
// +kubebuilder:printcolumn:name="Replicas",type=string,JSONPath=`.status.replicas`
// +kubebuilder:printcolumn:name="Durability",type=string,JSONPath=`.status.durability`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Endpoint",type=string,JSONPath=`.status.endpoint`
// +kubebuilder:printcolumn:name="Poolers",type=string,JSONPath=`.status.poolers`,priority=1
// +kubebuilder:printcolumn:name="Read-Only",type=string,JSONPath=`.status.readOnlyEndpoint`,priority=1
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.spec.version == oldSelf.spec.version || has(self.spec.running) && !self.spec.running && has(oldSelf.spec.running) && !oldSelf.spec.running || has(self.status) && has(self.status.conditions) && self.status.conditions.exists(c, c.type == 'Stalled' && c.reason == 'VersionNotSupported')",message="version cannot change by hand: a server cannot read the data of another major version. Create an Operation of template UpgradePaaS, which upgrades the data"
// +kubebuilder:validation:XValidation:rule="!has(self.spec.storage) || !has(oldSelf.spec.storage) || !has(self.spec.storage.size) || !has(oldSelf.spec.storage.size) || quantity(string(self.spec.storage.size)).compareTo(quantity(string(oldSelf.spec.storage.size))) >= 0 || (has(self.status) && has(self.status.conditions) && self.status.conditions.exists(c, c.type == 'Ready' && c.reason != 'Ready'))",message="storage.size cannot shrink: a volume can only grow"
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 27",message="the name of a PostgreSQL has at most 27 characters"
// +kubebuilder:validation:XValidation:rule="!self.metadata.name.contains('.')",message="the name of a PostgreSQL cannot hold a dot: it becomes part of the name of a Service"
type PostgreSQL struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what you want.
	// +required
	Spec PostgreSQLSpec `json:"spec"`
	// status is what there is; the operator writes it.
	// +optional
	Status PostgreSQLStatus `json:"status,omitzero"`
}

// PostgreSQLList is a list of PostgreSQLs.
// +kubebuilder:object:root=true
type PostgreSQLList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PostgreSQL `json:"items"`
}

// GetConditions implements platformv1.Conditioned.
func (p *PostgreSQL) GetConditions() []metav1.Condition { return p.Status.Conditions }

// SetConditions implements platformv1.Conditioned.
func (p *PostgreSQL) SetConditions(c []metav1.Condition) { p.Status.Conditions = c }

// SetObservedGeneration implements platformv1.Conditioned.
func (p *PostgreSQL) SetObservedGeneration(g int64) { p.Status.ObservedGeneration = g }

// SetPhase implements typed.Object.
func (p *PostgreSQL) SetPhase(phase platformv1.Phase) { p.Status.Phase = phase }
