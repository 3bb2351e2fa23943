// SPDX-License-Identifier: Apache-2.0

package v1

import (
	corev1 "k8s.io/api/core/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// PostgreSQLPooler are PgBouncers in pods of their own, in the same places as the servers, with metrics where these
// have them. The roles of the instance log in there with their own passwords.
type PostgreSQLPooler struct {
	// replicas are the pods. Default 2.
	// +optional
	// +kubebuilder:default=2
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10
	Replicas int32 `json:"replicas,omitempty"`
	// mode says for how long a client has a session with the primary for itself: for its own Session, for a Transaction,
	// or for a Statement. Clients of a Session see a change of the primary. Default Transaction.
	// +optional
	// +kubebuilder:default=Transaction
	Mode PoolMode `json:"mode,omitempty"`
	// parameters of PgBouncer by the names of pgbouncer.ini, such as default_pool_size. Each is checked.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!('pool_mode' in self)",message="set spec.pooler.mode in place of the parameter pool_mode"
	Parameters platformv1.Parameters `json:"parameters,omitempty"`
	// resources of the PgBouncer container of each pod. The plugin's defaults when left out.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.claims)",message="pooler.resources.claims is not supported"
	Resources corev1.ResourceRequirements `json:"resources,omitzero"`
	// service says how clients reach the pooler. Default: of type ClusterIP.
	// +optional
	Service *platformv1.ServiceExposure `json:"service,omitempty"`
}

// PoolMode says for how long a client has a session with the server for itself.
// +kubebuilder:validation:Enum=Session;Transaction;Statement
type PoolMode string

// Modes of a pool.
const (
	// PoolSession: until the client leaves.
	PoolSession PoolMode = "Session"
	// PoolTransaction: until the transaction ends.
	PoolTransaction PoolMode = "Transaction"
	// PoolStatement: until the statement ends; there are no transactions of several.
	PoolStatement PoolMode = "Statement"
)

// PostgreSQLHBARule is a rule of pg_hba.conf. It fits a connection that is of its type, to one of its databases, by one
// of its users, from its address.
// +kubebuilder:validation:XValidation:rule="self.method != 'cert' || self.type == 'hostssl'",message="method cert needs type hostssl: only with TLS does a client show a certificate"
type PostgreSQLHBARule struct {
	// type: any connection over the network (host), only those with TLS (hostssl), or only those without (hostnossl).
	// Default host.
	// +optional
	// +kubebuilder:default=host
	Type HBAType `json:"type,omitempty"`
	// databases by name; all when left out.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=30
	// +kubebuilder:validation:items:Pattern=`^[a-zA-Z_][a-zA-Z0-9_$.@-]{0,62}$`
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="!self.exists(d, d in ['all', 'sameuser', 'samerole', 'samegroup', 'replication'])",message="all, sameuser, samerole, samegroup and replication are keywords of pg_hba.conf: name databases, or leave databases out for all"
	Databases []string `json:"databases,omitempty"`
	// users are roles by name, each with a plus sign before it for whoever is a member of it; all when left out.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=30
	// +kubebuilder:validation:items:Pattern=`^[+]?[a-zA-Z_][a-zA-Z0-9_$.@-]{0,62}$`
	// +kubebuilder:validation:items:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="!self.exists(u, u in ['all', '+all', 'sameuser', 'samerole', 'samegroup', 'replication'])",message="all, sameuser, samerole, samegroup and replication are keywords of pg_hba.conf: name roles, or leave users out for all"
	// +kubebuilder:validation:XValidation:rule="!self.exists(u, u == 'postgres' || u.startsWith('zeroinfra_'))",message="postgres and what begins with zeroinfra_ are the engine's own, which are let in by their passwords before any rule: name others"
	Users []string `json:"users,omitempty"`
	// address: all, or a network such as 10.0.0.0/8, 10.1.2.3/32 or fd00::/8. Default all.
	// +optional
	// +kubebuilder:default=all
	// +kubebuilder:validation:MaxLength=43
	// +kubebuilder:validation:XValidation:rule="self == 'all' || self.matches('^(([0-9]|[1-9][0-9]|1[0-9][0-9]|2[0-4][0-9]|25[0-5])[.]){3}([0-9]|[1-9][0-9]|1[0-9][0-9]|2[0-4][0-9]|25[0-5])/([0-9]|[12][0-9]|3[0-2])$') || self.matches('^[0-9a-fA-F:]*:[0-9a-fA-F:]*/([0-9]|[1-9][0-9]|1[01][0-9]|12[0-8])$')",message="address must be all, or an address and the length of its network such as 10.0.0.0/8 or fd00::/8"
	Address string `json:"address,omitempty"`
	// method: he needs his password (scram-sha-256), he is refused (reject), or, with type hostssl, he shows a certificate
	// of the CA in the binding Secret that has the role as its common name (cert).
	// +required
	Method HBAMethod `json:"method"`
}

// HBAType says which connections a rule is for.
// +kubebuilder:validation:Enum=host;hostssl;hostnossl
type HBAType string

// Types of rules.
const (
	HBATypeHost      HBAType = "host"
	HBATypeHostSSL   HBAType = "hostssl"
	HBATypeHostNoSSL HBAType = "hostnossl"
)

// HBAMethod says how a client shows who it is.
// +kubebuilder:validation:Enum=scram-sha-256;reject;cert
type HBAMethod string

// Methods of rules.
const (
	HBAMethodSCRAM  HBAMethod = "scram-sha-256"
	HBAMethodReject HBAMethod = "reject"
	HBAMethodCert   HBAMethod = "cert"
)
