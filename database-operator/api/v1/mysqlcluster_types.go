// SPDX-License-Identifier: Apache-2.0

package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// MySQLClusterSpec describes a group of MySQL servers that replicate by Group Replication, with a single primary, which
// the members elect. version cannot change, as that of a MySQL. storage is 10Gi for each member by default. tls can
// change only while running is false. restoreFrom takes a Backup of a MySQL or a MySQLCluster; users and databases that
// it has and this object lists are taken over as with adopt.
// +kubebuilder:validation:XValidation:rule="!has(self.parameters) || !('group_replication_consistency' in self.parameters)",fieldPath=".parameters",message="set spec.consistency in place of the parameter group_replication_consistency"
// +kubebuilder:validation:XValidation:rule="!has(self.parameters) || !('group_replication_member_expel_timeout' in self.parameters)",fieldPath=".parameters",message="set spec.expelTimeout in place of the parameter group_replication_member_expel_timeout"
// +kubebuilder:validation:XValidation:rule="!has(self.parameters) || !('group_replication_unreachable_majority_timeout' in self.parameters)",fieldPath=".parameters",message="set spec.unreachableMajorityTimeout in place of the parameter group_replication_unreachable_majority_timeout"
// +kubebuilder:validation:XValidation:rule="!has(self.parameters) || !('group_replication_autorejoin_tries' in self.parameters)",fieldPath=".parameters",message="set spec.autoRejoinTries in place of the parameter group_replication_autorejoin_tries"
// +kubebuilder:validation:XValidation:rule="!has(self.parameters) || !('innodb_flush_log_at_trx_commit' in self.parameters) || string(self.parameters['innodb_flush_log_at_trx_commit']) == '1'",fieldPath=".parameters",message="the parameter innodb_flush_log_at_trx_commit must be 1, or left out: a member that was killed would go on with less than it has acknowledged"
// +kubebuilder:validation:XValidation:rule="!has(self.parameters) || !('sync_binlog' in self.parameters) || string(self.parameters['sync_binlog']) == '1'",fieldPath=".parameters",message="the parameter sync_binlog must be 1, or left out: a member that was killed would go on with less than it has acknowledged"
// +kubebuilder:validation:XValidation:rule="!has(self.parameters) || !('binlog_error_action' in self.parameters) || self.parameters['binlog_error_action'] == 'ABORT_SERVER'",fieldPath=".parameters",message="the parameter binlog_error_action must be ABORT_SERVER, or left out: a primary that goes on without its binary log has writes that no other member gets"
// +kubebuilder:validation:XValidation:rule="has(self.adoptMySQL) == has(oldSelf.adoptMySQL) && (!has(self.adoptMySQL) || self.adoptMySQL == oldSelf.adoptMySQL)",message="adoptMySQL is for an object that is made, and immutable: its instance is called after that MySQL for good"
// +kubebuilder:validation:XValidation:rule="!has(self.adoptMySQL) || !has(self.adoptVolumes) || size(self.adoptVolumes) == 0",message="adoptMySQL and adoptVolumes say both where the data comes from: take one of them out"
type MySQLClusterSpec struct {
	platformv1.InstanceSpec `json:",inline"`
	MySQLServers            `json:",inline"`
	// adoptMySQL names a MySQL of this namespace that becomes this MySQLCluster: its server becomes the first member with
	// all of its data, and addresses, passwords, users and databases stay. All else of the spec is to be that of the
	// MySQL, which is deleted once nothing is its own any more; before, it has to be Ready. Who makes such an object needs
	// the right to delete that MySQL. Immutable.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	AdoptMySQL string `json:"adoptMySQL,omitempty"`
	// members of the group: 3, which survive the loss of one, 5 of two, 7 of three, or 9 of four. Each write waits for
	// most of them. It can be changed at any time: a member that is added copies the data first, and one that goes leaves
	// the group before, a primary after another one has taken over. Default 3.
	// +optional
	// +kubebuilder:default=3
	// +kubebuilder:validation:XValidation:rule="self in [3, 5, 7, 9]",message="members must be 3, 5, 7 or 9: an even number survives the loss of no more members than the odd one below it, fewer than 3 of none, and a group has 9 at most"
	Members int32 `json:"members,omitempty"`
	// consistency says what a transaction waits for, and so what clients read of the writes of others. It changes while
	// the servers run, for sessions that begin later. Eventual: for nothing; a new primary may serve data that lacks what
	// it has yet to apply. BeforeOnPrimaryFailover: a new primary has new transactions wait until it has applied what it
	// got from the former one, which costs nothing otherwise. Before: each transaction waits until its member has applied
	// all that came before it, so that a replica reads the latest writes; a read then costs a round through the group.
	// After: each write waits until all members have applied it, so that it can be read anywhere afterwards; a member
	// that is slow, or is silent until it is expelled, holds up all writes. BeforeAndAfter: both, at both prices.
	// Default BeforeOnPrimaryFailover.
	// +optional
	Consistency MySQLConsistency `json:"consistency,omitempty"`
	// expelTimeout is how long a member may stay silent after the others suspect it, which takes 5s, before it is
	// expelled; in whole seconds, 0s to 1h. MySQL looks every 15s at members that are given time, so 1s to 15s come to
	// 15s. A failover of a primary that is killed or cut off takes as long as both together. Less makes that shorter, and
	// has a slow network or a busy node cost members, which then have to join anew. More keeps such members, and has
	// writes of consistency After, and reads of Before, wait for them. It changes while the servers run. Default 0s.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}[hms]){1,3}$') && duration(self) <= duration('1h')",message="expelTimeout must be between 0s and 1h, in whole seconds such as 30s or 1m30s"
	ExpelTimeout *metav1.Duration `json:"expelTimeout,omitempty"`
	// unreachableMajorityTimeout is how long a member that sees less than most of the others waits for them; in whole
	// seconds, 1s to 24h. Then it undoes the transactions that wait for their answer, and refuses writes. Less has clients
	// of a primary that is cut off fail sooner, and a short disturbance of the network roll back what would have been
	// committed after it. More leaves these clients hanging for longer. No value lets two primaries acknowledge writes. It
	// changes while the servers run. Default 10s.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}[hms]){1,3}$') && duration(self) >= duration('1s') && duration(self) <= duration('24h')",message="unreachableMajorityTimeout must be between 1s and 24h, in whole seconds such as 30s or 1m30s: without an end the clients of a primary that is cut off would hang for ever"
	UnreachableMajorityTimeout *metav1.Duration `json:"unreachableMajorityTimeout,omitempty"`
	// autoRejoinTries is how often a member that was expelled, or that has lost most of the others, tries to join again by
	// itself, with 5 minutes between tries; 0 to 2016, which is a week. While it tries it serves reads that grow old, to
	// whoever connects to its pod: its Service leaves it out. The operator has a member join at once while it runs, so
	// that this matters while it does not. Default 3.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2016
	AutoRejoinTries *int32 `json:"autoRejoinTries,omitempty"`
	// router has MySQL Routers give clients one address for all members. A Router follows an election within a second or
	// two, ends sessions with the former primary, and can send reads to replicas and writes to the primary over one
	// session of a client. None when left out; it can be added and taken out at any time.
	// +optional
	Router *MySQLRouter `json:"router,omitempty"`
	// pluginVersion is the version of the plugin mysql that runs this instance. Immutable but through an
	// Operation of template UpgradeApp. Default 1.0.0.
	// +optional
	// +kubebuilder:default="1.0.0"
	PluginVersion platformv1.PluginVersion `json:"pluginVersion,omitempty"`
}

