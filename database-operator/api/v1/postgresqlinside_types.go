// SPDX-License-Identifier: Apache-2.0

package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// PostgreSQLRole is a role of PostgreSQL: a user, or a group that users are members of. What is not said is not
// allowed; what leads past the engine (superuser, createrole, replication) nobody can be given.
// +kubebuilder:validation:XValidation:rule="self.name == 'app' || has(self.login) && !self.login || has(self.passwordFrom)",message="a role that logs in needs passwordFrom: nobody is let in without a password. Set login to false for a role that others are members of"
type PostgreSQLRole struct {
	// name that it logs in with.
	// +required
	// +kubebuilder:validation:Pattern=`^[a-zA-Z_][a-zA-Z0-9_$.@-]{0,62}$`
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self != 'postgres'",message="the role postgres is the instance's own superuser: name another one"
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('zeroinfra_')",message="names of roles that begin with zeroinfra_ are the engine's own: name another one"
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('pg_')",message="names of roles that begin with pg_ are PostgreSQL's own: name another one"
	Name string `json:"name"`
	// passwordFrom names a Secret in the same namespace and the key that holds the password, of printable ASCII
	// characters. PostgreSQL follows a change of it. That of the role app, which the binding hands out, is the password in
	// the binding.
	// +optional
	PasswordFrom *platformv1.SecretKeyReference `json:"passwordFrom,omitempty"`
	// login is false for a role that cannot log in. Default true.
	// +optional
	// +kubebuilder:default=true
	Login *bool `json:"login,omitempty"`
	// inherit is false for a role that has the rights of the roles in memberOf only after SET ROLE. Default true.
	// +optional
	// +kubebuilder:default=true
	Inherit *bool `json:"inherit,omitempty"`
	// createDatabase lets it make databases.
	// +optional
	CreateDatabase bool `json:"createDatabase,omitempty" parameter:"-"`
	// bypassRowSecurity has it see rows that policies of tables hide.
	// +optional
	BypassRowSecurity bool `json:"bypassRowSecurity,omitempty" parameter:"-"`
	// connectionLimit is how many sessions it may have at once; -1 for any number. Default -1.
	// +optional
	// +kubebuilder:default=-1
	// +kubebuilder:validation:Minimum=-1
	// +kubebuilder:validation:Maximum=262143
	ConnectionLimit *int32 `json:"connectionLimit,omitempty"`
	// validUntil is when the password ends; never when left out.
	// +optional
	ValidUntil *metav1.Time `json:"validUntil,omitempty"`
	// memberOf are roles whose rights it has, such as pg_read_all_data.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:Pattern=`^[a-zA-Z_][a-zA-Z0-9_$.@-]{0,62}$`
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="!self.exists(r, r.startsWith('zeroinfra_') || r in ['postgres', 'pg_execute_server_program', 'pg_read_server_files', 'pg_write_server_files'])",message="memberOf cannot have postgres, pg_execute_server_program, pg_read_server_files, pg_write_server_files and what begins with zeroinfra_: with these a role would be past the engine"
	MemberOf []string `json:"memberOf,omitempty"`
	// grants are what it may do with databases, schemas and tables, beside what it owns and what memberOf gives it. Each
	// is an Entity; one that is taken out is revoked.
	// +optional
	// +listType=map
	// +listMapKey=database
	// +listMapKey=schema
	// +listMapKey=table
	// +kubebuilder:validation:MaxItems=64
	Grants []PostgreSQLGrant `json:"grants,omitempty" parameter:"-"`
	// adopt takes over a role of this name, and grants to it, that somebody made by hand; they become what is said here.
	// Without it, they are left alone and the object is stalled.
	// +optional
	Adopt bool `json:"adopt,omitempty"`
}

// PostgreSQLGrant is what a role may do with a database, with a schema of it, or with a table of that.
// +kubebuilder:validation:XValidation:rule="!has(self.table) || size(self.table) == 0 || has(self.schema) && size(self.schema) > 0",message="a grant on a table needs schema: name the schema that the table is in, such as public"
// +kubebuilder:validation:XValidation:rule="has(self.schema) && size(self.schema) > 0 || self.privileges.all(p, p in ['CONNECT', 'CREATE', 'TEMPORARY'])",message="on a database there are the privileges CONNECT, CREATE and TEMPORARY: name schema, and table, for others"
// +kubebuilder:validation:XValidation:rule="!has(self.schema) || size(self.schema) == 0 || has(self.table) && size(self.table) > 0 || self.privileges.all(p, p in ['CREATE', 'USAGE'])",message="on a schema there are the privileges CREATE and USAGE: name table for others"
// +kubebuilder:validation:XValidation:rule="!has(self.table) || size(self.table) == 0 || self.privileges.all(p, p in ['DELETE', 'INSERT', 'REFERENCES', 'SELECT', 'TRIGGER', 'TRUNCATE', 'UPDATE'])",message="on a table there are the privileges DELETE, INSERT, REFERENCES, SELECT, TRIGGER, TRUNCATE and UPDATE"
type PostgreSQLGrant struct {
	// database that it is in.
	// +required
	// +kubebuilder:validation:Pattern=`^[a-zA-Z_][a-zA-Z0-9_$.@-]{0,62}$`
	// +kubebuilder:validation:MaxLength=63
	Database string `json:"database"`
	// schema of the database; the database itself when empty.
	// +optional
	// +kubebuilder:default=""
	// +kubebuilder:validation:Pattern=`^([a-zA-Z_][a-zA-Z0-9_$.@-]{0,62})?$`
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('pg_') && self != 'information_schema'",message="a schema of PostgreSQL's own is granted to nobody: name another one"
	Schema string `json:"schema"`
	// table of the schema; the schema itself when empty. It has to be there.
	// +optional
	// +kubebuilder:default=""
	// +kubebuilder:validation:Pattern=`^([a-zA-Z_][a-zA-Z0-9_$.@-]{0,62})?$`
	// +kubebuilder:validation:MaxLength=63
	Table string `json:"table"`
	// privileges: CONNECT, CREATE, TEMPORARY on a database; CREATE, USAGE on a schema; DELETE, INSERT, REFERENCES, SELECT,
	// TRIGGER, TRUNCATE, UPDATE on a table.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=7
	Privileges []PostgreSQLPrivilege `json:"privileges"`
}

