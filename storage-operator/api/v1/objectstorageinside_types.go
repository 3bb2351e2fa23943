// SPDX-License-Identifier: Apache-2.0

package v1

import platformv1 "github.com/zeroinfra/platform-core/api/v1"

// ObjectStorageBucket is a bucket. What somebody changes of it beside this object is put right.
// +kubebuilder:validation:XValidation:rule="!has(self.access) || !has(self.policy)",message="access and policy both say what anybody may do: take one of them out"
// +kubebuilder:validation:XValidation:rule="!has(self.objectLock) || !self.objectLock || has(self.versioning) && self.versioning == 'Enabled'",message="objectLock needs versioning: set versioning to Enabled"
// +kubebuilder:validation:XValidation:rule="!has(self.retention) || has(self.objectLock) && self.objectLock",message="retention needs objectLock: set it to true, or take retention out"
// +kubebuilder:validation:XValidation:rule="!has(self.replication) || size(self.replication) == 0 || has(self.versioning) && self.versioning == 'Enabled'",message="replication needs versioning: set versioning to Enabled, or take replication out"
// +kubebuilder:validation:XValidation:rule="(has(self.objectLock) && self.objectLock) == (has(oldSelf.objectLock) && oldSelf.objectLock)",message="objectLock is decided when the bucket is made: make another bucket and copy the objects"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.versioning) || oldSelf.versioning == 'Off' || has(self.versioning) && self.versioning != 'Off'",message="versioning cannot be off again once it was enabled: set it to Suspended, which keeps the versions that there are"
type ObjectStorageBucket struct {
	// name of the bucket.
	// +required
	// +kubebuilder:validation:Pattern=`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self != 'minio' && !self.matches('[.]{2}|[.]-|-[.]|^xn--|^[0-9]+[.][0-9]+[.][0-9]+[.][0-9]+$')",message="a bucket is not called minio, like an address of a host, or with xn-- at the beginning or a dot beside a dot or a dash"
	Name string `json:"name"`
	// versioning: Off, Enabled, which keeps what an object was before, or Suspended, which keeps the versions that there
	// are. It cannot be Off again. Default Off.
	// +optional
	// +kubebuilder:default=Off
	Versioning Versioning `json:"versioning,omitempty"`
	// objectLock has objects be kept for a time in which nobody can remove them. Needs versioning Enabled; decided when
	// the bucket is made.
	// +optional
	ObjectLock bool `json:"objectLock,omitempty"`
	// retention of objects for which nobody says how long they are kept. Needs objectLock.
	// +optional
	Retention *ObjectStorageRetention `json:"retention,omitempty"`
	// access of anybody, without a key: None; Download, to list and read objects; Upload, to put objects there; or Public,
	// all that and to remove objects. Default None.
	// +optional
	Access Access `json:"access,omitempty"`
	// policy in place of access, as JSON.
	// +optional
	Policy platformv1.JSONDocument `json:"policy,omitempty"`
	// lifecycle rules, by which objects go.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	Lifecycle []ObjectStorageRule `json:"lifecycle,omitempty"`
	// quota is how much all objects and their versions may take, such as 10Gi. What comes beyond is refused; it may take a
	// minute to be noticed. Any amount when left out.
	// +optional
	Quota platformv1.ByteSize `json:"quota,omitempty"`
	// replication has what is written to the bucket go to buckets elsewhere, one for each rule. Needs versioning Enabled,
	// at both ends.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	Replication []ObjectStorageReplication `json:"replication,omitempty" parameter:"-"`
	// deletionPolicy says what becomes of the bucket when it is taken out of the list: Retain leaves it, Delete removes
	// it, once nothing is in it. One with objectLock is never removed. Default Retain.
	// +optional
	// +kubebuilder:validation:Enum=Retain;Delete
	// +kubebuilder:default=Retain
	DeletionPolicy platformv1.EntityDeletionPolicy `json:"deletionPolicy,omitempty"`
	// adopt takes over a bucket of this name that somebody made by hand; it becomes what is said here. Without it, such a
	// bucket is left alone and the object is stalled.
	// +optional
	Adopt bool `json:"adopt,omitempty"`
}

// Versioning says whether a bucket keeps what an object was before.
// +kubebuilder:validation:Enum=Off;Enabled;Suspended
type Versioning string

// Access says what anybody may do in a bucket, without a key.
// +kubebuilder:validation:Enum=None;Download;Upload;Public
type Access string

