// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ApplicationSpec describes one instance of a middleware.
// +kubebuilder:validation:XValidation:rule="self.plugin == oldSelf.plugin",message="plugin is immutable"
// +kubebuilder:validation:XValidation:rule="has(self.restoreFrom) == has(oldSelf.restoreFrom) && (!has(self.restoreFrom) || self.restoreFrom == oldSelf.restoreFrom)",message="restoreFrom is for an instance that is made, and immutable: make another one from the other backup"
// +kubebuilder:validation:XValidation:rule="!has(self.restoreFrom) || !has(self.adoptVolumes) || size(self.adoptVolumes) == 0",message="restoreFrom and adoptVolumes say both where the data comes from: take one of them out"
type ApplicationSpec struct {
	// plugin that knows the middleware, for example redis. Immutable.
	// +required
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:MaxLength=40
	Plugin string `json:"plugin"`
	// pluginVersion is the semantic version of the plugin, for example 1.0.0, which v1.0.0 means as well. Immutable but
	// through an Operation of template UpgradeApp.
	// +required
	// +kubebuilder:validation:Pattern=`^v?(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9a-z.-]+)?$`
	// +kubebuilder:validation:MaxLength=40
	PluginVersion string `json:"pluginVersion"`
	// version of the middleware, one of those that the plugin supports, for example 7.0.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	Version string `json:"version"`
	// topology is the deployment mode, one of those that the plugin names, for example standalone. It can change where the
	// plugin says that one goes on from the other.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	Topology string `json:"topology"`
	// components of the topology whose settings differ from the plugin's defaults. The API server's
	// limit on the cost of the rules of storage allows 7 of them.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=7
	Components []ApplicationComponent `json:"components,omitempty"`
	// credentials that the user supplies. The engine generates those that the plugin declares and that are not named here.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Credentials []Credential `json:"credentials,omitempty"`
	// running is false for an instance that is stopped: its pods are gone; volumes, Services and Secrets are kept. Default
	// true.
	// +optional
	// +kubebuilder:default=true
	Running *bool `json:"running,omitempty"`
	// suspend has the engine do nothing at all with this instance, healing included.
	// +optional
	Suspend bool `json:"suspend,omitempty"`
	// maintenance says when changes of the spec may restart or replace pods that serve. What mends, grows, reloads, stops
	// or starts does not wait. At any time when left out.
	// +optional
	Maintenance *Maintenance `json:"maintenance,omitempty"`
	// failover says when another pod takes over from one that writes and fails. Refused where the middleware decides that
	// itself, and for a topology with a single pod.
	// +optional
	Failover *Failover `json:"failover,omitempty"`
	// schedules run Operations on this instance at set times. Those that restart or replace pods wait for a maintenance
	// window.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Schedules []Schedule `json:"schedules,omitempty"`
	// networkPolicy, when set, lets only pods of this instance and the operator reach what is not meant for clients.
	// +optional
	NetworkPolicy *NetworkPolicy `json:"networkPolicy,omitempty"`
	// tls has clients reach the instance over TLS, with certificates of cert-manager. Refused for a plugin that cannot.
	// +optional
	TLS *TLS `json:"tls,omitempty"`
	// deletionPolicy says what becomes of the volumes when the Application is deleted: Retain keeps them, Delete deletes
	// them with all that is on them, and Snapshot does that once there is a VolumeSnapshot of each. Default Retain.
	// +optional
	// +kubebuilder:default=Retain
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`
	DataProtection `json:",inline"`
	// operationHistory says how long the records of Operations on this instance are kept; for ever when left out.
	// +optional
	OperationHistory *OperationHistory `json:"operationHistory,omitempty"`
	// restoreFrom has the instance begin with the data of a Backup. Immutable.
	// +optional
	RestoreFrom *RestoreFrom `json:"restoreFrom,omitempty"`
	// archive has the instance keep the log of what is written to it in a BackupRepository. Refused for a plugin that
	// knows none. The condition ArchiveFound says where that is. Another one replaces the pods.
	// +optional
	Archive *Archive `json:"archive,omitempty"`
}

// ApplicationComponent is what a user sets for one component.
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.storage) || has(self.storage)",message="storage cannot be removed"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.storage) || !has(self.storage) || (has(self.storage.storageClassName) == has(oldSelf.storage.storageClassName) && (!has(self.storage.storageClassName) || self.storage.storageClassName == oldSelf.storage.storageClassName))",message="storage.storageClassName is immutable"
type ApplicationComponent struct {
	// name of the component within the plugin.
	// +required
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:MaxLength=12
	Name string `json:"name"`
	// replicas is the number of pods. The plugin's default when left out, within the plugin's range.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	Replicas *int32 `json:"replicas,omitempty"`
	// autoscaling decides the number of pods of each set in place of replicas. Refused for a plugin that cannot be scaled.
	// +optional
	Autoscaling *Autoscaling `json:"autoscaling,omitempty"`
	// resources of the container that runs the middleware. The plugin's default when left out.
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitzero"`
	// storage of each pod. The plugin's default when left out; refused for a component without volumes.
	// A size below that of the volumes that are there is refused with the condition Stalled.
	// +optional
	Storage *Storage `json:"storage,omitempty"`
	// additionalVolumes are further volumes of each pod beside that of storage, for a component whose plugin spreads its
	// data over several. One can be added at the end of the list, for which pods are replaced one after the other, and
	// each can grow. The last ones can be taken out while no claim of theirs is bound: one that pods have had stays.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=6
	AdditionalVolumes []Storage `json:"additionalVolumes,omitempty"`
	// parameters of the middleware; each is checked against the plugin's schema.
	// +optional
	Parameters Parameters `json:"parameters,omitempty"`
	// service says how clients reach this component.
	// +optional
	Service *ServiceExposure `json:"service,omitempty"`
	// external gives each pod an address for clients outside of the cluster. Refused for a component whose plugin
	// declares no Services of pods.
	// +optional
	External *ExternalAccess `json:"external,omitempty"`
	// mounts give the component volumes that are shared or read only, where its plugin has a place for them.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	Mounts []Mount `json:"mounts,omitempty"`
	// sets of the component, where the plugin allows more than one; each can differ from the component in what it names.
	// The plugin's default number of them, named 0, 1 and so on, when left out.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Sets []ComponentSet `json:"sets,omitempty"`
	// scheduling says where the pods may run. Pods are spread over nodes and zones as far as that goes, also without it.
	// +optional
	Scheduling *Scheduling `json:"scheduling,omitempty"`
	// podDisruptionBudget limits how many pods of each set a drained node may take at once. Default 1.
	// +optional
	PodDisruptionBudget *PodDisruptionBudget `json:"podDisruptionBudget,omitempty"`
	// monitoring has Prometheus read the metrics of this component. Refused where the plugin declares none.
	// +optional
	Monitoring *Monitoring `json:"monitoring,omitempty"`
	// logs says where the middleware's own access logs go. Refused where the plugin declares none.
	// +optional
	Logs *Logs `json:"logs,omitempty"`
}

