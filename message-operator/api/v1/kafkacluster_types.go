// SPDX-License-Identifier: Apache-2.0

package v1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// KafkaClusterSpec describes a Kafka cluster: its brokers, its controllers and its users. resources,
// storage, parameters, service and podDisruptionBudget are those of the brokers. storage is 10Gi for each by default.
// With bootstrap no broker runs here: resources are those of the one pod that looks after topics.
// +kubebuilder:validation:XValidation:rule="has(self.version) || has(self.bootstrap)",fieldPath=".version",message="version is required: a release line of Kafka such as 4.4"
// +kubebuilder:validation:XValidation:rule="has(self.bootstrap) == has(oldSelf.bootstrap)",message="bootstrap can neither be added nor taken out: whether brokers run here is decided when the object is made. Create another KafkaCluster"
// +kubebuilder:validation:XValidation:rule="!has(self.bootstrap) || !has(self.version)",fieldPath=".version",message="version is of brokers that run here, and with bootstrap none do: take it out"
// +kubebuilder:validation:XValidation:rule="!has(self.bootstrap) || !has(self.profile)",fieldPath=".profile",message="profile is of brokers that run here, and with bootstrap none do: take it out"
// +kubebuilder:validation:XValidation:rule="!has(self.bootstrap) || !has(self.replicaSelector)",fieldPath=".replicaSelector",message="replicaSelector is of brokers that run here, and with bootstrap none do: take it out"
// +kubebuilder:validation:XValidation:rule="!has(self.bootstrap) || !has(self.parameters)",fieldPath=".parameters",message="parameters are of brokers that run here, and with bootstrap none do: take them out"
// +kubebuilder:validation:XValidation:rule="!has(self.bootstrap) || !has(self.storage)",fieldPath=".storage",message="storage is of brokers that run here, and with bootstrap none do: take it out"
// +kubebuilder:validation:XValidation:rule="!has(self.bootstrap) || !has(self.additionalVolumes)",fieldPath=".additionalVolumes",message="additionalVolumes are of brokers that run here, and with bootstrap none do: take them out"
// +kubebuilder:validation:XValidation:rule="!has(self.bootstrap) || !has(self.controllers)",fieldPath=".controllers",message="controllers are of brokers that run here, and with bootstrap none do: take them out"
// +kubebuilder:validation:XValidation:rule="!has(self.bootstrap) || !has(self.service)",fieldPath=".service",message="with bootstrap clients go to the brokers elsewhere, and there is no Service: take service out"
// +kubebuilder:validation:XValidation:rule="!has(self.bootstrap) || !has(self.external)",fieldPath=".external",message="with bootstrap clients go to the brokers elsewhere, and there is no Service: take external out"
// +kubebuilder:validation:XValidation:rule="!has(self.bootstrap) || !has(self.tls)",fieldPath=".tls",message="with bootstrap the brokers have their certificates from elsewhere: take tls out, and set bootstrap.caSecretRef to their authority"
// +kubebuilder:validation:XValidation:rule="!has(self.bootstrap) || !has(self.auth)",fieldPath=".auth",message="auth is of the user admin of a cluster that runs here, and with bootstrap none does: take it out. The account of the other cluster is bootstrap.credentialsSecretRef"
// +kubebuilder:validation:XValidation:rule="!has(self.bootstrap) || !has(self.users)",fieldPath=".users",message="with bootstrap users are made where the cluster is run: take users out. What one may do, acls of a KafkaTopic say"
// +kubebuilder:validation:XValidation:rule="!has(self.bootstrap) || !has(self.podDisruptionBudget)",fieldPath=".podDisruptionBudget",message="with bootstrap there is one pod, which no client needs: take podDisruptionBudget out"
// +kubebuilder:validation:XValidation:rule="!has(self.bootstrap) || !has(self.networkPolicy)",fieldPath=".networkPolicy",message="with bootstrap no client comes to a pod here: take networkPolicy out"
// +kubebuilder:validation:XValidation:rule="!has(self.bootstrap) || !has(self.monitoring)",fieldPath=".monitoring",message="with bootstrap the metrics are where the cluster is run: take monitoring out"
// +kubebuilder:validation:XValidation:rule="!has(self.bootstrap) || !has(self.adoptVolumes)",fieldPath=".adoptVolumes",message="with bootstrap there are no volumes to adopt: take adoptVolumes out"
// +kubebuilder:validation:XValidation:rule="!has(self.bootstrap) || self.replicas == 3",fieldPath=".replicas",message="replicas are of brokers that run here, and with bootstrap none do: take them out"
// +kubebuilder:validation:XValidation:rule="!has(self.bootstrap) || !has(self.deletionPolicy) || self.deletionPolicy == 'Retain'",fieldPath=".deletionPolicy",message="deletionPolicy is of volumes, and with bootstrap there are none: take it out. What becomes of a topic, its own deletionPolicy says"
// +kubebuilder:validation:XValidation:rule="has(self.controllers) == has(oldSelf.controllers) || has(self.zookeeper) || has(oldSelf.zookeeper)",message="controllers can neither be added nor taken out: whether brokers are controllers too is decided when the object is made. Create another KafkaCluster and copy the topics"
// +kubebuilder:validation:XValidation:rule="!has(self.bootstrap) || !has(self.zookeeper)",fieldPath=".zookeeper",message="zookeeper is of brokers that run here, and with bootstrap none do: take it out"
// +kubebuilder:validation:XValidation:rule="!has(self.zookeeper) || !has(self.version) || self.version.startsWith('3.') || self.zookeeper.stage == 'KRaft'",fieldPath=".zookeeper",message="Kafka 4 has no ZooKeeper, 3.9 is the last line with it: set version 3.9. A cluster that has it leaves it by the Operations MigrateToKRaft and FinishMigration"
// +kubebuilder:validation:XValidation:rule="has(oldSelf.zookeeper) || !has(self.zookeeper)",fieldPath=".zookeeper",message="zookeeper cannot be added: a cluster with controllers does not go back to ZooKeeper. Create another KafkaCluster and copy the topics"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.zookeeper) || has(self.zookeeper) || oldSelf.zookeeper.stage == 'KRaft'",fieldPath=".zookeeper",message="zookeeper has the metadata of the cluster, and cannot be taken out before controllers have taken over: run the Operations MigrateToKRaft and FinishMigration first"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.zookeeper) || has(self.zookeeper) || has(self.controllers)",fieldPath=".controllers",message="controllers have taken over from ZooKeeper, and the cluster cannot do without them: leave controllers in"
// +kubebuilder:validation:XValidation:rule="!has(self.zookeeper) || has(self.controllers) || self.zookeeper.stage in ['ZooKeeper', 'Withdrawing']",fieldPath=".controllers",message="controllers take over from ZooKeeper in this zookeeper.stage: set controllers"
// +kubebuilder:validation:XValidation:rule="has(self.controllers) || has(self.zookeeper) || self.replicas in [1, 3, 5]",message="replicas must be 1, 3 or 5 where each broker is a controller too, since a majority of the controllers has to agree: change replicas, or set controllers"
// +kubebuilder:validation:XValidation:rule="!has(self.profile) || self.profile != 'Durability' || self.replicas >= 3",message="profile Durability keeps each record on 3 brokers: set replicas to 3 or more, or take profile out"
// +kubebuilder:validation:XValidation:rule="!has(self.parameters) || !('min.insync.replicas' in self.parameters) || !string(self.parameters['min.insync.replicas']).matches('^[0-9]{1,9}$') || int(self.parameters['min.insync.replicas']) <= self.replicas",fieldPath=".parameters",message="the parameter min.insync.replicas cannot be above replicas: no write with acks=all would be taken"
// +kubebuilder:validation:XValidation:rule="!has(self.parameters) || !('default.replication.factor' in self.parameters) || !string(self.parameters['default.replication.factor']).matches('^[0-9]{1,9}$') || int(self.parameters['default.replication.factor']) <= self.replicas",fieldPath=".parameters",message="the parameter default.replication.factor cannot be above replicas: no topic could be made"
// +kubebuilder:validation:XValidation:rule="!has(self.parameters) || !('log.retention.bytes' in self.parameters) || !string(self.parameters['log.retention.bytes']).matches('^[0-9]{1,18}$') || quantity(string(self.parameters['log.retention.bytes'])).compareTo(quantity(has(self.storage) && has(self.storage.size) ? string(self.storage.size) : '10Gi')) <= 0",fieldPath=".parameters",message="the parameter log.retention.bytes is above storage.size, and it is of each partition: a single one would fill the volume. Lower it, or set a larger storage.size"
// +kubebuilder:validation:XValidation:rule="!has(self.additionalVolumes) || !has(self.parameters) || !('log.retention.bytes' in self.parameters) || !string(self.parameters['log.retention.bytes']).matches('^[0-9]{1,18}$') || self.additionalVolumes.all(v, quantity(string(self.parameters['log.retention.bytes'])).compareTo(quantity(string(v.size))) <= 0)",fieldPath=".parameters",message="the parameter log.retention.bytes is above the size of one of additionalVolumes, and it is of each partition: a single one would fill that volume. Lower it, or set a larger size"
// +kubebuilder:validation:XValidation:rule="!has(self.restoreFrom)",fieldPath=".restoreFrom",message="restoreFrom needs Backups, and a KafkaCluster has none: take it out, and copy topics from the other cluster by MirrorMaker"
type KafkaClusterSpec struct {
	platformv1.InstanceSpec `json:",inline"`
	// replicas are the brokers: 1, 3 or 5 without controllers, else 1 to 60. A broker that is added gets new partitions
	// alone, until an Operation moves others there. One is removed only when it has no replica of a partition. Default 3.
	// +optional
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=60
	Replicas int32 `json:"replicas,omitempty"`
	// additionalVolumes are further volumes of each broker beside that of storage. Each has a log directory, and Kafka
	// puts a new partition into the one with the fewest. One can be added at the end of the list, for which brokers are
	// replaced one after the other, and each can grow. None can come before another one. The last ones can be taken out
	// while no claim of theirs is bound; one that brokers have had stays.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=6
	AdditionalVolumes []platformv1.Storage `json:"additionalVolumes,omitempty"`
	// controllers run in pods of their own, apart from the brokers. Without it each broker is a controller too. Decided
	// for good when the object is made. With zookeeper they are those that it is migrated to.
	// +optional
	Controllers *KafkaControllers `json:"controllers,omitempty"`
	// zookeeper has the metadata of the cluster be in ZooKeeper servers in pods of their own, in place of controllers.
	// Kafka 3.9 is the last line that can. A cluster leaves it by the Operations MigrateToKRaft and FinishMigration; the
	// field can be taken out after them.
	// +optional
	ZooKeeper *KafkaZooKeeper `json:"zookeeper,omitempty"`
	// profile sets parameters of the brokers for a purpose: Throughput, Latency or Durability. What parameters says wins.
	// Default: none, which are Kafka's own values.
	// +optional
	Profile KafkaProfile `json:"profile,omitempty"`
	// replicaSelector says which replica consumers read from: Leader, or with RackAware an in-sync one in the zone that a
	// consumer names by client.rack, where there is one. The rack of a broker is the zone of its node. Default: Leader.
	// +optional
	ReplicaSelector KafkaReplicaSelector `json:"replicaSelector,omitempty"`
	// auth says where the password of the user "admin" comes from, who may do everything. When left out, a password is
	// generated; status.bindingName names the Secret that holds it.
	// +optional
	Auth *Auth `json:"auth,omitempty"`
	// users that log in by SCRAM-SHA-512, beside "admin". What one may do is said by acls of a KafkaTopic. Each user is an
	// Entity that this object owns, and so is its quota; taken out of the list, both are removed from Kafka. An object is
	// Ready when its users are as asked.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=256
	Users []KafkaUser `json:"users,omitempty"`
	// external gives each broker a Service of its own, by which clients outside of the Kubernetes cluster reach it.
	// +optional
	External *platformv1.ExternalAccess `json:"external,omitempty"`
	// bootstrap says where a Kafka is that something else runs, so that there can be KafkaTopics of it. One small pod
	// looks after them. Fields of brokers are refused beside it. Decided for good when the object is made.
	// +optional
	Bootstrap *KafkaBootstrap `json:"bootstrap,omitempty"`
	// pluginVersion is the version of the plugin kafka that runs this cluster. Immutable but through an Operation of
	// template UpgradeApp. Default 1.0.0.
	// +optional
	// +kubebuilder:default="1.0.0"
	PluginVersion platformv1.PluginVersion `json:"pluginVersion,omitempty"`
}