// ObjectStorageRetention says how long objects are kept.
type ObjectStorageRetention struct {
	// mode: Governance lets those remove an object earlier who are allowed to, Compliance nobody.
	// +required
	Mode RetentionMode `json:"mode"`
	// days that an object is kept, up to 36500.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=36500
	Days int32 `json:"days"`
}

// RetentionMode says who may remove an object that is kept.
// +kubebuilder:validation:Enum=Governance;Compliance
type RetentionMode string

// ObjectStorageRule says when objects go.
// +kubebuilder:validation:XValidation:rule="has(self.expireDays) || has(self.noncurrentDays)",message="a lifecycle rule needs expireDays or noncurrentDays: without them nothing would go"
type ObjectStorageRule struct {
	// name of the rule within the bucket.
	// +required
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9][A-Za-z0-9_.-]*$`
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// prefix of the names of the objects; all of them when left out.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Prefix string `json:"prefix,omitempty"`
	// expireDays after which an object goes. With versioning it is the latest version that is no longer current then.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=36500
	ExpireDays int32 `json:"expireDays,omitempty"`
	// noncurrentDays after which a version goes that is no longer the latest.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=36500
	NoncurrentDays int32 `json:"noncurrentDays,omitempty"`
}

// ObjectStoragePolicy says what users who have it may do.
type ObjectStoragePolicy struct {
	// name of the policy.
	// +required
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9][A-Za-z0-9._@-]{0,62}$`
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="!(self in ['readonly', 'readwrite', 'writeonly', 'diagnostics', 'consoleAdmin'])",message="readonly, readwrite, writeonly, diagnostics and consoleAdmin are MinIO's own: take another name"
	// +kubebuilder:validation:XValidation:rule="!self.endsWith('.grants')",message="names that end with .grants are those of the grants of users: take another name"
	Name string `json:"name"`
	// document is the policy as JSON. Its actions must begin with s3:, the others are the engine's.
	// +required
	Document platformv1.JSONDocument `json:"document"`
}

// ObjectStorageUser is a user. What is not said is not allowed.
type ObjectStorageUser struct {
	// name of the user: the access key.
	// +required
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9][A-Za-z0-9._@-]{2,55}$`
	// +kubebuilder:validation:MaxLength=56
	// +kubebuilder:validation:XValidation:rule="self != 'zeroinfra'",message="the user zeroinfra is the instance's own: name another one"
	Name string `json:"name"`
	// secretKeyFrom names a Secret in the same namespace and the key in it that holds the secret key, of 8 to 40
	// characters. The storage follows a change of it.
	// +required
	SecretKeyFrom platformv1.SecretKeyReference `json:"secretKeyFrom"`
	// enabled is false for a user that cannot log in. Default true.
	// +optional
	// +kubebuilder:default=true
	Enabled *bool `json:"enabled,omitempty"`
	// grants say what the user may do in single buckets.
	// +optional
	// +listType=map
	// +listMapKey=bucket
	// +kubebuilder:validation:MaxItems=32
	Grants []ObjectStorageGrant `json:"grants,omitempty"`
	// policies that the user has beside the grants: some of spec.policies, or readonly, readwrite or writeonly for all
	// buckets.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^[A-Za-z0-9][A-Za-z0-9._@-]*$`
	// +kubebuilder:validation:XValidation:rule="!('consoleAdmin' in self) && !('diagnostics' in self)",message="the policies consoleAdmin and diagnostics are for nobody: with them a user would be past the engine"
	Policies []string `json:"policies,omitempty"`
	// adopt takes over a user of this name that somebody made by hand; it becomes what is said here. Without it, such a
	// user is left alone and the object is stalled.
	// +optional
	Adopt bool `json:"adopt,omitempty"`
}

// ObjectStorageGrant is what a user may do in one bucket.
type ObjectStorageGrant struct {
	// bucket that it is for; it need not be one of spec.buckets.
	// +required
	// +kubebuilder:validation:Pattern=`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`
	// +kubebuilder:validation:MaxLength=63
	Bucket string `json:"bucket"`
	// access: Read lists and reads objects, Write puts them there, ReadWrite does both and removes them.
	// +required
	Access GrantAccess `json:"access"`
	// prefix of the names of the objects; all of them when left out.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^[^*?$\\"\x00-\x1f]*$`
	Prefix string `json:"prefix,omitempty"`
}

// GrantAccess says what a user may do in a bucket.
// +kubebuilder:validation:Enum=Read;Write;ReadWrite
type GrantAccess string
