// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"encoding/json"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Conditioned is what every object of the suite offers to the code that reads and writes its status.
// +kubebuilder:object:generate=false
type Conditioned interface {
	metav1.Object
	// GetConditions returns the conditions of the status.
	GetConditions() []metav1.Condition
	// SetConditions replaces the conditions of the status.
	SetConditions([]metav1.Condition)
	// SetObservedGeneration records the generation that the status speaks of.
	SetObservedGeneration(int64)
}

// ParameterValue is the value of one parameter of a middleware: text or a whole
// number, kept as text. It holds no line break and no NUL.
// +kubebuilder:validation:Type=""
// +kubebuilder:validation:XIntOrString
// +kubebuilder:validation:Pattern=`^[^\n\r\x00]*$`
// +kubebuilder:validation:MaxLength=4096
type ParameterValue string

// UnmarshalJSON takes a JSON string or a whole number.
func (p *ParameterValue) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &text); err == nil {
		*p = ParameterValue(text)
		return nil
	}
	number, err := strconv.ParseInt(string(data), 10, 64)
	if err != nil {
		return fmt.Errorf("cannot read parameter value %s: it must be text or a whole number (put anything else in quotes)",
			data)
	}
	*p = ParameterValue(strconv.FormatInt(number, 10))
	return nil
}

// ByteSize is a number of bytes, such as 10Gi: digits and one of k, M, G, T, Ki, Mi, Gi, Ti or none.
// +kubebuilder:validation:Pattern=`^[1-9][0-9]{0,14}(k|M|G|T|Ki|Mi|Gi|Ti)?$`
// +kubebuilder:validation:MaxLength=17
type ByteSize string

// JSONDocument is an object in JSON, such as a policy. It may have several lines.
// +kubebuilder:validation:Pattern=`^\s*\{`
// +kubebuilder:validation:MaxLength=4096
type JSONDocument string

// Parameters are settings of a middleware, by the names that the middleware itself uses.
// +kubebuilder:validation:MaxProperties=512
type Parameters map[string]ParameterValue

// DataProtection is how an instance and its data are protected from loss. A typed kind has it in its spec, and passes
// it on as it is: an Application is protected as long as the object that declares it is.
type DataProtection struct {
	// deletionProtection has the API server refuse to delete this object, and what it is made into. While it is true,
	// volumes are kept whatever deletionPolicy says, also when a deleted CustomResourceDefinition takes the object with
	// it. Default false.
	// +optional
	DeletionProtection bool `json:"deletionProtection,omitempty"`
	// adoptVolumes is the UID of an earlier Application of the same name whose retained volumes are taken over; the
	// condition Stalled, with reason RetainedVolumesExist, says which. Where deletionPolicy Snapshot left VolumeSnapshots,
	// volumes are made of those before the first pod. Plugin, major version and topology have to be the same, and no
	// volume may be left without a pod.
	// +optional
	// +kubebuilder:validation:MaxLength=36
	AdoptVolumes string `json:"adoptVolumes,omitempty"`
}

// Storage is the volume that each pod of a component keeps its data on.
type Storage struct {
	// size of each volume. It can grow, never shrink.
	// +required
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('0')) > 0",message="size must be greater than 0"
	Size resource.Quantity `json:"size"`
	// storageClassName of the volumes; the cluster's default class when left out. Immutable.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	StorageClassName *string `json:"storageClassName,omitempty"`
}

// SecretKeyReference names one key of a Secret in the same namespace.
type SecretKeyReference struct {
	// name of the Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// key within the Secret. Default password.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:default=password
	Key string `json:"key,omitempty"`
}

// DeletionPolicy says what becomes of the volumes when their Application is deleted.
// +kubebuilder:validation:Enum=Retain;Delete;Snapshot
type DeletionPolicy string

// Deletion policies.
const (
	// DeletionPolicyRetain keeps the volumes; the engine touches them no more.
	DeletionPolicyRetain DeletionPolicy = "Retain"
	// DeletionPolicyDelete deletes the volumes with all that is on them.
	DeletionPolicyDelete DeletionPolicy = "Delete"
	// DeletionPolicySnapshot deletes them once there is a VolumeSnapshot of each that is ready to use. Those stay, for
	// adoptVolumes.
	DeletionPolicySnapshot DeletionPolicy = "Snapshot"
)