// KafkaBootstrap is where a Kafka is that something else runs, of version 4.0 or later in KRaft mode, and who looks
// after its topics.
type KafkaBootstrap struct {
	// servers are hosts and ports of brokers, of which the first that answers is asked, such as kafka-0.example.com:9093.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MaxLength=250
	// +kubebuilder:validation:items:Pattern=`^([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\]):[1-9][0-9]{0,4}$`
	Servers []string `json:"servers"`
	// security of the listener: SASL_SSL, which speaks TLS, or SASL_PLAINTEXT. Default SASL_SSL.
	// +optional
	// +kubebuilder:default=SASL_SSL
	Security KafkaSecurity `json:"security,omitempty"`
	// mechanism by which the account logs in: SCRAM-SHA-512, SCRAM-SHA-256 or PLAIN. Default SCRAM-SHA-512.
	// +optional
	// +kubebuilder:default=SCRAM-SHA-512
	Mechanism KafkaMechanism `json:"mechanism,omitempty"`
	// credentialsSecretRef names the Secret, in the same namespace, that has the account under the keys username and
	// password. A change is followed.
	// +required
	CredentialsSecretRef KafkaSecretReference `json:"credentialsSecretRef"`
	// caSecretRef names the key, ca.crt when left out, of a Secret in the same namespace that has the authority of the
	// brokers' certificates, as PEM. Those that everybody knows when left out.
	// +optional
	CASecretRef *platformv1.AuthorityReference `json:"caSecretRef,omitempty"`
}