// MySQLConsistency is what a transaction waits for.
// +kubebuilder:validation:Enum=Eventual;BeforeOnPrimaryFailover;Before;After;BeforeAndAfter
type MySQLConsistency string

// Values of MySQLConsistency.
const (
	// MySQLEventual waits for nothing.
	MySQLEventual MySQLConsistency = "Eventual"
	// MySQLBeforeOnPrimaryFailover waits in a new primary for what the former one has sent.
	MySQLBeforeOnPrimaryFailover MySQLConsistency = "BeforeOnPrimaryFailover"
	// MySQLBefore waits until all that came before is applied in the member.
	MySQLBefore MySQLConsistency = "Before"
	// MySQLAfter waits until all members have applied the transaction.
	MySQLAfter MySQLConsistency = "After"
	// MySQLBeforeAndAfter waits for both.
	MySQLBeforeAndAfter MySQLConsistency = "BeforeAndAfter"
)

// MySQLClusterStatus is what is known of a MySQLCluster. Its conditions have TablesReplicable, which names tables that
// Group Replication takes no writes to.
type MySQLClusterStatus struct {
	platformv1.InstanceStatus `json:",inline"`
	ReplicatedStatus          `json:",inline"`
	// routers that answer, as "healthy/wanted"; absent without router.
	// +optional
	Routers string `json:"routers,omitempty"`
	// routerEndpoint leads to the routers, as "host:port"; absent without router.
	// +optional
	RouterEndpoint string `json:"routerEndpoint,omitempty"`
}