// KeepsMoreThan says whether more is left of volumes under this policy than under another one. Where none is named they
// stay.
func (p DeletionPolicy) KeepsMoreThan(other DeletionPolicy) bool {
	rank := map[DeletionPolicy]int{DeletionPolicyDelete: 1, DeletionPolicySnapshot: 2, DeletionPolicyRetain: 3, "": 3}
	return rank[p] > rank[other]
}

// Endpoint is one address that clients use.
type Endpoint struct {
	// name of the Service; what clients speak, such as s3, where they go to something outside of the cluster.
	Name string `json:"name"`
	// host is the DNS name of the Service inside the cluster, or the host outside of it.
	Host string `json:"host"`
	// port that the Service or the host listens on.
	Port int32 `json:"port"`
	// role that the Service selects; empty for every pod.
	// +optional
	Role string `json:"role,omitempty"`
	// type of the Service.
	// +optional
	Type corev1.ServiceType `json:"type,omitempty"`
	// nodePort is the port on every node that leads to the Service, where its type gives it one.
	// +optional
	NodePort int32 `json:"nodePort,omitempty"`
	// externalHost is the address or name of the load balancer, once that is known.
	// +optional
	ExternalHost string `json:"externalHost,omitempty"`
}

// SetState is one set as its Component and its Application see it.
type SetState struct {
	// name of the set within the component.
	Name string `json:"name"`
	// phase is one word for printing.
	// +optional
	Phase Phase `json:"phase,omitempty"`
	// replicas wanted.
	Replicas int32 `json:"replicas"`
	// readyReplicas is the number of pods that are healthy, up to date and take traffic.
	ReadyReplicas int32 `json:"readyReplicas"`
	// updatedReplicas is the number of pods that are as the spec asks.
	UpdatedReplicas int32 `json:"updatedReplicas"`
	// term grows at each change of the pod that writes, where the engine decides it.
	// +optional
	Term int64 `json:"term,omitempty"`
	// synchronousReplicas is how many replicas have a write before a client is told of it, for certain.
	// +optional
	SynchronousReplicas int32 `json:"synchronousReplicas,omitempty"`
	// changes of the pod that writes are the latest ones, the last one last.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	Changes []PrimaryChange `json:"changes,omitempty"`
	// restore is how far the set is with the data that it begins with.
	// +optional
	Restore *RestoreState `json:"restore,omitempty"`
}

// PodState is what is known of one pod of a set.
type PodState struct {
	// name of the pod.
	Name string `json:"name"`
	// role that the pod's agent reports and the engine labels.
	// +optional
	Role string `json:"role,omitempty"`
	// health as the pod's agent reports it: Healthy, Unhealthy, Starting or Stopped.
	// +optional
	Health string `json:"health,omitempty"`
	// version of the middleware that runs, as read back from it.
	// +optional
	Version string `json:"version,omitempty"`
	// memberID is the identifier by which the other members of the middleware know the pod, as read back from it: the
	// member ID of etcd, the server_uuid of MySQL, the directory ID of a node of Kafka. Absent where the plugin reads
	// none.
	// +optional
	MemberID string `json:"memberID,omitempty"`
	// node that the pod is on.
	// +optional
	Node string `json:"node,omitempty"`
	// zone of the node as the pod was told it, where its plugin asks for that.
	// +optional
	Zone string `json:"zone,omitempty"`
	// set that the pod is part of, in the status of a Component or an Application.
	// +optional
	Set string `json:"set,omitempty"`
	// message says what is wrong, when something is.
	// +optional
	Message string `json:"message,omitempty"`
	// external is the address that clients outside of the cluster are told for the pod, as host and port.
	// +optional
	External string `json:"external,omitempty"`
	// certificateDigest is that of the certificate that the pod serves, where it speaks TLS.
	// +optional
	CertificateDigest string `json:"certificateDigest,omitempty"`
}

// PluginReference pins the bundle that an instance is made from.
type PluginReference struct {
	// name of the plugin.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// version of the plugin, a semantic version such as 1.0.0.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Version string `json:"version"`
	// digest of the bundle that is pinned: "sha256:" and 64 hexadecimal digits.
	// +optional
	Digest string `json:"digest,omitempty"`
}
