// SPDX-License-Identifier: Apache-2.0

package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// PostgreSQLSpec describes a PostgreSQL server, or a primary with its replicas. version is a major version, of which
// the plugin has the latest minor release; it changes by an Operation UpgradePaaS, which upgrades the data, and by
// RollBackUpgrade. storage is 5Gi by default. tls can be turned on or off only while running is false. With a limit
// of memory above 512Mi, shared_buffers is a quarter of it and effective_cache_size half of it, unless parameters say
// otherwise. With restoreFrom, roles and databases that the Backup has and this object lists are taken over as with
// adopt, and restoreFrom.target leads to a point in time by the archive of the PostgreSQL that was backed up.
// +kubebuilder:validation:XValidation:rule="!has(self.hba) || has(self.tls) && self.tls.enabled || self.hba.all(r, r.type != 'hostssl')",message="a rule of hba with type hostssl needs tls.enabled: without TLS it would never match"
// +kubebuilder:validation:XValidation:rule="!has(self.hba) || !has(self.tls) || !self.tls.enabled || self.hba.all(r, r.type != 'hostnossl')",message="with tls.enabled nobody is let in without TLS, and a rule of hba with type hostnossl would never match: take it out"
// +kubebuilder:validation:XValidation:rule="!has(self.synchronous) || !has(self.synchronous.replicas) || self.synchronous.replicas <= (has(self.autoscaling) ? self.autoscaling.minReplicas : has(self.replicas) ? self.replicas : 0)",message="synchronous.replicas cannot be above replicas, or autoscaling.minReplicas: nobody would be there to have the copies. Raise replicas, or lower synchronous.replicas"
// +kubebuilder:validation:XValidation:rule="has(self.version) && self.version.matches('^[1-9][0-9]$')",fieldPath=".version",message="version is required: a major version of PostgreSQL such as 17"
// +kubebuilder:validation:XValidation:rule="!has(self.parameters) || !('synchronous.replicas' in self.parameters)",fieldPath=".parameters",message="set spec.synchronous.replicas in place of the parameter synchronous.replicas"
// +kubebuilder:validation:XValidation:rule="!has(self.parameters) || !('synchronous.method' in self.parameters)",fieldPath=".parameters",message="set spec.synchronous.method in place of the parameter synchronous.method"
// +kubebuilder:validation:XValidation:rule="!has(self.parameters) || !('synchronous.shortage' in self.parameters)",fieldPath=".parameters",message="set spec.synchronous.shortage in place of the parameter synchronous.shortage"
// +kubebuilder:validation:XValidation:rule="!has(self.parameters) || !('synchronous_standby_names' in self.parameters)",fieldPath=".parameters",message="set spec.synchronous in place of the parameter synchronous_standby_names"
// +kubebuilder:validation:XValidation:rule="!has(self.parameters) || !('archive.endpoint' in self.parameters)",fieldPath=".parameters",message="set spec.archive.endpoint in place of the parameter archive.endpoint"
// +kubebuilder:validation:XValidation:rule="!has(self.parameters) || !('archive.bucket' in self.parameters)",fieldPath=".parameters",message="set spec.archive.bucket in place of the parameter archive.bucket"
// +kubebuilder:validation:XValidation:rule="!has(self.parameters) || !('archive.prefix' in self.parameters)",fieldPath=".parameters",message="set spec.archive.prefix in place of the parameter archive.prefix"
// +kubebuilder:validation:XValidation:rule="!has(self.parameters) || !('archive.region' in self.parameters)",fieldPath=".parameters",message="set spec.archive.region in place of the parameter archive.region"
// +kubebuilder:validation:XValidation:rule="!has(self.parameters) || !('archive.addressing' in self.parameters)",fieldPath=".parameters",message="set spec.archive.addressing in place of the parameter archive.addressing"
// +kubebuilder:validation:XValidation:rule="!has(self.parameters) || !('archive.accessKey' in self.parameters)",fieldPath=".parameters",message="set spec.archive.accessKey in place of the parameter archive.accessKey"
// +kubebuilder:validation:XValidation:rule="!has(self.parameters) || !('archive.timeout' in self.parameters)",fieldPath=".parameters",message="set spec.archive.timeout in place of the parameter archive.timeout"
// +kubebuilder:validation:XValidation:rule="!has(self.parameters) || !('ssl' in self.parameters)",fieldPath=".parameters",message="set spec.tls.enabled in place of the parameter ssl"
// +kubebuilder:validation:XValidation:rule="!has(self.parameters) || !self.parameters.exists(name, name.startsWith('hba.'))",fieldPath=".parameters",message="set spec.hba in place of parameters hba.*"
// +kubebuilder:validation:XValidation:rule="!has(self.auth) || !has(self.roles) || self.roles.all(r, r.name != 'app' || !has(r.passwordFrom))",message="auth.passwordFrom and passwordFrom of the role app are both the password of that role, which the binding hands out: take one of them out"
// +kubebuilder:validation:XValidation:rule="!has(self.databases) || self.databases.all(d, d.name != 'app' || (!has(d.owner) || d.owner == 'app') && (!has(d.deletionPolicy) || d.deletionPolicy != 'Delete'))",message="the database app is the one that the binding names: it is owned by the role app and stays. Take owner and deletionPolicy of it out, or take another name"
// +kubebuilder:validation:XValidation:rule="!has(self.autoscaling) || !has(self.replicas) || self.replicas == 0",message="autoscaling says how many replicas there are: take replicas out"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.autoscaling) || has(self.autoscaling) || has(self.replicas) && self.replicas > 0",message="autoscaling can be taken out only together with replicas, at least 1, which says how many stay. Set it to 0 afterwards for a server alone"
// +kubebuilder:validation:XValidation:rule="!has(self.autoscaling) || !has(self.autoscaling.metrics) || has(self.monitoring) && has(self.monitoring.enabled) && self.monitoring.enabled",message="autoscaling by metrics needs a Prometheus that reads the pods: set monitoring.enabled, or take autoscaling.metrics out"
type PostgreSQLSpec struct {
	platformv1.InstanceSpec `json:",inline"`
	// replicas are the servers beside the primary, up to 4: each has all of its data, read-only, and one takes over when
	// it fails. It can be changed at any time, also from 0 and to 0. Default 0: a server alone.
	// +optional
	// +kubebuilder:default=0
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=4
	Replicas int32 `json:"replicas,omitempty"`
	// autoscaling has a HorizontalPodAutoscaler decide how many replicas there are, in place of replicas, by the load
	// of the primary and the replicas. When it is taken out, replicas says how many stay.
	// +optional
	Autoscaling *ReplicaAutoscaling `json:"autoscaling,omitempty"`
	// synchronous says how many replicas have a write before a client is told of it. Default: any one of them with 2
	// replicas or more, else none.
	// +optional
	Synchronous *PostgreSQLSynchronous `json:"synchronous,omitempty"`
	// failover says when a replica takes over. Default: Auto, after 2s.
	// +optional
	Failover *Failover `json:"failover,omitempty"`
	// auth says where the password of the role "app" comes from, which clients log in with and which owns the database
	// "app". When left out, a password is generated. The Secret that status.bindingName names has role, password and
	// database. The password of the superuser "postgres" is always generated: it is in Secret postgresql-<name>-superuser.
	// +optional
	Auth *Auth `json:"auth,omitempty"`
	// roles of PostgreSQL, users among them. Each is an Entity that this object owns; one that is taken out of the list is
	// dropped, unless it owns something. An object is Ready when its roles and databases are as asked.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=128
	Roles []PostgreSQLRole `json:"roles,omitempty"`
	// databases beside "postgres". Each is an Entity that this object owns; what becomes of one that is taken out of the
	// list its deletionPolicy says.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Databases []PostgreSQLDatabase `json:"databases,omitempty"`
	// hba are rules of pg_hba.conf: who may come from where, and how he shows who he is. The first that fits counts.
	// Before them PostgreSQL lets in the engine's own roles, postgres among them, by their passwords; whom none fits it
	// lets in by his password. They are reloaded: sessions that there are go on.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	HBA []PostgreSQLHBARule `json:"hba,omitempty"`
	// pooler has PgBouncer keep sessions with the primary for many clients, which wait while another server becomes the
	// primary, and see no error. None when left out; it can be added and taken out at any time.
	// +optional
	Pooler *PostgreSQLPooler `json:"pooler,omitempty"`
	// archive has the primary keep its write-ahead log in a BackupRepository or in a bucket, for restores to any point in
	// time. The condition Archiving says how that goes. Turning it on or off, or another volume, replaces the pods.
	// +optional
	Archive *LogArchive `json:"archive,omitempty"`
	// pluginVersion is the version of the plugin postgresql that runs this instance. Immutable but through an
	// Operation of template UpgradeApp. Default 1.0.0.
	// +optional
	// +kubebuilder:default="1.0.0"
	PluginVersion platformv1.PluginVersion `json:"pluginVersion,omitempty"`
}

