// SPDX-License-Identifier: Apache-2.0

package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// MySQLSpec describes a MySQL server with one pod. version is a release line; it cannot change, since MySQL 9.7 does not
// read data of 8.0: a Backup of the method dump restores into a new MySQL of the later line. storage is 10Gi by default.
// With a limit of memory, innodb_buffer_pool_size follows it unless parameters say otherwise. With restoreFrom, users and
// databases that the Backup has and this object lists are taken over as with adopt.
// +kubebuilder:validation:XValidation:rule="has(self.version) && self.version.matches('^[1-9][0-9]?[.][0-9]{1,2}$')",fieldPath=".version",message="version is required: a release line such as 9.7"
// +kubebuilder:validation:XValidation:rule="!has(self.parameters) || !('require_secure_transport' in self.parameters)",fieldPath=".parameters",message="set spec.tls.enabled in place of the parameter require_secure_transport"
type MySQLSpec struct {
	platformv1.InstanceSpec `json:",inline"`
	// auth says where the password of the user "app" comes from, which clients log in with and which owns the database
	// "app". When left out, a password is generated. The Secret that status.bindingName names has user, password and
	// database. The password of the superuser "root" is always generated: it is in Secret mysql-<name>-root. The server
	// takes over another password while it runs, and the one before stays valid until an Operation DiscardOldPasswords
	// or the next change.
	// +optional
	Auth *Auth `json:"auth,omitempty"`
	// users beside "root" and "app". Each is an Entity that this object owns; one that is taken out of the list is
	// dropped. An object is Ready when its users and databases are as asked.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +listMapKey=host
	// +kubebuilder:validation:MaxItems=128
	Users []MySQLUser `json:"users,omitempty"`
	// databases beside "app". Each is an Entity that this object owns; what becomes of one that is taken out of the list
	// its deletionPolicy says.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Databases []MySQLDatabase `json:"databases,omitempty"`
	// pluginVersion is the version of the plugin mysql that runs this instance. Immutable but through an
	// Operation of template UpgradeApp. Default 1.0.0.
	// +optional
	// +kubebuilder:default="1.0.0"
	PluginVersion platformv1.PluginVersion `json:"pluginVersion,omitempty"`
}

// MySQLStatus is what is known of a MySQL.
type MySQLStatus struct {
	platformv1.InstanceStatus `json:",inline"`
}

// MySQL is one MySQL server. A process that fails is started again in its pod, and a pod that is lost finds its data
// again.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=mysqls,singular=mysql,categories=zeroinfra
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.version`
// +kubebuilder:printcolumn:name="Pods",type=string,JSONPath=`.status.ready`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Endpoint",type=string,JSONPath=`.status.endpoint`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="has(self.spec.version) == has(oldSelf.spec.version) && (!has(self.spec.version) || self.spec.version == oldSelf.spec.version) || has(self.status) && has(self.status.conditions) && self.status.conditions.exists(c, c.type == 'Stalled' && c.reason == 'VersionNotSupported')",message="version cannot change: MySQL reads data of the release line before its own, and 8.4 is between 8.0 and 9.7. Restore a Backup of the method dump into a new MySQL of the other version"
// +kubebuilder:validation:XValidation:rule="quantity(has(self.spec.storage) && has(self.spec.storage.size) ? string(self.spec.storage.size) : '10Gi').compareTo(quantity(has(oldSelf.spec.storage) && has(oldSelf.spec.storage.size) ? string(oldSelf.spec.storage.size) : '10Gi')) >= 0 || (has(self.status) && has(self.status.conditions) && self.status.conditions.exists(c, c.type == 'Ready' && c.reason != 'Ready'))",message="storage.size cannot shrink: a volume can only grow"
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 32",message="the name of a MySQL has at most 32 characters"
// +kubebuilder:validation:XValidation:rule="!self.metadata.name.contains('.')",message="the name of a MySQL cannot hold a dot: it becomes part of the name of a Service"
type MySQL struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what you want.
	// +required
	Spec MySQLSpec `json:"spec"`
	// status is what there is; the operator writes it.
	// +optional
	Status MySQLStatus `json:"status,omitzero"`
}

// MySQLList is a list of objects of the kind MySQL.
// +kubebuilder:object:root=true
type MySQLList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []MySQL `json:"items"`
}
