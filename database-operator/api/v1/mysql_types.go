// SPDX-License-Identifier: Apache-2.0

package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// MySQLSpec describes a MySQL server with one pod. version is a release line; it cannot change, since MySQL 9.7 does
// not read data of 8.0: a Backup of the method dump restores into a new MySQL of the later line. storage is 10Gi by
// default. With a limit of memory, innodb_buffer_pool_size follows it unless parameters say otherwise. With
// restoreFrom, users and databases that the Backup has and this object lists are taken over as with adopt.
type MySQLSpec struct {
	platformv1.InstanceSpec `json:",inline"`
	MySQLServers            `json:",inline"`
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
	// +kubebuilder:default:={"observedGeneration":-1}
	Status MySQLStatus `json:"status,omitzero"`
}

// MySQLList is a list of objects of the kind MySQL.
// +kubebuilder:object:root=true
type MySQLList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []MySQL `json:"items"`
}
