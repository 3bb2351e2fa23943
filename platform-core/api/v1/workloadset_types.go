// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// WorkloadSetSpec describes pods with the same resources and configuration, fully rendered:
// the engine needs no plugin to keep them running.
// +kubebuilder:validation:XValidation:rule="!has(self.members) || !has(oldSelf.members) || self.members != oldSelf.members || self.replicas == oldSelf.replicas && has(self.excludedOrdinals) == has(oldSelf.excludedOrdinals) && (!has(self.excludedOrdinals) || self.excludedOrdinals == oldSelf.excludedOrdinals)",message="its pods are members of one cluster, which have to leave it before they go: scale what declares them, or the Application"
// +kubebuilder:validation:XValidation:rule="!has(self.scaling) || self.scaling != 'Fixed' || !has(oldSelf.scaling) || oldSelf.scaling != 'Fixed' || self.replicas == oldSelf.replicas && has(self.excludedOrdinals) == has(oldSelf.excludedOrdinals) && (!has(self.excludedOrdinals) || self.excludedOrdinals == oldSelf.excludedOrdinals)",message="the component cannot be scaled once it is made: its plugin has scaling Fixed"
type WorkloadSetSpec struct {
	// application that this set is part of.
	// +required
	Application string `json:"application"`
	// component is the name within the plugin.
	// +required
	Component string `json:"component"`
	// set is the name within the component.
	// +required
	Set string `json:"set"`
	// plugin pins the bundle that the template was rendered from.
	// +required
	Plugin PluginReference `json:"plugin"`
	// version of the middleware.
	// +required
	Version string `json:"version"`
	// topology of the Application.
	// +optional
	Topology string `json:"topology,omitempty"`
	// replicas is the number of pods.
	// +required
	// +kubebuilder:validation:Minimum=0
	Replicas int32 `json:"replicas"`
	// scaling says who may change replicas: anyone (Online, the default), nobody (Fixed), or an autoscaler, whose number
	// the engine leaves alone (Auto).
	// +optional
	Scaling SetScaling `json:"scaling,omitempty"`
	// excludedOrdinals are numbers that no pod has: the pods have the first numbers from 0 that are not in this list. To
	// remove a named pod, put its ordinal here and lower replicas.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:Minimum=0
	ExcludedOrdinals []int32 `json:"excludedOrdinals,omitempty"`
	// members are the ordinals that its pods have, where the plugin brings pods to be members of one cluster: replicas and
	// excludedOrdinals change only together with it, since a pod goes only when it has left that cluster.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Members string `json:"members,omitempty"`
	// running is false for a set that is stopped: its pods are gone, its volumes are kept. Default true.
	// +optional
	// +kubebuilder:default=true
	Running *bool `json:"running,omitempty"`
	// suspend has the engine do nothing at all with this set.
	// +optional
	Suspend bool `json:"suspend,omitempty"`
	// maintenance windows of the Application.
	// +optional
	Maintenance *Maintenance `json:"maintenance,omitempty"`
	// podManagementPolicy: Parallel makes missing pods all at once, OrderedReady one after the other, each when the one
	// before is ready. Default Parallel.
	// +optional
	// +kubebuilder:default=Parallel
	PodManagementPolicy PodManagementPolicy `json:"podManagementPolicy,omitempty"`
	// restartStrategy: AllAtOnce restarts the processes of all pods at once when their configuration changes, Rolling one
	// after the other. Default Rolling.
	// +optional
	RestartStrategy RestartStrategy `json:"restartStrategy,omitempty"`
	// updateAfter are the components that are updated before this one: pods that serve are restarted or replaced for a
	// change once all pods of those have theirs, and are ready. Missing and broken pods do not wait.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=12
	UpdateAfter []string `json:"updateAfter,omitempty"`
	// authority over who writes: engine or middleware.
	// +optional
	// +kubebuilder:validation:Enum=engine;middleware
	Authority string `json:"authority,omitempty"`
	// revision of the template but for images and resources. Only another revision replaces pods: what a newer engine adds
	// to the template of an unchanged instance comes with each pod's next replacement.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Revision string `json:"revision"`
	// template of the pods (a PodTemplateSpec). Other images are put into the pods that run, other resources are given to
	// them where the server can resize pods in place.
	// +required
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +structType=atomic
	Template runtime.RawExtension `json:"template"`
	// plan is what the agents in the pods run and watch (agentproto/plan.Plan). A change of its
	// process or files restarts the process in place; the pods stay.
	// +required
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +structType=atomic
	Plan runtime.RawExtension `json:"plan"`
	// volumes that each pod has of its own.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	Volumes []SetVolume `json:"volumes,omitempty"`
	// roles that pods may report, and whether a pod in it takes writes.
	// +optional
	// +listType=map
	// +listMapKey=name
	Roles []SetRole `json:"roles,omitempty"`
	// switchover says how a pod that takes writes hands over before it is taken out.
	// +optional
	Switchover *SetSwitchover `json:"switchover,omitempty"`
	// election says how the pods report which of them they elected as primary, where authority is middleware: only a pod
	// that a majority of them names gets the label of a role that takes writes. Without it each pod that calls itself
	// primary does.
	// +optional
	Election *SetElection `json:"election,omitempty"`
	// failover says how another pod becomes the one that writes, where the engine decides that.
	// +optional
	Failover *SetFailover `json:"failover,omitempty"`
	// conditions of the instance that follow from what the pods report.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []SetCondition `json:"conditions,omitempty"`
	// deletionPolicy of the volumes.
	// +optional
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`
	// adoptVolumes is the UID of an earlier Application whose retained volumes, or VolumeSnapshots, this set may use.
	// +optional
	AdoptVolumes string `json:"adoptVolumes,omitempty"`
	// restore says how the volumes of the first pod are filled before any pod is made.
	// +optional
	Restore *SetRestore `json:"restore,omitempty"`
	// data says which volumes the pods have, once they are not those that they were made with: an Operation of template
	// Restore writes it.
	// +optional
	Data *SetData `json:"data,omitempty"`
}

// SetCondition is a condition that the plugin declares. Its texts are CEL expressions over role and attributes of a
// pod.
type SetCondition struct {
	// type of the condition.
	// +required
	Type string `json:"type"`
	// roles of the pods that it speaks of; every pod when empty.
	// +optional
	// +listType=set
	Roles []string `json:"roles,omitempty"`
	// status gives True or False, or an empty text where there is no such condition.
	// +required
	Status string `json:"status"`
	// reason gives one word.
	// +required
	Reason string `json:"reason"`
	// message gives a sentence.
	// +required
	Message string `json:"message"`
}

// SetScaling says who may change the number of pods of a set.
// +kubebuilder:validation:Enum=Online;Fixed;Auto
type SetScaling string

// Ways of scaling; none is Online.
const (
	// SetScalingOnline: whoever scales it; the number goes up to the Application.
	SetScalingOnline SetScaling = "Online"
	// SetScalingFixed: nobody.
	SetScalingFixed SetScaling = "Fixed"
	// SetScalingAuto: its HorizontalPodAutoscaler.
	SetScalingAuto SetScaling = "Auto"
)

// RestartStrategy says how the processes of a set are started again with another configuration.
// +kubebuilder:validation:Enum=Rolling;AllAtOnce
type RestartStrategy string

// Ways of restarting; none is RestartRolling.
const (
	// RestartRolling: each when the one before is ready.
	RestartRolling RestartStrategy = "Rolling"
	// RestartAllAtOnce: all at once, since none becomes ready while others run with another configuration.
	RestartAllAtOnce RestartStrategy = "AllAtOnce"
)

// PodManagementPolicy says how the missing pods of a set are made.
// +kubebuilder:validation:Enum=Parallel;OrderedReady
type PodManagementPolicy string

// Pod management policies, with the meaning that they have for a StatefulSet.
const (
	PodManagementParallel     PodManagementPolicy = "Parallel"
	PodManagementOrderedReady PodManagementPolicy = "OrderedReady"
)

// SetVolume is a volume that each pod of a set has of its own.
type SetVolume struct {
	// name of the volume in the pod template.
	// +required
	Name string `json:"name"`
	// storage to claim.
	Storage `json:",inline"`
}

// SetRole is a role that the plugin declares.
type SetRole struct {
	// name of the role, for example primary.
	// +required
	Name string `json:"name"`
	// access that a pod in this role gives to clients.
	// +required
	// +kubebuilder:validation:Enum=ReadWrite;ReadOnly;None
	Access RoleAccess `json:"access"`
}

// SetSwitchover says how a pod that takes writes hands over to another one.
type SetSwitchover struct {
	// action of the plan that the pod that hands over runs.
	// +required
	Action string `json:"action"`
	// roles whose pods can take over.
	// +required
	// +listType=set
	Roles []string `json:"roles"`
	// when is a CEL expression over source and target; true for a pod that can take over.
	// +optional
	When string `json:"when,omitempty"`
	// parameters of the action; their placeholders see source and target.
	// +optional
	Parameters map[string]string `json:"parameters,omitempty"`
}

// RoleAccess is what clients may do at a pod in a role.
type RoleAccess string

// Kinds of access.
const (
	RoleReadWrite RoleAccess = "ReadWrite"
	RoleReadOnly  RoleAccess = "ReadOnly"
	RoleNone      RoleAccess = "None"
)

// WorkloadSetStatus is what the engine knows of a set.
type WorkloadSetStatus struct {
	// observedGeneration is the generation of the spec that this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// phase is one word for printing.
	// +optional
	Phase Phase `json:"phase,omitempty"`
	// conditions: Ready, Reconciling and Stalled.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// replicas is the number of pods there are.
	Replicas int32 `json:"replicas"`
	// readyReplicas is the number of pods that are healthy, up to date and take traffic.
	ReadyReplicas int32 `json:"readyReplicas"`
	// updatedReplicas is the number of pods with the current template, images, resources and configuration.
	UpdatedReplicas int32 `json:"updatedReplicas"`
	// revision of the current template.
	// +optional
	Revision string `json:"revision,omitempty"`
	// configDigest of the current plan.
	// +optional
	ConfigDigest string `json:"configDigest,omitempty"`
	// selector of the pods, for the scale subresource.
	// +optional
	Selector string `json:"selector,omitempty"`
	// version of the middleware that runs, as read back.
	// +optional
	Version string `json:"version,omitempty"`
	// pods and their roles.
	// +optional
	// +listType=map
	// +listMapKey=name
	Pods []PodState `json:"pods,omitempty"`
	// switchover is the latest one.
	// +optional
	Switchover *SwitchoverState `json:"switchover,omitempty"`
	// election is the latest one that a majority of the pods reported, where spec.election is set. It is written before
	// its primary gets the label of its role, and its epoch goes back only where all pods report that the history of the
	// middleware began anew.
	// +optional
	Election *ElectionRecord `json:"election,omitempty"`
	// writer says who may write, where spec.failover is set.
	// +optional
	Primary *PrimaryRecord `json:"primary,omitempty"`
	// formerPrimaries are the last writer records of volumes that the pods had before and that are still there, the latest
	// last, without the changes that led to them. One is in force again when the pods go back to its volumes.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	FormerPrimaries []PrimaryRecord `json:"formerPrimaries,omitempty"`
	// volumes of the pods.
	// +optional
	// +listType=map
	// +listMapKey=claim
	Volumes []VolumeState `json:"volumes,omitempty"`
	// restore is how far the filling of the volumes is, where spec.restore is set.
	// +optional
	Restore *RestoreState `json:"restore,omitempty"`
	// adopted is the UID of the earlier Application whose VolumeSnapshots were looked for, and volumes made of those that
	// there were, before the first pod. It is done once: a volume that is lost later is not made of them again.
	// +optional
	Adopted string `json:"adopted,omitempty"`
}

// SwitchoverState is one attempt of a pod that takes writes to hand over.
type SwitchoverState struct {
	// from is the pod that hands over.
	From string `json:"from"`
	// fromUID tells it from a later pod under this name.
	FromUID types.UID `json:"fromUID"`
	// to is the pod that takes over.
	To string `json:"to"`
	// generation of the spec that it was for.
	Generation int64 `json:"generation"`
	// request names the Operation that asked for it; empty for one that an update needs.
	// +optional
	Request string `json:"request,omitempty"`
	// attempt counts from 1 for each pod, generation and request.
	Attempt int32 `json:"attempt"`
	// phase it is in.
	Phase SwitchoverPhase `json:"phase"`
	// since when it is in this phase.
	Since metav1.Time `json:"since"`
	// message says why it failed.
	// +optional
	Message string `json:"message,omitempty"`
}

// SwitchoverPhase is where a switchover stands.
// +kubebuilder:validation:Enum=Running;Called;Succeeded;Failed
type SwitchoverPhase string

// Phases of a switchover.
const (
	// SwitchoverRunning: the action was asked for.
	SwitchoverRunning SwitchoverPhase = "Running"
	// SwitchoverCalled: the action succeeded; the pods have yet to report their roles.
	SwitchoverCalled SwitchoverPhase = "Called"
	// SwitchoverSucceeded: another pod takes writes.
	SwitchoverSucceeded SwitchoverPhase = "Succeeded"
	// SwitchoverFailed: the action failed, or the roles did not change.
	SwitchoverFailed SwitchoverPhase = "Failed"
)

// VolumeState is what is known of one volume of a pod.
type VolumeState struct {
	// claim is the name of the PersistentVolumeClaim.
	Claim string `json:"claim"`
	// requested size.
	Requested resource.Quantity `json:"requested"`
	// capacity that the volume has.
	// +optional
	Capacity *resource.Quantity `json:"capacity,omitempty"`
	// phase of the volume.
	Phase VolumePhase `json:"phase"`
}

// VolumePhase is where a volume stands.
// +kubebuilder:validation:Enum=Pending;Bound;Expanding;FileSystemResizePending;Refused;Lost
type VolumePhase string

// Phases of a volume.
const (
	// VolumePending: there is no volume for the claim yet.
	VolumePending VolumePhase = "Pending"
	// VolumeBound: the volume is as wanted.
	VolumeBound VolumePhase = "Bound"
	// VolumeExpanding: the storage grows.
	VolumeExpanding VolumePhase = "Expanding"
	// VolumeFileSystemResizePending: the storage has grown, the node has yet to grow the file system.
	VolumeFileSystemResizePending VolumePhase = "FileSystemResizePending"
	// VolumeRefused: the claim cannot become what is asked; the conditions say why.
	VolumeRefused VolumePhase = "Refused"
	// VolumeLost: the volume under the claim is gone.
	VolumeLost VolumePhase = "Lost"
)

// WorkloadSet is a group of pods with the same resources and configuration. The engine creates it.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:shortName=zset,categories=zeroinfra
// +kubebuilder:printcolumn:name="Application",type=string,JSONPath=`.spec.application`
// +kubebuilder:printcolumn:name="Component",type=string,JSONPath=`.spec.component`
// +kubebuilder:printcolumn:name="Wanted",type=integer,JSONPath=`.spec.replicas`
// +kubebuilder:printcolumn:name="Updated",type=integer,JSONPath=`.status.updatedReplicas`
// +kubebuilder:printcolumn:name="Ready",type=integer,JSONPath=`.status.readyReplicas`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type WorkloadSet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec WorkloadSetSpec `json:"spec"`
	// status, of one author. Before the first one is written its observedGeneration tells who waits that nothing was
	// looked at.
	// +optional
	// +kubebuilder:default:={"observedGeneration":-1,"replicas":0,"readyReplicas":0,"updatedReplicas":0}
	// +structType=atomic
	Status WorkloadSetStatus `json:"status,omitzero"`
}

// WorkloadSetList is a list of WorkloadSets.
// +kubebuilder:object:root=true
type WorkloadSetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []WorkloadSet `json:"items"`
}

// StatusGuarded says that the status has a record of the primary that labels follow, status.primary or status.election:
// nobody may write the status on what he read before the latest one.
func (w *WorkloadSet) StatusGuarded() bool { return w.Spec.Failover != nil || w.Spec.Election != nil }

// FirstPod names the pod with the lowest ordinal; empty for a set of none.
func (w *WorkloadSet) FirstPod() string {
	ordinals := w.Spec.Ordinals()
	if len(ordinals) == 0 {
		return ""
	}
	return PodNameFor(w.Name, ordinals[0])
}

// Wants says whether a pod by this name is among those that the set is to have.
func (w *WorkloadSet) Wants(pod string) bool {
	return slices.ContainsFunc(w.Spec.Ordinals(), func(ordinal int32) bool { return PodNameFor(w.Name, ordinal) == pod })
}

// Ordinals returns those that the pods of the set have, in order.
func (s *WorkloadSetSpec) Ordinals() []int32 { return OrdinalsOf(s.Replicas, s.ExcludedOrdinals) }

// Generation of the volumes that the pods have; empty for those that the set was made with.
func (s *WorkloadSetSpec) Generation() string {
	if s.Data == nil {
		return ""
	}
	return s.Data.Generation
}

// Access that clients have to the volumes: DataClosed, or empty for DataOpen.
func (s *WorkloadSetSpec) Access() DataAccess {
	if s.IsClosed() {
		return DataClosed
	}
	return ""
}

// IsClosed says whether no client is led to a pod that takes writes.
func (s *WorkloadSetSpec) IsClosed() bool { return s.Data != nil && s.Data.Access == DataClosed }

// ClaimNameFor returns the name of the PersistentVolumeClaim that a pod of the set has for a volume.
func (s *WorkloadSetSpec) ClaimNameFor(volume, pod string) string {
	return ClaimNameIn(s.Generation(), volume, pod)
}

// IsRunning says whether the set is to have pods at all.
func (s *WorkloadSetSpec) IsRunning() bool { return s.Running == nil || *s.Running }