// PostgreSQLPrivilege is a right that can be granted, as SQL calls it.
// +kubebuilder:validation:Enum=CONNECT;CREATE;DELETE;INSERT;REFERENCES;SELECT;TEMPORARY;TRIGGER;TRUNCATE;UPDATE;USAGE
type PostgreSQLPrivilege string

// PostgreSQLDatabase is a database.
// +kubebuilder:validation:XValidation:rule="self.encoding != 'LATIN1' || self.locale != 'C.UTF-8'",message="encoding LATIN1 needs locale C or POSIX: C.UTF-8 is for UTF8"
// +kubebuilder:validation:XValidation:rule="self.encoding == oldSelf.encoding && self.locale == oldSelf.locale",message="encoding and locale of a database cannot change once it is made: add another database and copy the data"
type PostgreSQLDatabase struct {
	// name of the database.
	// +required
	// +kubebuilder:validation:Pattern=`^[a-zA-Z_][a-zA-Z0-9_$.@-]{0,62}$`
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="!(self in ['postgres', 'template0', 'template1'])",message="the databases postgres, template0 and template1 are there from the beginning: name another one"
	Name string `json:"name"`
	// owner is a role that may do everything with it. Default: the superuser.
	// +optional
	// +kubebuilder:validation:Pattern=`^[a-zA-Z_][a-zA-Z0-9_$.@-]{0,62}$`
	// +kubebuilder:validation:MaxLength=63
	Owner string `json:"owner,omitempty"`
	// connectionLimit is how many sessions there may be in it at once; -1 for any number. Default -1.
	// +optional
	// +kubebuilder:default=-1
	// +kubebuilder:validation:Minimum=-1
	// +kubebuilder:validation:Maximum=262143
	ConnectionLimit *int32 `json:"connectionLimit,omitempty"`
	// encoding of texts. Immutable. Default UTF8.
	// +optional
	// +kubebuilder:default=UTF8
	// +kubebuilder:validation:Enum=UTF8;SQL_ASCII;LATIN1
	Encoding string `json:"encoding,omitempty"`
	// locale by which texts are ordered. Immutable. Default C.UTF-8.
	// +optional
	// +kubebuilder:default=C.UTF-8
	// +kubebuilder:validation:Enum=C;C.UTF-8;POSIX
	Locale string `json:"locale,omitempty"`
	// extensions of those that the image has. Each is an Entity.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=48
	Extensions []PostgreSQLExtension `json:"extensions,omitempty" parameter:"-"`
	// deletionPolicy says what becomes of the database, and of its extensions, when they are taken out of the list: Retain
	// leaves them, Delete drops them with all that is in them. When the PostgreSQL is deleted, its own deletionPolicy
	// counts. Default Retain.
	// +optional
	// +kubebuilder:default=Retain
	// +kubebuilder:validation:Enum=Retain;Delete
	DeletionPolicy platformv1.EntityDeletionPolicy `json:"deletionPolicy,omitempty"`
	// adopt takes over a database of this name, and extensions in it, that somebody made by hand. Without it, such a one
	// is left alone and the object is stalled.
	// +optional
	Adopt bool `json:"adopt,omitempty"`
}

// PostgreSQLExtension is an extension in a database.
type PostgreSQLExtension struct {
	// name of the extension, such as pgcrypto. An unknown one is refused with a list of those that there are.
	// +required
	// +kubebuilder:validation:Pattern=`^[a-z][a-z0-9_-]*$`
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// version, which can go up; the one that is there, or the image's newest, when left out.
	// +optional
	// +kubebuilder:validation:Pattern=`^[0-9]{1,4}([.][0-9]{1,4}){0,2}$`
	// +kubebuilder:validation:MaxLength=14
	Version string `json:"version,omitempty"`
	// schema that its objects are in, which has to be there. Default public.
	// +optional
	// +kubebuilder:default=public
	// +kubebuilder:validation:Pattern=`^[a-zA-Z_][a-zA-Z0-9_$-]{0,62}$`
	// +kubebuilder:validation:MaxLength=63
	Schema string `json:"schema,omitempty"`
}
