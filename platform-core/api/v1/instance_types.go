// SPDX-License-Identifier: Apache-2.0

package v1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// InstanceSpec is what every typed kind that runs an instance has in its spec: inlined, so that each field has one
// name, one rule and one text. What differs from kind to kind, such as pluginVersion with its default, is in the
// kind; so are logs and autoscaling, which not every middleware can have.
// +kubebuilder:validation:XValidation:rule="has(self.restoreFrom) == has(oldSelf.restoreFrom) && (!has(self.restoreFrom) || self.restoreFrom == oldSelf.restoreFrom)",message="restoreFrom is for an object that is made, and immutable: make another one from the other backup"
// +kubebuilder:validation:XValidation:rule="!has(self.restoreFrom) || !has(self.adoptVolumes) || size(self.adoptVolumes) == 0",message="restoreFrom and adoptVolumes say both where the data comes from: take one of them out"
// +kubebuilder:validation:XValidation:rule="(has(self.storage) && has(self.storage.storageClassName)) == (has(oldSelf.storage) && has(oldSelf.storage.storageClassName)) && (!has(self.storage) || !has(self.storage.storageClassName) || self.storage.storageClassName == oldSelf.storage.storageClassName)",message="storage.storageClassName is immutable"
type InstanceSpec struct {
	// version of the middleware, such as 7.0. The plugin lists those that it supports: kubectl get plugins -o yaml.
	// Another version has the pods changed one after the other, those that take writes last.
	// +optional
	// +kubebuilder:validation:Pattern=`^[0-9]+(\.[0-9]+){0,2}$`
	// +kubebuilder:validation:MaxLength=20
	Version string `json:"version,omitempty"`
	// resources of the container that runs the middleware, in each pod: requests and limits of cpu and memory. The
	// plugin's defaults when left out. A change resizes the pods while they run, where the cluster can, and replaces
	// them otherwise, one after the other.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.claims)",message="resources.claims is not supported"
	Resources corev1.ResourceRequirements `json:"resources,omitzero"`
	// storage that each pod keeps its data on. The kind's default size of the cluster's default class when left out.
	// +optional
	Storage InstanceStorage `json:"storage,omitzero"`
	// parameters of the middleware by its own names, for those that have no field here. Each is checked: an unknown
	// name or a value out of range sets the condition Stalled, and nothing changes. What can be changed while the
	// middleware runs is, also back when it is taken out; the rest restarts processes in place.
	// +optional
	Parameters Parameters `json:"parameters,omitempty"`
	// service says how clients reach the instance. Default: of type ClusterIP.
	// +optional
	Service *ServiceExposure `json:"service,omitempty"`
	// tls has the middleware speak TLS, and nothing else, with a certificate of cert-manager. A change replaces the
	// pods, or is refused while running is true, where pods before and after it would not talk to each other; that of
	// issuerRef does neither. The binding Secret has the certificate of the CA: ca.crt.
	// +optional
	TLS *TLS `json:"tls,omitempty"`
	// scheduling says where the pods may run. Pods are spread over nodes and zones as far as that goes, also without
	// it. A change replaces the pods.
	// +optional
	Scheduling *Scheduling `json:"scheduling,omitempty"`
	// podDisruptionBudget limits how many pods of each set, such as a shard, a drained node may take at once.
	// Default: maxUnavailable 1.
	// +optional
	PodDisruptionBudget *PodDisruptionBudget `json:"podDisruptionBudget,omitempty"`
	// networkPolicy, when set, lets only pods of this instance and the operator reach what is not meant for clients.
	// +optional
	NetworkPolicy *NetworkPolicy `json:"networkPolicy,omitempty"`
	// maintenance says when a change of this spec may restart processes or replace pods: in the windows that it
	// lists. A reload, more storage, other numbers of pods, stop and start do not wait. At any time when left out.
	// +optional
	Maintenance *Maintenance `json:"maintenance,omitempty"`
	// schedules run Operations on this instance at set times. Those that restart processes or replace pods wait for a
	// maintenance window.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Schedules []Schedule `json:"schedules,omitempty"`
	// monitoring has Prometheus read the metrics of each pod.
	// +optional
	Monitoring *Monitoring `json:"monitoring,omitempty"`
	// running is false for an instance that is stopped: its pods are gone, its volumes, Services and Secrets are
	// kept. Default true.
	// +optional
	// +kubebuilder:default=true
	Running *bool `json:"running,omitempty"`
	// suspend has the engine do nothing at all with this instance, healing and failover included, until it is false
	// again. Default false.
	// +optional
	Suspend bool `json:"suspend,omitempty"`
	// deletionPolicy says what becomes of volumes when this object is deleted or a pod goes for good: Retain keeps
	// them, Delete deletes them with all that is on them, and Snapshot does that once there is a VolumeSnapshot of
	// each. Default Retain.
	// +optional
	// +kubebuilder:default=Retain
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`
	DataProtection `json:",inline"`
	// restoreFrom has the data begin with that of a Backup, of the same namespace and major version, which is waited
	// for. Immutable. Passwords and users are those of this object.
	// +optional
	RestoreFrom *RestoreFrom `json:"restoreFrom,omitempty"`
	// operationHistory says how long the records of Operations on this instance are kept. As the operator's settings
	// say when left out.
	// +optional
	OperationHistory *OperationHistory `json:"operationHistory,omitempty"`
}

// PluginVersion is the semantic version of a plugin; a leading v is accepted and means the same.
// +kubebuilder:validation:Pattern=`^v?(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9a-z.-]+)?$`
// +kubebuilder:validation:MaxLength=40
type PluginVersion string

// InstanceStorage is the volume of each pod of an instance.
type InstanceStorage struct {
	// size of the volume. It can grow, where its class allows that; never shrink, but that a size which the class
	// could not give can be taken back. The kind's default when left out.
	// +optional
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('0')) > 0",message="storage.size must be greater than 0"
	Size resource.Quantity `json:"size,omitzero"`
	// storageClassName of the volume; the cluster's default class when left out. Immutable.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	StorageClassName *string `json:"storageClassName,omitempty"`
}

// InstanceStatus is what every typed kind that runs an instance has in its status.
type InstanceStatus struct {
	// observedGeneration is the generation of the spec that this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// phase is one word for printing.
	// +optional
	Phase Phase `json:"phase,omitempty"`
	// conditions: Ready, Reconciling, Stalled and Accepted, and those that the plugin declares.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// version of the middleware that runs, as read back from it; empty while there are several.
	// +optional
	Version string `json:"version,omitempty"`
	// ready counts pods as "ready/wanted".
	// +optional
	Ready string `json:"ready,omitempty"`
	// members are the pods and their roles, of those that have one.
	// +optional
	// +listType=map
	// +listMapKey=name
	Members []InstanceMember `json:"members,omitempty"`
	// endpoint that clients use, as "host:port". Where one pod takes writes, it leads to that.
	// +optional
	Endpoint string `json:"endpoint,omitempty"`
	// bindingName names the Secret with all that a client needs, after the Service Binding specification.
	// +optional
	BindingName string `json:"bindingName,omitempty"`
	// application names the Application that this object compiles to.
	// +optional
	Application string `json:"application,omitempty"`
	// schedules, the one that comes next first.
	// +optional
	// +listType=map
	// +listMapKey=name
	Schedules []ScheduleStatus `json:"schedules,omitempty"`
	// lastBackup is the newest Backup of this instance that is completed; absent while there is none.
	// +optional
	LastBackup *BackupRecord `json:"lastBackup,omitempty"`
	// lastVerifiedRestore is the newest restore drill that found a Backup of this instance good; absent while there
	// is none.
	// +optional
	LastVerifiedRestore *VerifiedRestore `json:"lastVerifiedRestore,omitempty"`
}

// InstanceMember is a pod of an instance and what it does.
type InstanceMember struct {
	// name of the pod.
	Name string `json:"name"`
	// shard that it is part of, where there are several.
	// +optional
	Shard string `json:"shard,omitempty"`
	// role that it has, such as primary or replica.
	Role string `json:"role"`
}

// BackupRecord names a completed Backup.
type BackupRecord struct {
	// name of the Backup, in the same namespace.
	Name string `json:"name"`
	// completionTime is when it was completed.
	CompletionTime metav1.Time `json:"completionTime"`
}

// VerifiedRestore names a restore drill that succeeded.
type VerifiedRestore struct {
	// backup that was restored, by its name.
	Backup string `json:"backup"`
	// operation that restored it, by its name; it may be gone.
	Operation string `json:"operation"`
	// time at which the data was found good.
	Time metav1.Time `json:"time"`
}