// MySQLCluster is a group of MySQL servers with one primary: when it fails, the others elect another one, and nothing
// is lost that was acknowledged.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=mysqlclusters,singular=mysqlcluster,categories=zeroinfra
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.version`
// +kubebuilder:printcolumn:name="Members",type=string,JSONPath=`.status.ready`
// +kubebuilder:printcolumn:name="Primary",type=string,JSONPath=`.status.primary`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Endpoint",type=string,JSONPath=`.status.endpoint`
// +kubebuilder:printcolumn:name="Replicable",type=string,JSONPath=`.status.conditions[?(@.type=="TablesReplicable")].status`,priority=1
// +kubebuilder:printcolumn:name="Routers",type=string,JSONPath=`.status.routers`,priority=1
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="has(self.spec.version) == has(oldSelf.spec.version) && (!has(self.spec.version) || self.spec.version == oldSelf.spec.version) || has(self.status) && has(self.status.conditions) && self.status.conditions.exists(c, c.type == 'Stalled' && c.reason == 'VersionNotSupported')",message="version cannot change: MySQL reads data of the release line before its own, and 8.4 is between 8.0 and 9.7. Restore a Backup of the method dump into a new MySQLCluster of the other version"
// +kubebuilder:validation:XValidation:rule="quantity(has(self.spec.storage) && has(self.spec.storage.size) ? string(self.spec.storage.size) : '10Gi').compareTo(quantity(has(oldSelf.spec.storage) && has(oldSelf.spec.storage.size) ? string(oldSelf.spec.storage.size) : '10Gi')) >= 0 || (has(self.status) && has(self.status.conditions) && self.status.conditions.exists(c, c.type == 'Ready' && c.reason != 'Ready'))",message="storage.size cannot shrink: a volume can only grow"
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 25",message="the name of a MySQLCluster has at most 25 characters"
// +kubebuilder:validation:XValidation:rule="!self.metadata.name.contains('.')",message="the name of a MySQLCluster cannot hold a dot: it becomes part of the name of a Service"
type MySQLCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what you want.
	// +required
	Spec MySQLClusterSpec `json:"spec"`
	// status is what there is; the operator writes it.
	// +optional
	// +kubebuilder:default:={"observedGeneration":-1}
	Status MySQLClusterStatus `json:"status,omitzero"`
}

// MySQLClusterList is a list of objects of the kind MySQLCluster.
// +kubebuilder:object:root=true
type MySQLClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []MySQLCluster `json:"items"`
}
