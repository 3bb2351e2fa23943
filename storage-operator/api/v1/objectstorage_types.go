// SPDX-License-Identifier: Apache-2.0

package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// ObjectStorageSpec describes an object storage, and what is inside it. version is a release line of the backend,
// such as 2026.2; required but for the backend External, which has none here. storage is 10Gi for each server by
// default. tls can be turned on or off only while running is false. restoreFrom has the servers begin with the
// buckets and objects of a Backup, which are put into them when they run; pools and parity can be others than they
// were.
// +kubebuilder:validation:XValidation:rule="has(self.pools) == has(oldSelf.pools)",message="pools can neither be added to a single server nor taken out: how objects are laid out is decided when the object is made. Create another ObjectStorage and copy the buckets"
// +kubebuilder:validation:XValidation:rule="!has(self.parity) || has(self.pools)",message="parity needs pools: a single server has one volume, and nothing to make an object anew from"
// +kubebuilder:validation:XValidation:rule="!has(self.pools) || self.pools.all(p, p.servers / 2 >= (has(self.parity) ? self.parity : (self.pools[0].servers < 6 ? 2 : (self.pools[0].servers < 8 ? 3 : 4))))",message="each pool needs at least twice as many servers as parity has drives, which is by default 2 where the first pool has 4 or 5 servers, 3 where it has 6 or 7, and else 4: give the pool more servers, or set a lower parity"
// +kubebuilder:validation:XValidation:rule="self.backend != 'External' || has(self.external)",message="backend External needs external: where the storage is, and the Secret with the keys of an account there"
// +kubebuilder:validation:XValidation:rule="self.backend == 'External' || !has(self.external)",message="external is for a storage that is only referenced: set backend to External, or take it out"
// +kubebuilder:validation:XValidation:rule="self.backend == 'External' || has(self.version)",message="version is required: the release line of the servers, such as 2026.2"
// +kubebuilder:validation:XValidation:rule="self.backend != 'External' || !has(self.version)",message="version is of servers that run here, and with backend External none do: take it out"
// +kubebuilder:validation:XValidation:rule="self.backend != 'External' || !has(self.pools)",message="pools are servers, and with backend External none run here: take them out"
// +kubebuilder:validation:XValidation:rule="self.backend != 'External' || !has(self.storage)",message="storage is of servers that run here, and with backend External none do: take it out"
// +kubebuilder:validation:XValidation:rule="self.backend != 'External' || !has(self.parameters)",message="parameters are of servers that run here, and with backend External none do: take them out"
// +kubebuilder:validation:XValidation:rule="self.backend != 'External' || !has(self.service)",message="with backend External clients go to external.endpoint, and there is no Service: take service out"
// +kubebuilder:validation:XValidation:rule="self.backend != 'External' || !has(self.tls)",message="with backend External the storage has its certificate from elsewhere: take tls out, and set external.endpoint to https and external.caSecretRef to its authority"
// +kubebuilder:validation:XValidation:rule="self.backend != 'External' || !has(self.trustedCASecretRef)",message="trustedCASecretRef is for targets of replication, and with backend External that is set where the storage is: take it out. The authority of the storage itself is external.caSecretRef"
// +kubebuilder:validation:XValidation:rule="self.backend != 'External' || !has(self.podDisruptionBudget)",message="with backend External there is one pod, which no client needs: take podDisruptionBudget out"
// +kubebuilder:validation:XValidation:rule="self.backend != 'External' || !has(self.networkPolicy)",message="with backend External no client comes to a pod here: take networkPolicy out"
// +kubebuilder:validation:XValidation:rule="self.backend != 'External' || !has(self.monitoring)",message="with backend External the metrics are where the storage is: take monitoring out"
// +kubebuilder:validation:XValidation:rule="self.backend != 'External' || !has(self.users)",message="S3 has no word for users: with backend External they are made where the storage is. Take users out"
// +kubebuilder:validation:XValidation:rule="self.backend != 'External' || !has(self.policies)",message="S3 has no word for policies of users: with backend External they are made where the storage is. Take policies out; what anybody may do in a bucket, its access or policy says"
// +kubebuilder:validation:XValidation:rule="self.backend != 'External' || !has(self.buckets) || self.buckets.all(b, !has(b.quota))",message="S3 has no word for a quota: with backend External it is set where the storage is. Take quota out of the buckets"
// +kubebuilder:validation:XValidation:rule="self.backend != 'External' || !has(self.buckets) || self.buckets.all(b, !has(b.replication))",message="with backend External replication is set where the storage is: take it out of the buckets. Such a storage can be the target of another one"
// +kubebuilder:validation:XValidation:rule="self.backend != 'External' || !has(self.deletionPolicy) || self.deletionPolicy == 'Retain'",message="deletionPolicy is of volumes, and with backend External there are none: take it out. What becomes of a bucket, its own deletionPolicy says"
// +kubebuilder:validation:XValidation:rule="self.backend != 'External' || !has(self.adoptVolumes)",message="with backend External there are no volumes to adopt: take adoptVolumes out"
// +kubebuilder:validation:XValidation:rule="self.backend != 'External' || !has(self.restoreFrom)",message="restoreFrom puts objects into servers that run here, and with backend External none do: take it out"
// +kubebuilder:validation:XValidation:rule="!has(self.restoreFrom) || !has(self.restoreFrom.target)",fieldPath=".restoreFrom",message="restoreFrom.target is a point in time, which is reached by an archived log, and a storage of objects has none: leave it out"
// +kubebuilder:validation:XValidation:rule="!has(self.parameters) || !('storage_class_standard' in self.parameters)",fieldPath=".parameters",message="set spec.parity in place of the parameter storage_class_standard"
type ObjectStorageSpec struct {
	platformv1.InstanceSpec `json:",inline"`
	// backend that stores the objects. Minio: servers of MinIO, which its authors no longer maintain. External: an S3
	// elsewhere that is only referenced, of which the buckets are kept. Immutable.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="backend is immutable: create another ObjectStorage and copy the buckets"
	Backend Backend `json:"backend"`
	// external says where the storage is. For the backend External, which needs it.
	// +optional
	External *ObjectStorageExternal `json:"external,omitempty"`
	// pools of servers, over which each object of a pool is spread in parts. Without them it is a single server, and what
	// is lost with its volume is lost. It grows by more pools, at the end of the list; what a pool is made of never
	// changes. Decided for good when the object is made. A pool that is added restarts all servers at once: clients are
	// without an answer for some seconds.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:XValidation:rule="[0, 1, 2, 3, 4, 5, 6, 7].all(i, i >= oldSelf.size() || i < self.size() && self[i].name == oldSelf[i].name)",message="a pool cannot go, nor change its name or its place, since objects lie there: put it back; add others after those that are there"
	// +kubebuilder:validation:XValidation:rule="[0, 1, 2, 3, 4, 5, 6, 7].all(i, i >= oldSelf.size() || i >= self.size() || self[i].name != oldSelf[i].name || self[i].servers == oldSelf[i].servers)",message="servers of a pool are immutable, since its objects are spread over as many: set the number back, and add another pool"
	Pools []ObjectStoragePool `json:"pools,omitempty"`
	// parity is how many of the drives of a pool may be lost without an object: each object is that much larger on the
	// drives. It holds for what is written from then on. Default, by the servers of the first pool: 2 for 4 and 5, 3 for 6
	// and 7, else 4. A change restarts all servers at once.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=8
	Parity *int32 `json:"parity,omitempty"`
	// buckets. Each is an Entity that this object owns. An object is Ready when its buckets, policies and users are as
	// asked.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=128
	Buckets []ObjectStorageBucket `json:"buckets,omitempty"`
	// policies that users can have, beside readonly, readwrite and writeonly, which are there and are for all buckets.
	// Taken out of the list, a policy is removed.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Policies []ObjectStoragePolicy `json:"policies,omitempty"`
	// users and their access keys. Taken out of the list, a user is removed.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=128
	Users []ObjectStorageUser `json:"users,omitempty"`
	// trustedCASecretRef names the key, ca.crt when left out, of a Secret in the same namespace that has the authorities,
	// as PEM, which the servers trust at targets of replication: beside those that everybody knows, and that of their own
	// certificate. To set it or take it out replaces the pods; a change of the Secret restarts all servers at once.
	// +optional
	TrustedCASecretRef *platformv1.AuthorityReference `json:"trustedCASecretRef,omitempty"`
	// pluginVersion is the version of the plugin that runs this storage. Immutable but through an Operation of template
	// UpgradeApp. Default 1.0.0.
	// +optional
	// +kubebuilder:default="1.0.0"
	PluginVersion platformv1.PluginVersion `json:"pluginVersion,omitempty"`
}

