// SPDX-License-Identifier: Apache-2.0

package v1

import platformv1 "github.com/zeroinfra/platform-core/api/v1"

// MySQLUser is a user of MySQL and what it may do.
// +kubebuilder:validation:XValidation:rule="!has(self.grants) || self.grants.all(g, !(g.database in ['mysql', 'sys', 'information_schema', 'performance_schema']))",message="nothing of MySQL's own databases is granted: take mysql, sys, information_schema and performance_schema out of grants"
type MySQLUser struct {
	// name that it logs in with.
	// +required
	// +kubebuilder:validation:Pattern=`^[a-zA-Z_][a-zA-Z0-9_.$-]{0,31}$`
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="!(self in ['root', 'app'])",message="the users root and app are the instance's own: name another one"
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('zeroinfra') && !self.startsWith('mysql.')",message="names of users that begin with zeroinfra or mysql. are taken: name another one"
	Name string `json:"name"`
	// host is where it may come from: an address, or a pattern such as 10.1.%. Default %, which is anywhere.
	// +optional
	// +kubebuilder:default="%"
	// +kubebuilder:validation:Pattern=`^[a-zA-Z0-9_.%:-]{1,60}$`
	// +kubebuilder:validation:MaxLength=60
	Host string `json:"host,omitempty" parameter:"-"`
	// passwordFrom names a Secret in the same namespace and the key that holds the password. MySQL follows a change of
	// it.
	// +required
	PasswordFrom platformv1.SecretKeyReference `json:"passwordFrom"`
	// keepPreviousPassword has the password of before stay valid when the Secret has another one, until the next change
	// or until this is taken out, so that clients change one by one.
	// +optional
	KeepPreviousPassword bool `json:"keepPreviousPassword,omitempty"`
	// locked keeps it out, and leaves all that it has.
	// +optional
	Locked bool `json:"locked,omitempty"`
	// requireTLS lets it in over TLS only. With tls.enabled nobody else is let in either.
	// +optional
	RequireTLS bool `json:"requireTLS,omitempty"`
	// maxConnections are the sessions that it may have at once; 0 for any number.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100000
	MaxConnections int32 `json:"maxConnections,omitempty"`
	// globalPrivileges are what it may do in the server as a whole.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=4
	GlobalPrivileges []MySQLGlobalPrivilege `json:"globalPrivileges,omitempty"`
	// grants are what it may do with databases and tables. Each is an Entity; one that is taken out is revoked.
	// +optional
	// +listType=map
	// +listMapKey=database
	// +listMapKey=table
	// +kubebuilder:validation:MaxItems=64
	Grants []MySQLGrant `json:"grants,omitempty" parameter:"-"`
	// adopt takes over a user of this name, and grants to it, that somebody made by hand; they become what is said here.
	// Without it, they are left alone and the object is stalled.
	// +optional
	Adopt bool `json:"adopt,omitempty"`
}

// MySQLGlobalPrivilege is a privilege in the server as a whole that leads to nothing that the engine keeps.
// +kubebuilder:validation:Enum=PROCESS;REPLICATION_CLIENT;REPLICATION_SLAVE;SHOW_DATABASES
type MySQLGlobalPrivilege string

// MySQLGrant is what a user may do with a database, or with a table of it.
// +kubebuilder:validation:XValidation:rule="self.privileges.size() == 1 || !('ALL' in self.privileges)",message="ALL are all privileges: take the others out"
// +kubebuilder:validation:XValidation:rule="!has(self.table) || size(self.table) == 0 || self.privileges.all(p, p in ['ALL', 'ALTER', 'CREATE', 'CREATE_VIEW', 'DELETE', 'DROP', 'INDEX', 'INSERT', 'REFERENCES', 'SELECT', 'SHOW_VIEW', 'TRIGGER', 'UPDATE'])",message="on a table there are ALTER, CREATE, CREATE_VIEW, DELETE, DROP, INDEX, INSERT, REFERENCES, SELECT, SHOW_VIEW, TRIGGER and UPDATE, and ALL"
type MySQLGrant struct {
	// database that it is on, by its name: an underscore stands for itself.
	// +required
	// +kubebuilder:validation:Pattern=`^[a-zA-Z0-9_$-]{1,63}$`
	// +kubebuilder:validation:MaxLength=63
	Database string `json:"database"`
	// table of it; the whole database when empty.
	// +optional
	// +kubebuilder:default=""
	// +kubebuilder:validation:Pattern=`^[a-zA-Z0-9_$-]{0,63}$`
	// +kubebuilder:validation:MaxLength=63
	Table string `json:"table,omitempty"`
	// privileges such as SELECT and CREATE_VIEW, or ALL.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=18
	Privileges []MySQLPrivilege `json:"privileges"`
}

// MySQLPrivilege is a privilege on a database or a table, with underscores for blanks.
// +kubebuilder:validation:Enum=ALL;ALTER;ALTER_ROUTINE;CREATE;CREATE_ROUTINE;CREATE_TEMPORARY_TABLES;CREATE_VIEW;DELETE;DROP;EVENT;EXECUTE;INDEX;INSERT;LOCK_TABLES;REFERENCES;SELECT;SHOW_VIEW;TRIGGER;UPDATE
type MySQLPrivilege string

// MySQLDatabase is a database.
type MySQLDatabase struct {
	// name of it.
	// +required
	// +kubebuilder:validation:Pattern=`^[a-zA-Z0-9_$-]{1,63}$`
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="!(self in ['app', 'mysql', 'sys', 'information_schema', 'performance_schema'])",message="app and the databases of the server are there already: name another one"
	Name string `json:"name"`
	// charset of tables that say none; that of the server when it is made, and what it has later, when left out.
	// +optional
	// +kubebuilder:validation:Pattern=`^[a-z0-9]{1,32}$`
	Charset string `json:"charset,omitempty"`
	// collation of tables that say none; that of the charset when left out.
	// +optional
	// +kubebuilder:validation:Pattern=`^[a-z0-9]{1,32}(_[a-z0-9]{1,32}){1,6}$`
	Collation string `json:"collation,omitempty"`
	// deletionPolicy says what becomes of it when it is taken out of the list: it stays (Retain), or is dropped with all
	// that is in it (Delete). Default Retain.
	// +optional
	// +kubebuilder:default=Retain
	DeletionPolicy platformv1.EntityDeletionPolicy `json:"deletionPolicy,omitempty"`
	// adopt takes over a database of this name that somebody made by hand. Without it, it is left alone and the object is
	// stalled.
	// +optional
	Adopt bool `json:"adopt,omitempty"`
}