// KafkaSecretReference names a Secret in the same namespace.
type KafkaSecretReference struct {
	// name of the Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// KafkaSecurity says whether a listener speaks TLS.
// +kubebuilder:validation:Enum=SASL_SSL;SASL_PLAINTEXT
type KafkaSecurity string

// Values of KafkaSecurity.
const (
	// SecurityTLS is a listener that speaks TLS.
	SecurityTLS KafkaSecurity = "SASL_SSL"
	// SecurityPlaintext is one that does not.
	SecurityPlaintext KafkaSecurity = "SASL_PLAINTEXT"
)

// KafkaMechanism is how an account logs in.
// +kubebuilder:validation:Enum=SCRAM-SHA-512;SCRAM-SHA-256;PLAIN
type KafkaMechanism string

// Values of KafkaMechanism.
const (
	// MechanismSCRAM512 proves that it knows the password, by SHA-512.
	MechanismSCRAM512 KafkaMechanism = "SCRAM-SHA-512"
	// MechanismSCRAM256 does the same by SHA-256.
	MechanismSCRAM256 KafkaMechanism = "SCRAM-SHA-256"
	// MechanismPlain sends the password: use it over TLS.
	MechanismPlain KafkaMechanism = "PLAIN"
)

// KafkaControllers are the controllers of a cluster whose brokers are none.
// +kubebuilder:validation:XValidation:rule="(has(self.storage) && has(self.storage.storageClassName)) == (has(oldSelf.storage) && has(oldSelf.storage.storageClassName)) && (!has(self.storage) || !has(self.storage.storageClassName) || self.storage.storageClassName == oldSelf.storage.storageClassName)",message="controllers.storage.storageClassName is immutable"
type KafkaControllers struct {
	// replicas are the controllers: 1, 3, which can lose one, or 5, which can lose two. Default 3.
	// +optional
	// +kubebuilder:default=3
	// +kubebuilder:validation:Enum=1;3;5
	Replicas int32 `json:"replicas,omitempty"`
	// resources of the container of each controller: requests and limits of cpu and memory. The plugin's defaults when
	// left out.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.claims)",message="controllers.resources.claims is not supported"
	Resources corev1.ResourceRequirements `json:"resources,omitzero"`
	// storage of each controller, for the metadata of the cluster. 2Gi of the cluster's default class when left out.
	// +optional
	Storage platformv1.InstanceStorage `json:"storage,omitzero"`
}

// KafkaZooKeeper are the ZooKeeper servers of a cluster of Kafka 3.9.
// +kubebuilder:validation:XValidation:rule="self.replicas == oldSelf.replicas",fieldPath=".replicas",message="zookeeper.replicas is immutable: the servers know each other from their start on"
// +kubebuilder:validation:XValidation:rule="(has(self.storage) && has(self.storage.storageClassName)) == (has(oldSelf.storage) && has(oldSelf.storage.storageClassName)) && (!has(self.storage) || !has(self.storage.storageClassName) || self.storage.storageClassName == oldSelf.storage.storageClassName)",message="zookeeper.storage.storageClassName is immutable"
// +kubebuilder:validation:XValidation:rule="self.stage == oldSelf.stage || self.stage in {'ZooKeeper': ['Prepared'], 'Prepared': ['ZooKeeper', 'Migrating'], 'Migrating': ['Migrated', 'Withdrawing'], 'Migrated': ['Migrating', 'Apart'], 'Withdrawing': ['ZooKeeper'], 'Apart': ['KRaft'], 'KRaft': []}[oldSelf.stage]",fieldPath=".stage",message="zookeeper.stage goes from ZooKeeper to Prepared, Migrating, Migrated, Apart and KRaft, one after the other, and back from Migrated to Migrating, Withdrawing and ZooKeeper: run one of the Operations MigrateToKRaft, FinishMigration and RevertMigration, which take it there"
type KafkaZooKeeper struct {
	// replicas are the servers: 1, 3, which can lose one, or 5, which can lose two. Immutable. Default 3.
	// +optional
	// +kubebuilder:default=3
	// +kubebuilder:validation:Enum=1;3;5
	Replicas int32 `json:"replicas,omitempty"`
	// resources of the container of each server: requests and limits of cpu and memory. The plugin's defaults when left
	// out.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.claims)",message="zookeeper.resources.claims is not supported"
	Resources corev1.ResourceRequirements `json:"resources,omitzero"`
	// storage of each server. 2Gi of the cluster's default class when left out.
	// +optional
	Storage platformv1.InstanceStorage `json:"storage,omitzero"`
	// stage of the migration to controllers: Operations set it. Default ZooKeeper, which is none.
	// +optional
	// +kubebuilder:default=ZooKeeper
	Stage KafkaMigrationStage `json:"stage,omitempty"`
}

// KafkaMigrationStage is how far a cluster is on the way from ZooKeeper to controllers.
// +kubebuilder:validation:Enum=ZooKeeper;Prepared;Migrating;Migrated;Apart;KRaft;Withdrawing
type KafkaMigrationStage string

// Values of KafkaMigrationStage.
const (
	// StageZooKeeper has the metadata in ZooKeeper, and no controllers.
	StageZooKeeper KafkaMigrationStage = "ZooKeeper"
	// StagePrepared has controllers that wait for brokers with the migration on.
	StagePrepared KafkaMigrationStage = "Prepared"
	// StageMigrating has such brokers. Controllers take over, and write to ZooKeeper what changes from then on.
	StageMigrating KafkaMigrationStage = "Migrating"
	// StageMigrated has brokers that know of no ZooKeeper, which is still written to.
	StageMigrated KafkaMigrationStage = "Migrated"
	// StageApart has controllers that write to ZooKeeper no more. There is no way back.
	StageApart KafkaMigrationStage = "Apart"
	// StageKRaft has no ZooKeeper. The field zookeeper can be taken out then.
	StageKRaft KafkaMigrationStage = "KRaft"
	// StageWithdrawing is on the way back from Migrating: the controllers are gone.
	StageWithdrawing KafkaMigrationStage = "Withdrawing"
)

// KafkaProfile is a set of parameters for a purpose.
// +kubebuilder:validation:Enum=Throughput;Latency;Durability
type KafkaProfile string

// Values of KafkaProfile.
const (
	// ProfileThroughput has more threads, and larger buffers, for many bytes per second.
	ProfileThroughput KafkaProfile = "Throughput"
	// ProfileLatency has followers copy by more threads, and consumer groups begin at once.
	ProfileLatency KafkaProfile = "Latency"
	// ProfileDurability has a record be on two brokers at least before a client with acks=all is told of it.
	ProfileDurability KafkaProfile = "Durability"
)

// KafkaReplicaSelector says which replica a consumer reads from.
// +kubebuilder:validation:Enum=Leader;RackAware
type KafkaReplicaSelector string

// Values of KafkaReplicaSelector.
const (
	// SelectorLeader has consumers read from the leader of a partition.
	SelectorLeader KafkaReplicaSelector = "Leader"
	// SelectorRackAware has them read from an in-sync replica in their own rack, where there is one.
	SelectorRackAware KafkaReplicaSelector = "RackAware"
)

// Auth says where the password of the instance's own user comes from.
type Auth struct {
	// passwordFrom names a Secret in the same namespace and the key that holds the password.
	// +required
	PasswordFrom platformv1.SecretKeyReference `json:"passwordFrom"`
}

// KafkaUser is a user that logs in by SCRAM-SHA-512.
type KafkaUser struct {
	// name that it logs in with. "admin" and "internal" are the instance's own.
	// +required
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9][A-Za-z0-9._@-]{0,62}$`
	// +kubebuilder:validation:XValidation:rule="self != 'admin' && self != 'internal'",message="the users admin and internal are the instance's own: the password of admin is auth.passwordFrom"
	Name string `json:"name"`
	// passwordFrom names a Secret in the same namespace and the key that holds the password. Kafka follows a change of it.
	// +required
	PasswordFrom platformv1.SecretKeyReference `json:"passwordFrom"`
	// iterations of the hash of the password: what a login costs, and what guessing the password of a stolen credential
	// costs. 4096 to 16384. Default 4096.
	// +optional
	// +kubebuilder:validation:Minimum=4096
	// +kubebuilder:validation:Maximum=16384
	Iterations int32 `json:"iterations,omitempty"`
	// quota limits what all clients of the user may do together. No limit when left out.
	// +optional
	Quota *KafkaRates `json:"quota,omitempty"`
	// adopt takes over a user of this name that somebody made by hand; it becomes what is said here. Without it, such a
	// user is left alone and the object is stalled.
	// +optional
	Adopt bool `json:"adopt,omitempty"`
}

// KafkaRates are limits, which hold on each broker for itself. Kafka slows down who is above one.
// +kubebuilder:validation:XValidation:rule="has(self.producerByteRate) || has(self.consumerByteRate) || has(self.requestPercentage)",message="a quota needs a limit: set producerByteRate, consumerByteRate or requestPercentage"
type KafkaRates struct {
	// producerByteRate is how many bytes may be sent to each broker per second, such as 10Mi.
	// +optional
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('1')) >= 0",message="producerByteRate must be 1 or more"
	ProducerByteRate *resource.Quantity `json:"producerByteRate,omitempty"`
	// consumerByteRate is how many bytes may be fetched from each broker per second, such as 10Mi.
	// +optional
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('1')) >= 0",message="consumerByteRate must be 1 or more"
	ConsumerByteRate *resource.Quantity `json:"consumerByteRate,omitempty"`
	// requestPercentage is how much of the time of one thread requests may take on each broker: 100 is one thread.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	RequestPercentage int32 `json:"requestPercentage,omitempty"`
}

// KafkaClusterStatus is what is known of a Kafka cluster.
type KafkaClusterStatus struct {
	platformv1.InstanceStatus `json:",inline"`
	// brokers that answer, as "healthy/wanted".
	// +optional
	Brokers string `json:"brokers,omitempty"`
	// controllers that answer, as "healthy/wanted"; absent where each broker is a controller.
	// +optional
	Controllers string `json:"controllers,omitempty"`
	// zooKeeper are the servers that answer, as "healthy/wanted"; absent without zookeeper.
	// +optional
	ZooKeeper string `json:"zooKeeper,omitempty"`
	// migration says how far the way from ZooKeeper to controllers is; absent without zookeeper.
	// +optional
	Migration string `json:"migration,omitempty"`
	// metadataVersion is the release line that metadata.version of the cluster is of, such as 4.3: version cannot be below
	// it. It is that of version when the cluster is made, and UpgradeFeatures raises it. Absent while it is not known, and
	// as long as the metadata is in ZooKeeper.
	// +optional
	// +kubebuilder:validation:Pattern=`^[0-9]{1,4}\.[0-9]{1,4}$`
	// +kubebuilder:validation:MaxLength=9
	MetadataVersion string `json:"metadataVersion,omitempty"`
	// externalAddresses are what clients outside of the Kubernetes cluster are told of each broker; absent without
	// external.
	// +optional
	// +listType=map
	// +listMapKey=pod
	ExternalAddresses []KafkaExternalAddress `json:"externalAddresses,omitempty"`
	// racks are the zones of the nodes that brokers are on; absent for a broker whose node is in none.
	// +optional
	// +listType=map
	// +listMapKey=pod
	Racks []KafkaRack `json:"racks,omitempty"`
	// directories are by what the quorum knows each node that can be a controller; absent for one that does not answer.
	// +optional
	// +listType=map
	// +listMapKey=pod
	Directories []KafkaDirectory `json:"directories,omitempty"`
}

// KafkaDirectory is in which directory a node keeps the metadata of the cluster, and votes with (KIP-853).
type KafkaDirectory struct {
	// pod of the node.
	Pod string `json:"pod"`
	// id of the directory, as meta.properties has it in directory.id. A node whose volume was lost comes back with another
	// one.
	ID string `json:"id"`
}

// KafkaRack is where one broker is.
type KafkaRack struct {
	// pod of the broker.
	Pod string `json:"pod"`
	// rack that the broker is in, which is the zone of its node.
	Rack string `json:"rack"`
}

// KafkaExternalAddress is where clients outside of the Kubernetes cluster reach one broker.
type KafkaExternalAddress struct {
	// pod of the broker.
	Pod string `json:"pod"`
	// address as "host:port".
	Address string `json:"address"`
}

// KafkaCluster is a Kafka cluster, in KRaft mode or with ZooKeeper.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=kafkaclusters,singular=kafkacluster,categories=zeroinfra
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.version`
// +kubebuilder:printcolumn:name="Brokers",type=string,JSONPath=`.status.brokers`
// +kubebuilder:printcolumn:name="Controllers",type=string,JSONPath=`.status.controllers`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Bootstrap",type=string,JSONPath=`.status.endpoint`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="quantity(has(self.spec.storage) && has(self.spec.storage.size) ? string(self.spec.storage.size) : '10Gi').compareTo(quantity(has(oldSelf.spec.storage) && has(oldSelf.spec.storage.size) ? string(oldSelf.spec.storage.size) : '10Gi')) >= 0 || (has(self.status) && has(self.status.conditions) && self.status.conditions.exists(c, c.type == 'Ready' && c.reason != 'Ready'))",message="storage.size cannot shrink: a volume can only grow"
// +kubebuilder:validation:XValidation:rule="!has(self.spec.controllers) || !has(oldSelf.spec.controllers) || quantity(has(self.spec.controllers.storage) && has(self.spec.controllers.storage.size) ? string(self.spec.controllers.storage.size) : '2Gi').compareTo(quantity(has(oldSelf.spec.controllers.storage) && has(oldSelf.spec.controllers.storage.size) ? string(oldSelf.spec.controllers.storage.size) : '2Gi')) >= 0 || (has(self.status) && has(self.status.conditions) && self.status.conditions.exists(c, c.type == 'Ready' && c.reason != 'Ready'))",message="controllers.storage.size cannot shrink: a volume can only grow"
// +kubebuilder:validation:XValidation:rule="!has(self.spec.zookeeper) || !has(oldSelf.spec.zookeeper) || quantity(has(self.spec.zookeeper.storage) && has(self.spec.zookeeper.storage.size) ? string(self.spec.zookeeper.storage.size) : '2Gi').compareTo(quantity(has(oldSelf.spec.zookeeper.storage) && has(oldSelf.spec.zookeeper.storage.size) ? string(oldSelf.spec.zookeeper.storage.size) : '2Gi')) >= 0 || (has(self.status) && has(self.status.conditions) && self.status.conditions.exists(c, c.type == 'Ready' && c.reason != 'Ready'))",message="zookeeper.storage.size cannot shrink: a volume can only grow"
// +kubebuilder:validation:XValidation:rule="!has(self.spec.version) || has(oldSelf.spec.version) && self.spec.version == oldSelf.spec.version || !has(oldSelf.status) || !has(oldSelf.status.metadataVersion) || !self.spec.version.matches('^[0-9]{1,4}([.][0-9]{1,4}){0,2}$') || [self.spec.version.split('.')].all(v, [oldSelf.status.metadataVersion.split('.')].all(m, int(v[0]) > int(m[0]) || int(v[0]) == int(m[0]) && (size(v) < 2 || int(v[1]) >= int(m[1]))))",message="version cannot be below status.metadataVersion: an earlier Kafka cannot read what the cluster writes since UpgradeFeatures has raised metadata.version, which is not lowered again. Set a later version, or copy the topics to another cluster"
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 25",message="the name of a KafkaCluster has at most 25 characters"
// +kubebuilder:validation:XValidation:rule="!self.metadata.name.contains('.')",message="the name of a KafkaCluster cannot hold a dot: it becomes part of the name of a Service"
type KafkaCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what you want.
	// +required
	Spec KafkaClusterSpec `json:"spec"`
	// status is what there is; the operator writes it.
	// +optional
	// +kubebuilder:default:={"observedGeneration":-1}
	Status KafkaClusterStatus `json:"status,omitzero"`
}

// KafkaClusterList is a list of Kafka clusters.
// +kubebuilder:object:root=true
type KafkaClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []KafkaCluster `json:"items"`
}
