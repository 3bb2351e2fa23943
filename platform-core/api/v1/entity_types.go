// SPDX-License-Identifier: Apache-2.0

package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// EntitySpec asks for an object that lives inside a middleware, such as a user or a topic.
// +kubebuilder:validation:XValidation:rule="self.applicationRef.name == oldSelf.applicationRef.name",message="applicationRef is immutable: create another Entity"
// +kubebuilder:validation:XValidation:rule="self.type == oldSelf.type",message="type is immutable: create another Entity"
// +kubebuilder:validation:XValidation:rule="self.name == oldSelf.name",message="name is immutable: create another Entity"
type EntitySpec struct {
	// applicationRef names the Application, in the same namespace, whose middleware has the object. Immutable.
	// +required
	ApplicationRef ApplicationReference `json:"applicationRef"`
	// type of the object, as the Application's plugin calls it, for example acl-user. Immutable.
	// +required
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:MaxLength=63
	Type string `json:"type"`
	// name of the object inside the middleware; the plugin says which names there can be. Immutable.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[^\n\r\x00]*$`
	Name string `json:"name"`
	// parameters of the object, in the words of the plugin. What is left out has the plugin's default, else the
	// middleware's.
	// +optional
	Parameters Parameters `json:"parameters,omitempty"`
	// passwordFrom names the Secret, in the same namespace, with the object's password, for types that have one. The
	// object follows a change of it.
	// +optional
	PasswordFrom *SecretKeyReference `json:"passwordFrom,omitempty"`
	// deletionPolicy says what becomes of the object when the Entity is deleted: Retain leaves it, Delete removes it
	// first.
	// +optional
	// +kubebuilder:validation:Enum=Retain;Delete
	// +kubebuilder:default=Retain
	DeletionPolicy EntityDeletionPolicy `json:"deletionPolicy,omitempty"`
	// adopt an object of this name that is there already and was not made by this Entity: it becomes what the spec says.
	// Without it, such an object is left alone and the Entity is stalled.
	// +optional
	Adopt bool `json:"adopt,omitempty"`
}

// ApplicationReference names an Application in the same namespace.
type ApplicationReference struct {
	// name of the Application. A typed object's is "<kind>-<name>", for example redis-cache.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
}

// EntityDeletionPolicy says what becomes of the object when the Entity is deleted.
type EntityDeletionPolicy string

// Values of EntityDeletionPolicy.
const (
	// EntityRetain leaves the object where it is.
	EntityRetain EntityDeletionPolicy = "Retain"
	// EntityDelete removes the object before the Entity goes.
	EntityDelete EntityDeletionPolicy = "Delete"
)

// EntityOrigin says how an object came to be an Entity's.
type EntityOrigin string

// Values of EntityOrigin.
const (
	// EntityCreated: it was not there, and is or will be made.
	EntityCreated EntityOrigin = "Created"
	// EntityAdopted: it was there, and the spec takes it over.
	EntityAdopted EntityOrigin = "Adopted"
)

// EntityStatus is what is known of the object.
type EntityStatus struct {
	// observedGeneration is the generation of the spec that this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// phase in one word, for printing: Creating, Updating, Ready, Stalled or Deleting.
	// +optional
	Phase Phase `json:"phase,omitempty"`
	// conditions: Ready (the object in the middleware matches the spec, as read back), Reconciling and Stalled.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// origin: Created or Adopted. It is written before the object is first touched; without it, an object of the name is
	// not this Entity's.
	// +optional
	Origin EntityOrigin `json:"origin,omitempty"`
	// observed are the object's parameters as they were read back from the middleware after the last change.
	// +optional
	Observed map[string]string `json:"observed,omitempty"`
	// facts are what else the middleware told of the object when it was last looked at, such as counts. They are compared
	// with nothing.
	// +optional
	Facts map[string]string `json:"facts,omitempty"`
	// applied is a digest of the parameters that observed was read back after.
	// +optional
	Applied string `json:"applied,omitempty"`
	// driftRepairs is how often the object was found changed or gone, and was put right.
	// +optional
	DriftRepairs int64 `json:"driftRepairs,omitempty"`
	// lastDrift tells of the latest of these.
	// +optional
	LastDrift *EntityDrift `json:"lastDrift,omitempty"`
}

// EntityDrift is a change that somebody made to the object beside the Entity.
type EntityDrift struct {
	// time when it was found.
	Time metav1.Time `json:"time"`
	// message says what was found.
	Message string `json:"message"`
}

// Entity is an object that lives inside the middleware of an Application.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=zent,categories=zeroinfra
// +kubebuilder:printcolumn:name="Application",type=string,JSONPath=`.spec.applicationRef.name`
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.type`
// +kubebuilder:printcolumn:name="Name",type=string,JSONPath=`.spec.name`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Repairs",type=integer,JSONPath=`.status.driftRepairs`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Entity struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec EntitySpec `json:"spec"`
	// +optional
	Status EntityStatus `json:"status,omitzero"`
}

// EntityList is a list of Entities.
// +kubebuilder:object:root=true
type EntityList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Entity `json:"items"`
}
