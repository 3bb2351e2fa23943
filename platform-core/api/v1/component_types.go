// SPDX-License-Identifier: Apache-2.0

package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ComponentSpec describes one component of an Application, with every default filled in.
type ComponentSpec struct {
	// application that this component is part of.
	// +required
	Application string `json:"application"`
	// component is the name within the plugin.
	// +required
	Component string `json:"component"`
	// plugin pins the bundle.
	// +required
	Plugin PluginReference `json:"plugin"`
	// version of the middleware.
	// +required
	Version string `json:"version"`
	// topology of the Application.
	// +required
	Topology string `json:"topology"`
	// replicas is the number of pods of each set that does not say otherwise.
	// +required
	// +kubebuilder:validation:Minimum=0
	Replicas int32 `json:"replicas"`
	// autoscaling, when set, decides the number of pods of each set; replicas are those that a set starts with.
	// +optional
	Autoscaling *Autoscaling `json:"autoscaling,omitempty"`
	// sets of the component, at least one.
	// +required
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Sets []ComponentSet `json:"sets"`
	// running is false for a component that is stopped, or that waits for another one. Default true.
	// +optional
	// +kubebuilder:default=true
	Running *bool `json:"running,omitempty"`
	// suspend has the engine do nothing at all with this component.
	// +optional
	Suspend bool `json:"suspend,omitempty"`
	// maintenance windows of the Application.
	// +optional
	Maintenance *Maintenance `json:"maintenance,omitempty"`
	// scheduling says where the pods may run.
	// +optional
	Scheduling *Scheduling `json:"scheduling,omitempty"`
	// podDisruptionBudget limits how many pods of each set a drained node may take at once. Default 1.
	// +optional
	PodDisruptionBudget *PodDisruptionBudget `json:"podDisruptionBudget,omitempty"`
	// failover, where the engine decides who writes.
	// +optional
	Failover *Failover `json:"failover,omitempty"`
	// networkPolicy of the Application.
	// +optional
	NetworkPolicy *NetworkPolicy `json:"networkPolicy,omitempty"`
	// adoptVolumes is the UID of an earlier Application whose retained volumes this component takes over.
	// +optional
	// +kubebuilder:validation:MaxLength=36
	AdoptVolumes string `json:"adoptVolumes,omitempty"`
	// restoreFrom is the Backup whose data the component begins with, where it is of its data.
	// +optional
	RestoreFrom *ComponentRestore `json:"restoreFrom,omitempty"`
	// archive is where the component keeps what it archives; absent for one that archives nothing, or not in a
	// BackupRepository.
	// +optional
	Archive *ComponentArchive `json:"archive,omitempty"`
	// resources of the container that runs the middleware.
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitzero"`
	// storage of each pod; absent for a component without volumes.
	// +optional
	Storage *Storage `json:"storage,omitempty"`
	// additionalVolumes of each pod beside that of storage.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=6
	AdditionalVolumes []Storage `json:"additionalVolumes,omitempty"`
	// parameters that the user set.
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
	// credentials by name and the Secret that holds each.
	// +optional
	// +listType=map
	// +listMapKey=name
	Credentials []ComponentCredential `json:"credentials,omitempty"`
	// tls of the Application.
	// +optional
	TLS *TLS `json:"tls,omitempty"`
	// monitoring of the component; absent when its metrics are not wanted.
	// +optional
	Monitoring *Monitoring `json:"monitoring,omitempty"`
	// logs of the component; absent when they go to the standard output.
	// +optional
	Logs *Logs `json:"logs,omitempty"`
	// deletionPolicy of the volumes.
	// +optional
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`
}

// ReplicasOf returns the number of pods of one of the sets.
func (c *ComponentSpec) ReplicasOf(set *ComponentSet) int32 {
	if set.Replicas != nil {
		return *set.Replicas
	}
	return c.Replicas
}

// ComponentCredential is a credential, and which of its passwords is in force.
type ComponentCredential struct {
	Credential `json:",inline"`
	// revision changes with the password; it gives nothing of it away. A change of it restarts the processes in place.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Revision string `json:"revision,omitempty"`
	// also says that the pods mount, beside the password, the one that their processes accept as well. It is there once
	// they have to.
	// +optional
	Also bool `json:"also,omitempty"`
}

// Pods returns the number of pods of all sets.
func (c *ComponentSpec) Pods() int32 {
	pods := int32(0)
	for i := range c.Sets {
		pods += c.ReplicasOf(&c.Sets[i])
	}
	return pods
}

// WantedPods returns the number of pods of all sets, which with autoscaling only the sets themselves know.
func (c *Component) WantedPods() int32 {
	if c.Spec.Autoscaling != nil && len(c.Status.Sets) > 0 {
		pods := int32(0)
		for _, set := range c.Status.Sets {
			pods += set.Replicas
		}
		return pods
	}
	return c.Spec.Pods()
}

// ComponentStatus is what the engine knows of a component.
type ComponentStatus struct {
	// observedGeneration is the generation of the spec that this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// phase is one word for printing.
	// +optional
	Phase Phase `json:"phase,omitempty"`
	// conditions: Ready, Reconciling and Stalled; CertificateServed with TLS, Monitored where metrics are wanted.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// version of the middleware that runs, as read back.
	// +optional
	Version string `json:"version,omitempty"`
	// replicas is the number of pods wanted in all sets.
	// +optional
	Replicas int32 `json:"replicas,omitempty"`
	// readyReplicas is the number of pods that are healthy, up to date and take traffic.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas,omitempty"`
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
	// updatedGeneration is the latest generation of the spec that all pods had, and were ready with. Components that are
	// updated after this one wait for it.
	// +optional
	UpdatedGeneration int64 `json:"updatedGeneration,omitempty"`
	// membership is the call that brings the members to what they are to be, while there is one.
	// +optional
	Membership *MembershipCall `json:"membership,omitempty"`
	// formed says that the pods have been members of one cluster, all of them, so that none begins one anew: an empty
	// volume is that of a member that has lost its data.
	// +optional
	Formed bool `json:"formed,omitempty"`
	// endpoints that clients use.
	// +optional
	// +listType=map
	// +listMapKey=name
	Endpoints []Endpoint `json:"endpoints,omitempty"`
}

