// SPDX-License-Identifier: Apache-2.0

package v1

// MySQLServers is what the kinds that are made of MySQL servers have alike in their specs, beside what all instances
// have.
// +kubebuilder:validation:XValidation:rule="has(self.version) && self.version.matches('^[1-9][0-9]?[.][0-9]{1,2}$')",fieldPath=".version",message="version is required: a release line such as 9.7"
// +kubebuilder:validation:XValidation:rule="!has(self.parameters) || !('require_secure_transport' in self.parameters)",fieldPath=".parameters",message="set spec.tls.enabled in place of the parameter require_secure_transport"
// +kubebuilder:validation:XValidation:rule="!has(self.parameters) || !self.parameters.exists(name, name.startsWith('archive.') && name != 'archive.alarm')",fieldPath=".parameters",message="set spec.archive in place of parameters archive.*"
type MySQLServers struct {
	// auth says where the password of the user "app" comes from, which clients log in with and which owns the database
	// "app". When left out, a password is generated. The Secret that status.bindingName names has user, password and
	// database. The password of the superuser "root" is always generated: it is in the Secret that is called as
	// status.application, with "-root" behind. The server takes over another password while it runs, and the one before
	// stays valid until an Operation DiscardOldPasswords or the next change.
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
	// archive has the primary keep its binary log in a BackupRepository or in a bucket, for restores to any point in time
	// after a Backup of the method dump that is made from then on. Such a Backup has the server that it is made from stand
	// still for a moment, and keeps tables and accounts as they are while it lasts. The condition Archiving says how
	// archiving goes. Turning it on or off replaces the pods, and so does another volume.
	// +optional
	Archive *LogArchive `json:"archive,omitempty"`
}