// Backend is what stores objects.
// +kubebuilder:validation:Enum=Minio;External
type Backend string

// Values of Backend.
const (
	// BackendMinio are servers of MinIO.
	BackendMinio Backend = "Minio"
	// BackendExternal is an S3 elsewhere.
	BackendExternal Backend = "External"
)

// ObjectStorageExternal says where a storage is that is only referenced, and who looks after its buckets there.
// +kubebuilder:validation:XValidation:rule="self.endpoint == oldSelf.endpoint",message="external.endpoint is immutable, since the buckets are where it says: create another ObjectStorage, with adopt: true for the buckets that are there"
// +kubebuilder:validation:XValidation:rule="self.region == oldSelf.region",message="external.region is immutable, since the buckets are there: create another ObjectStorage, with adopt: true for the buckets that are there"
// +kubebuilder:validation:XValidation:rule="!has(self.caSecretRef) || self.endpoint.startsWith('https://')",message="external.caSecretRef is the authority of a certificate, and over http there is none: set external.endpoint to https, or take caSecretRef out"
type ObjectStorageExternal struct {
	// endpoint is the URL of the storage with its scheme and without a path, for example https://s3.example.com. Pods have
	// to reach it. Immutable.
	// +required
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^https?://([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|[[][0-9A-Fa-f:.]+[]])(:[1-9][0-9]{0,4})?$')",message="external.endpoint must be a URL of a scheme and a host, such as https://s3.example.com:9000, without a path"
	Endpoint string `json:"endpoint"`
	// region that requests are signed for, and buckets are made in. Default us-east-1. Immutable.
	// +optional
	// +kubebuilder:default=us-east-1
	// +kubebuilder:validation:Pattern=`^[a-z0-9-]{1,63}$`
	// +kubebuilder:validation:MaxLength=63
	Region string `json:"region,omitempty"`
	// addressingStyle says where a bucket is named: in the Path of the URL, or in its host (VirtualHost). Default Path.
	// +optional
	// +kubebuilder:validation:Enum=Path;VirtualHost
	// +kubebuilder:default=Path
	AddressingStyle platformv1.AddressingStyle `json:"addressingStyle,omitempty" parameter:"addressing"`
	// credentialsSecretRef names the Secret, in the same namespace, with the keys accessKey and secretKey. The account has
	// to be allowed to make buckets and to read and change what they are. A change of the Secret is followed.
	// +required
	CredentialsSecretRef platformv1.SecretReference `json:"credentialsSecretRef" parameter:"-"`
	// caSecretRef names the key, ca.crt when left out, of a Secret in the same namespace that has the authority of the
	// storage's certificate; the ones that everybody knows when left out.
	// +optional
	CASecretRef *platformv1.AuthorityReference `json:"caSecretRef,omitempty" parameter:"-"`
}

