// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"k8s.io/apimachinery/pkg/api/resource"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// RedisServers is what the kinds that are made of Redis servers have alike in their specs, beside what all instances
// have.
// +kubebuilder:validation:XValidation:rule="!has(self.maxmemory) || !has(self.resources) || !has(self.resources.limits) || !('memory' in self.resources.limits) || quantity(string(self.maxmemory)).compareTo(quantity(string(self.resources.limits['memory']))) <= 0",message="maxmemory cannot be above resources.limits.memory: the kernel would end the process before Redis makes room"
// +kubebuilder:validation:XValidation:rule="!has(self.restoreFrom) || !has(self.restoreFrom.target)",fieldPath=".restoreFrom",message="restoreFrom.target is a point in time, which is reached by an archived log, and Redis has none: leave it out"
// +kubebuilder:validation:XValidation:rule="!has(self.parameters) || !('maxmemory' in self.parameters)",fieldPath=".parameters",message="set spec.maxmemory in place of the parameter maxmemory"
// +kubebuilder:validation:XValidation:rule="!has(self.parameters) || !('maxmemory-policy' in self.parameters)",fieldPath=".parameters",message="set spec.maxmemoryPolicy in place of the parameter maxmemory-policy"
// +kubebuilder:validation:XValidation:rule="!has(self.parameters) || !('appendonly' in self.parameters)",fieldPath=".parameters",message="set spec.persistence.mode in place of the parameter appendonly"
// +kubebuilder:validation:XValidation:rule="!has(self.parameters) || !('appendfsync' in self.parameters)",fieldPath=".parameters",message="set spec.persistence.appendFsync in place of the parameter appendfsync"
// +kubebuilder:validation:XValidation:rule="!has(self.parameters) || !('save' in self.parameters)",fieldPath=".parameters",message="set spec.persistence.saveRules in place of the parameter save"
// +kubebuilder:validation:XValidation:rule="!has(self.parameters) || !('requirepass' in self.parameters)",fieldPath=".parameters",message="set spec.auth.passwordFrom in place of the parameter requirepass"
type RedisServers struct {
	// auth says where the password of the user "default" comes from. When left out,
	// a password is generated; status.bindingName names the Secret that holds it.
	// +optional
	Auth *Auth `json:"auth,omitempty"`
	// users of Redis' access control list, beside "default": each server has all of them, also one that comes later.
	// Each is an Entity that this object owns; taken out of the list, it is removed from Redis. An object is Ready
	// when its users are as asked.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=256
	Users []RedisUser `json:"users,omitempty"`
	// maxmemory is the most memory that each server uses for data, for example 256Mi; between 1Mi and 1Pi, and not
	// above resources.limits.memory. It changes while Redis runs. Default: what is left of resources.limits.memory
	// after 32Mi and a quarter of the rest, or a quarter of a limit below 48Mi; no limit without
	// resources.limits.memory.
	// +optional
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('1Mi')) >= 0 && quantity(string(self)).compareTo(quantity('1Pi')) <= 0",message="maxmemory must be between 1Mi and 1Pi"
	Maxmemory *resource.Quantity `json:"maxmemory,omitempty"`
	// maxmemoryPolicy says what Redis does at maxmemory: refuse writes (noeviction), or which keys
	// it gives up. It changes while Redis runs. Default noeviction.
	// +optional
	MaxmemoryPolicy MaxmemoryPolicy `json:"maxmemoryPolicy,omitempty"`
	// persistence says how data survives a restart. With replicas AOF or Both. Default: an append-only file, synced
	// every second.
	// +optional
	// +kubebuilder:default={mode: AOF}
	Persistence RedisPersistence `json:"persistence,omitzero"`
}