// MembershipCall is a call, in one pod, that brings the pods of a component to be members of one cluster as they are to
// be.
type MembershipCall struct {
	// pod in which the action runs.
	Pod string `json:"pod"`
	// podUID tells it from a later pod under this name.
	PodUID types.UID `json:"podUID"`
	// attempt counts from 1 for as long as there is something to do.
	Attempt int32 `json:"attempt"`
	// since when this attempt is on record.
	Since metav1.Time `json:"since"`
	// message says what the attempt before came to.
	// +optional
	Message string `json:"message,omitempty"`
}

// Component is a part of an Application that runs one binary. The engine creates it.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=zcomp,categories=zeroinfra
// +kubebuilder:printcolumn:name="Application",type=string,JSONPath=`.spec.application`
// +kubebuilder:printcolumn:name="Component",type=string,JSONPath=`.spec.component`
// +kubebuilder:printcolumn:name="Wanted",type=integer,JSONPath=`.status.replicas`
// +kubebuilder:printcolumn:name="Ready",type=integer,JSONPath=`.status.readyReplicas`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.version`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Component struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec ComponentSpec `json:"spec"`
	// status, of one author. Before the first one is written its observedGeneration tells who waits that nothing was
	// looked at.
	// +optional
	// +kubebuilder:default:={"observedGeneration":-1}
	// +structType=atomic
	Status ComponentStatus `json:"status,omitzero"`
}

// ComponentList is a list of Components.
// +kubebuilder:object:root=true
type ComponentList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Component `json:"items"`
}

// Updates says whether its pods have yet to get what its spec asks for, and to be ready with it.
func (c *Component) Updates() bool { return c.Status.UpdatedGeneration != c.Generation }

// IsRunning says whether pods are wanted at all: running is true when left out.
func (c *ComponentSpec) IsRunning() bool { return c.Running == nil || *c.Running }