// ObjectStoragePool is some servers, each with a volume, over which an object is spread.
type ObjectStoragePool struct {
	// name of the pool, a part of its pods' names.
	// +required
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`
	// +kubebuilder:validation:MaxLength=6
	Name string `json:"name"`
	// servers of the pool, 4 to 16. Immutable.
	// +required
	// +kubebuilder:validation:Minimum=4
	// +kubebuilder:validation:Maximum=16
	Servers int32 `json:"servers"`
}

// ObjectStorageStatus is what is known of an object storage.
type ObjectStorageStatus struct {
	platformv1.InstanceStatus `json:",inline"`
	// pools and how many of their servers are ready; none for a single server.
	// +optional
	// +listType=map
	// +listMapKey=name
	Pools []ObjectStoragePoolStatus `json:"pools,omitempty"`
	// replications and how far they are, as of when they were last looked at.
	// +optional
	// +listType=map
	// +listMapKey=bucket
	// +listMapKey=name
	Replications []ObjectStorageReplicationStatus `json:"replications,omitempty"`
}

// ObjectStoragePoolStatus is how many servers of a pool are ready.
type ObjectStoragePoolStatus struct {
	// name of the pool.
	Name string `json:"name"`
	// servers wanted.
	Servers int32 `json:"servers"`
	// ready servers.
	Ready int32 `json:"ready"`
}

// ObjectStorage is a storage for objects that speaks S3: one server, or pools of servers, with buckets and users
// inside, or one elsewhere whose buckets are kept.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=objectstorages,singular=objectstorage,categories=zeroinfra
// +kubebuilder:printcolumn:name="Backend",type=string,JSONPath=`.spec.backend`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.version`
// +kubebuilder:printcolumn:name="Servers",type=string,JSONPath=`.status.ready`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Endpoint",type=string,JSONPath=`.status.endpoint`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="quantity(has(self.spec.storage) && has(self.spec.storage.size) ? string(self.spec.storage.size) : '10Gi').compareTo(quantity(has(oldSelf.spec.storage) && has(oldSelf.spec.storage.size) ? string(oldSelf.spec.storage.size) : '10Gi')) >= 0 || (has(self.status) && has(self.status.conditions) && self.status.conditions.exists(c, c.type == 'Ready' && c.reason != 'Ready'))",message="storage.size cannot shrink: a volume can only grow"
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 24",message="the name of an ObjectStorage has at most 24 characters"
// +kubebuilder:validation:XValidation:rule="!has(self.spec.buckets) || self.spec.buckets.all(b, !has(b.replication) || b.replication.all(r, !has(r.objectStorageRef) || r.objectStorageRef.name != self.metadata.name || r.bucket != b.name))",message="a bucket cannot be replicated to itself: name another ObjectStorage in objectStorageRef, or another bucket"
// +kubebuilder:validation:XValidation:rule="!self.metadata.name.contains('.')",message="the name of an ObjectStorage cannot hold a dot: it becomes part of the name of a Service"
type ObjectStorage struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what you want.
	// +required
	Spec ObjectStorageSpec `json:"spec"`
	// status is what there is; the operator writes it.
	// +optional
	// +kubebuilder:default:={"observedGeneration":-1}
	Status ObjectStorageStatus `json:"status,omitzero"`
}

// ObjectStorageList is a list of object storages.
// +kubebuilder:object:root=true
type ObjectStorageList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ObjectStorage `json:"items"`
}