// OperationHistory says how long the records of Operations are kept. One that runs or waits is never deleted.
type OperationHistory struct {
	// ttl after its end, for an Operation that has no ttlSecondsAfterFinished of its own.
	// +optional
	TTL *metav1.Duration `json:"ttl,omitempty"`
	// limit is how many that ended are kept. When another one ends, the oldest beyond that go.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	Limit *int32 `json:"limit,omitempty"`
}

// Credential is a user name and password that the plugin declares, taken from a Secret of the user.
type Credential struct {
	// name of the credential within the plugin, for example default.
	// +required
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:MaxLength=24
	Name string `json:"name"`
	// passwordFrom names the Secret and key that hold the password.
	// +required
	PasswordFrom SecretKeyReference `json:"passwordFrom"`
}

// ApplicationStatus is what the engine knows of an instance.
type ApplicationStatus struct {
	// observedGeneration is the generation of the spec that this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// takenUpGeneration is the generation of the spec that the instance is driven to, where that is not
	// observedGeneration: a spec that is refused, or comes while suspend is true, is not taken up. 0 when none was yet.
	// +optional
	TakenUpGeneration *int64 `json:"takenUpGeneration,omitempty"`
	// phase is one word for printing.
	// +optional
	Phase Phase `json:"phase,omitempty"`
	// conditions: Ready, Reconciling, Stalled and Accepted; Monitored where a component's metrics are wanted.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// plugin pins the bundle in use.
	// +optional
	Plugin *PluginReference `json:"plugin,omitempty"`
	// version of the middleware that runs, as read back; empty while pods disagree or none answers.
	// +optional
	Version string `json:"version,omitempty"`
	// ready counts pods as "ready/wanted".
	// +optional
	Ready string `json:"ready,omitempty"`
	// components and what is known of their pods.
	// +optional
	// +listType=map
	// +listMapKey=name
	Components []ComponentState `json:"components,omitempty"`
	// primary is the pod that takes writes, where the topology has just one.
	// +optional
	Primary string `json:"primary,omitempty"`
	// term grows at each change of the primary, where the engine decides it and there is just one set of pods that writes.
	// +optional
	Term int64 `json:"term,omitempty"`
	// durability says whether a write that was acknowledged can be lost with the primary, where the engine decides who
	// writes.
	// +optional
	Durability Durability `json:"durability,omitempty"`
	// lossWindowSeconds is of how many seconds the writes that were acknowledged can be lost when another pod takes over:
	// 0 while durability is Synchronous. Absent where nothing bounds it.
	// +optional
	LossWindowSeconds *int64 `json:"lossWindowSeconds,omitempty"`
	// activeOperation names the Operation that runs: one that was asked for before the record of what the engine does by
	// itself, and one that works before one that waits for an approval or a maintenance window. Empty while none does.
	// +optional
	ActiveOperation string `json:"activeOperation,omitempty"`
	// endpoints that clients use.
	// +optional
	// +listType=map
	// +listMapKey=name
	Endpoints []Endpoint `json:"endpoints,omitempty"`
	// binding names the Secret that follows the Service Binding specification.
	// +optional
	Binding *Binding `json:"binding,omitempty"`
	// schedules, the one that comes next first.
	// +optional
	// +listType=map
	// +listMapKey=name
	Schedules []ScheduleStatus `json:"schedules,omitempty"`
	// restoredFrom says what the data that the instance began with is from; absent before it is there.
	// +optional
	RestoredFrom *RestoredFrom `json:"restoredFrom,omitempty"`
	// lastBackup is the newest Backup of this instance that is completed; absent while there is none.
	// +optional
	LastBackup *BackupRecord `json:"lastBackup,omitempty"`
	// lastVerifiedRestore is the newest restore drill that found a Backup of this instance good; absent while there
	// is none.
	// +optional
	LastVerifiedRestore *VerifiedRestore `json:"lastVerifiedRestore,omitempty"`
}