// PostgreSQLSynchronous says how many replicas have a write before a client is told of it. A failover never loses one
// that so many have.
type PostgreSQLSynchronous struct {
	// replicas that have each write on disk, at most as many as there are; 0 for none, so that the last moment's writes
	// can be lost with the primary. Default 1 with 2 replicas or more, else 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=4
	Replicas *int32 `json:"replicas,omitempty"`
	// method: Any of the replicas have it, or the First in the order of their names that are there. A change restarts the
	// processes. Default Any.
	// +optional
	// +kubebuilder:default=Any
	Method SynchronousMethod `json:"method,omitempty"`
	// shortage says what becomes of writes while fewer replicas are left than synchronous.replicas: they Wait, or Continue
	// with fewer copies once a replica has been away for 30s. Default Wait.
	// +optional
	// +kubebuilder:default=Wait
	Shortage platformv1.SynchronousShortage `json:"shortage,omitempty"`
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

// PostgreSQLStatus is what is known of a PostgreSQL.
type PostgreSQLStatus struct {
	platformv1.InstanceStatus `json:",inline"`
	ReplicatedStatus          `json:",inline"`
	// poolers that answer, as "healthy/wanted"; absent without pooler.
	// +optional
	Poolers string `json:"poolers,omitempty"`
	// poolerEndpoint leads to the pooler, as "host:port"; absent without pooler.
	// +optional
	PoolerEndpoint string `json:"poolerEndpoint,omitempty"`
}

// PostgreSQL is one PostgreSQL server, or a primary with replicas, of which one takes over when it fails. A process
// that fails is started again in its pod, and a pod that is lost finds its data again.
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
// +kubebuilder:validation:XValidation:rule="has(self.spec.version) == has(oldSelf.spec.version) && (!has(self.spec.version) || self.spec.version == oldSelf.spec.version) || has(self.spec.running) && !self.spec.running && has(oldSelf.spec.running) && !oldSelf.spec.running || has(self.status) && has(self.status.conditions) && self.status.conditions.exists(c, c.type == 'Stalled' && c.reason == 'VersionNotSupported')",message="version cannot change by hand: a server cannot read the data of another major version. Create an Operation of template UpgradePaaS, which upgrades the data"
// +kubebuilder:validation:XValidation:rule="quantity(has(self.spec.storage) && has(self.spec.storage.size) ? string(self.spec.storage.size) : '5Gi').compareTo(quantity(has(oldSelf.spec.storage) && has(oldSelf.spec.storage.size) ? string(oldSelf.spec.storage.size) : '5Gi')) >= 0 || (has(self.status) && has(self.status.conditions) && self.status.conditions.exists(c, c.type == 'Ready' && c.reason != 'Ready'))",message="storage.size cannot shrink: a volume can only grow"
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
	// +kubebuilder:default:={"observedGeneration":-1}
	Status PostgreSQLStatus `json:"status,omitzero"`
}

// PostgreSQLList is a list of PostgreSQLs.
// +kubebuilder:object:root=true
type PostgreSQLList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PostgreSQL `json:"items"`
}