// RedisUser is a user of the access control list. What is not said is not allowed. What belongs to the engine, such
// as ACL, CONFIG and REPLICAOF, is kept from every user, whatever commands says.
type RedisUser struct {
	// name that it logs in with. "default" and "sentinel" are the instance's own.
	// +required
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9][A-Za-z0-9._@-]{0,62}$`
	// +kubebuilder:validation:XValidation:rule="self != 'default'",message="the user default is the instance's own: its password is auth.passwordFrom"
	// +kubebuilder:validation:XValidation:rule="self != 'sentinel'",message="the user sentinel is the instance's own: name another one"
	Name string `json:"name"`
	// passwordFrom names a Secret in the same namespace and the key that holds the password. Redis follows a change
	// of it.
	// +required
	PasswordFrom platformv1.SecretKeyReference `json:"passwordFrom"`
	// enabled is false for a user that cannot log in; its connections stay. Default true.
	// +optional
	// +kubebuilder:default=true
	Enabled *bool `json:"enabled,omitempty"`
	// keys that it may read and write: patterns as in ACL SETUSER with blanks between them, such as "~app:*
	// %R~shared:*". None when left out.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	// +kubebuilder:validation:Pattern=`^((~|%(R|W|RW)~)[^ "'\\]+( (~|%(R|W|RW)~)[^ "'\\]+)*)?$`
	Keys string `json:"keys,omitempty"`
	// channels that it may subscribe to and publish on, such as "&news.* &chat". None when left out.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	// +kubebuilder:validation:Pattern=`^(&[^ "'\\]+( &[^ "'\\]+)*)?$`
	Channels string `json:"channels,omitempty"`
	// commands and categories in order, of which later ones count, such as "+@read +@write -keys". None when left out.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	// +kubebuilder:validation:Pattern=`^([+-]@?[a-z0-9][a-z0-9_|-]*( [+-]@?[a-z0-9][a-z0-9_|-]*)*)?$`
	Commands string `json:"commands,omitempty"`
	// adopt takes over a user of this name that somebody made by hand; it becomes what is said here. Without it, such
	// a user is left alone and the object is stalled.
	// +optional
	Adopt bool `json:"adopt,omitempty"`
}

// MaxmemoryPolicy is what Redis does when maxmemory is reached, by its name in redis.conf.
// +kubebuilder:validation:Enum=noeviction;allkeys-lru;allkeys-lfu;allkeys-random;volatile-lru;volatile-lfu;volatile-random;volatile-ttl
type MaxmemoryPolicy string

// RedisPersistence says how data survives a restart.
// +kubebuilder:validation:XValidation:rule="self.mode == oldSelf.mode || (self.mode in ['AOF', 'Both'] && oldSelf.mode in ['AOF', 'Both'])",message="persistence.mode can change between AOF and Both only: after any other change Redis would start with no data or old data"
// +kubebuilder:validation:XValidation:rule="!has(self.appendFsync) || self.mode in ['AOF', 'Both']",message="persistence.appendFsync needs persistence.mode AOF or Both"
// +kubebuilder:validation:XValidation:rule="!has(self.saveRules) || self.mode in ['RDB', 'Both']",message="persistence.saveRules needs persistence.mode RDB or Both"
type RedisPersistence struct {
	// mode: AOF appends every write to a file, RDB saves snapshots, Both does both, None keeps
	// data in memory only, so that a restart loses it. Default AOF. It can change between AOF and Both.
	// +optional
	// +kubebuilder:default=AOF
	Mode PersistenceMode `json:"mode,omitempty"`
	// appendFsync says when the append-only file is synced to the disk: Always before a write is acknowledged
	// (nothing acknowledged is lost), EverySec (a crash of the node may lose a second, and of Redis on a slow disk
	// two), No (when the kernel likes). Default EverySec; Always where durability is set.
	// +optional
	AppendFsync AppendFsync `json:"appendFsync,omitempty"`
	// saveRules say when a snapshot is saved: when any one of them holds. Default: after 3600 s with 1
	// change, 300 s with 100 changes, 60 s with 10000 changes.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	SaveRules []SaveRule `json:"saveRules,omitempty"`
}

// PersistenceMode is a way to keep data.
// +kubebuilder:validation:Enum=AOF;RDB;Both;None
type PersistenceMode string

// Ways to keep data.
const (
	// PersistenceAOF appends every write to a file.
	PersistenceAOF PersistenceMode = "AOF"
	// PersistenceRDB saves snapshots.
	PersistenceRDB PersistenceMode = "RDB"
	// PersistenceBoth appends every write to a file and saves snapshots.
	PersistenceBoth PersistenceMode = "Both"
	// PersistenceNone keeps data in memory only.
	PersistenceNone PersistenceMode = "None"
)

// AppendFsync says when the append-only file is synced to the disk.
// +kubebuilder:validation:Enum=Always;EverySec;No
type AppendFsync string

// Times at which the append-only file is synced.
const (
	// AppendFsyncAlways syncs before a write is acknowledged.
	AppendFsyncAlways AppendFsync = "Always"
	// AppendFsyncEverySec syncs once a second.
	AppendFsyncEverySec AppendFsync = "EverySec"
	// AppendFsyncNo leaves it to the kernel.
	AppendFsyncNo AppendFsync = "No"
)

// SaveRule has a snapshot saved once this many seconds have passed and at least this many keys changed.
type SaveRule struct {
	// seconds since the last snapshot, up to a week.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=604800
	Seconds int32 `json:"seconds"`
	// changes since the last snapshot.
	// +required
	// +kubebuilder:validation:Minimum=1
	Changes int32 `json:"changes"`
}