// Binding names a Secret that follows the Service Binding specification.
type Binding struct {
	// name of the Secret, in the same namespace.
	Name string `json:"name"`
}

// ComponentState is one component as its Application sees it.
type ComponentState struct {
	// name of the component within the plugin.
	Name string `json:"name"`
	// phase is one word for printing.
	// +optional
	Phase Phase `json:"phase,omitempty"`
	// replicas is the number of pods wanted in all sets.
	Replicas int32 `json:"replicas"`
	// readyReplicas is the number of pods that are healthy, up to date and take traffic.
	ReadyReplicas int32 `json:"readyReplicas"`
	// version of the middleware that runs, as read back; empty while pods disagree or none answers.
	// +optional
	Version string `json:"version,omitempty"`
	// message says what the component waits for, when it is not ready.
	// +optional
	Message string `json:"message,omitempty"`
	// sets and how far each is.
	// +optional
	// +listType=map
	// +listMapKey=name
	Sets []SetState `json:"sets,omitempty"`
	// pods and their roles.
	// +optional
	// +listType=map
	// +listMapKey=name
	Pods []PodState `json:"pods,omitempty"`
}

// Application is one instance of a middleware that a user owns.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=zapp,categories=zeroinfra
// +kubebuilder:printcolumn:name="Plugin",type=string,JSONPath=`.spec.plugin`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.version`
// +kubebuilder:printcolumn:name="Topology",type=string,JSONPath=`.spec.topology`
// +kubebuilder:printcolumn:name="Pods",type=string,JSONPath=`.status.ready`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Operation",type=string,JSONPath=`.status.activeOperation`,priority=1
// +kubebuilder:printcolumn:name="Next-Run",type=string,JSONPath=`.status.schedules[0].nextTime`,priority=1
// +kubebuilder:printcolumn:name="Last-Run",type=string,JSONPath=`.status.schedules[0].lastTime`,priority=1
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 38",message="the name of an Application has at most 38 characters"
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="the name of an Application becomes part of the name of a Service: use lower-case letters, digits and hyphens, with a letter first"
type Application struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec ApplicationSpec `json:"spec"`
	// status, of one author. Before the first one is written its observedGeneration tells who waits that nothing was
	// looked at.
	// +optional
	// +kubebuilder:default:={"observedGeneration":-1}
	// +structType=atomic
	Status ApplicationStatus `json:"status,omitzero"`
}

// ApplicationList is a list of Applications.
// +kubebuilder:object:root=true
type ApplicationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Application `json:"items"`
}

// TakenUp is the generation of the spec that the instance is driven to; 0 for none.
func (s *ApplicationStatus) TakenUp() int64 {
	if s.TakenUpGeneration != nil {
		return *s.TakenUpGeneration
	}
	return max(s.ObservedGeneration, 0)
}

// Names says whether a component is among those that the spec has something to say of.
func (s *ApplicationSpec) Names(component string) bool {
	return slices.ContainsFunc(s.Components, func(c ApplicationComponent) bool { return c.Name == component })
}

// VolumePolicy is what becomes of the volumes when the WorkloadSets end: deletionPolicy, or Retain where that is left
// out or the Application is protected. Who deletes a protected one came past the API server's refusal.
func (s *ApplicationSpec) VolumePolicy() DeletionPolicy {
	if s.DeletionProtection || s.DeletionPolicy == "" {
		return DeletionPolicyRetain
	}
	return s.DeletionPolicy
}

// IsRunning says whether pods are wanted at all: running is true when left out.
func (s *ApplicationSpec) IsRunning() bool { return s.Running == nil || *s.Running }

// Supplies says whether the user names a Secret for a credential.
func (s *ApplicationSpec) Supplies(credential string) bool {
	for _, c := range s.Credentials {
		if c.Name == credential {
			return true
		}
	}
	return false
}
