// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"maps"
	"slices"
)

// Protocols that the ops agent has a driver for.
const (
	ProtocolKafka = "kafka"
	// ProtocolKafkaExternal is for a Kafka outside of the pod and of the suite: Settings say where it is.
	ProtocolKafkaExternal = "kafka-external"

	ProtocolMinIO = "minio"
	ProtocolMySQL = "mysql"
	// ProtocolMySQLRouter is the REST API of a MySQL Router.
	ProtocolMySQLRouter = "mysqlrouter"
	ProtocolNginx       = "nginx"
	ProtocolPgBouncer   = "pgbouncer"
	ProtocolPostgreSQL  = "postgresql"
	ProtocolRedis       = "redis"
	// ProtocolS3 is for a storage outside of the pod and of the cluster: Settings say where it is.
	ProtocolS3 = "s3"
)

// EntityKind is what a driver knows of one kind of objects.
type EntityKind struct {
	// Parameters that it takes.
	Parameters []string
	// Password says that it takes one.
	Password bool
}

// DriverProtocol is what plugins and plans may ask of the driver for one protocol.
type DriverProtocol struct {
	// Kinds of objects that it keeps, by name; none for one that is only asked.
	Kinds map[string]EntityKind
	// Settings are what it has to be told to find what is not in its pod, in alphabetical order; empty for a protocol
	// whose process has an address there.
	Settings []string
	// Databases says that a query may name the database that it is asked of.
	Databases bool
	// Authorities says that the process itself goes to servers elsewhere, and may be given authorities for them.
	Authorities bool
	// Forgets says that the process forgets its objects when it is restarted, unless EntitiesFile keeps them.
	Forgets bool
}

// driverProtocols is the one table of them: those who load plugins, check plans and open drivers go by it.
var driverProtocols = map[string]DriverProtocol{
	ProtocolKafka: {Kinds: map[string]EntityKind{
		// What a user, a client or both may use: user/<name>, client/<id> or user/<name>/client/<id>.
		"quota": {Parameters: []string{"producer-byte-rate", "consumer-byte-rate", "request-percentage",
			"controller-mutation-rate"}},
		// With its configuration and access rules, both as JSON.
		"topic": {Parameters: []string{"partitions", "replication-factor", "config", "access", "delete-while-consumed"}},
		// A credential for SCRAM-SHA-512.
		"user": {Parameters: []string{"iterations"}, Password: true},
	}},
	// Users are made where the cluster is looked after.
	ProtocolKafkaExternal: {Kinds: map[string]EntityKind{
		"quota": {Parameters: []string{"producer-byte-rate", "consumer-byte-rate", "request-percentage",
			"controller-mutation-rate"}},
		"topic": {Parameters: []string{"partitions", "replication-factor", "config", "access", "delete-while-consumed"}},
	}, Settings: []string{SettingBootstrap, SettingMechanism, SettingSecurity}},
	ProtocolMinIO: {Authorities: true, Kinds: map[string]EntityKind{
		"bucket": {Parameters: []string{"versioning", "object-lock", "retention-mode", "retention-days", "access", "policy",
			"lifecycle", "quota"}},
		// What users may be allowed, by name.
		"policy": {Parameters: []string{"document"}},
		// <bucket>/<rule>. Its password is the secret key of an account at the target.
		"replication": {Parameters: []string{"endpoint", "target-bucket", "access-key", "prefix", "delete-markers", "deletes",
			"existing-objects", "bandwidth", "synchronous"},
			Password: true},
		// Its name is the access key, and its password the secret key.
		"user": {Parameters: []string{"enabled", "grants", "policies"}, Password: true},
	}},
	ProtocolMySQL: {Kinds: map[string]EntityKind{
		"database": {Parameters: []string{"charset", "collation"}},
		// <user> or <user>@<host>, and below that a database and a table.
		"grant": {Parameters: []string{"privileges"}},
		"user": {Parameters: []string{"global-privileges", "keep-previous-password", "locked", "max-connections",
			"require-tls"}, Password: true},
	}},
	// They have no objects that are kept: they are asked.
	ProtocolMySQLRouter: {},
	ProtocolNginx:       {},
	ProtocolPgBouncer:   {},
	ProtocolPostgreSQL: {Databases: true, Kinds: map[string]EntityKind{
		"database": {Parameters: []string{"owner", "encoding", "locale", "connection-limit"}},
		"role": {Parameters: []string{"login", "inherit", "attributes", "connection-limit", "valid-until", "member-of"},
			Password: true},
		// Within a database, whose name is a part of its own: <database>/<extension>.
		"extension": {Parameters: []string{"version", "schema"}},
		// <role>/<database>, and below that a schema and a table.
		"grant": {Parameters: []string{"privileges"}},
	}},
	ProtocolRedis: {Forgets: true, Kinds: map[string]EntityKind{
		// A user of the access control list.
		"acl-user": {Parameters: []string{"enabled", "keys", "channels", "commands"}, Password: true},
	}},
	ProtocolS3: {Kinds: map[string]EntityKind{
		// What S3 has words for: how much may be in a bucket is not among it, and neither are users.
		"bucket": {Parameters: []string{"versioning", "object-lock", "retention-mode", "retention-days", "access", "policy",
			"lifecycle"}},
	}, Settings: []string{SettingAddressing, SettingEndpoint, SettingRegion}},
}

// DriverProtocols are the names of all protocols, in alphabetical order.
func DriverProtocols() []string { return slices.Sorted(maps.Keys(driverProtocols)) }

// DriverFor is what may be asked of the driver for a protocol; nothing of one that is unknown.
func DriverFor(protocol string) DriverProtocol { return driverProtocols[protocol] }

// Settings of ProtocolS3.
const (
	// SettingEndpoint is a URL of a scheme and a host, maybe with a port.
	SettingEndpoint = "endpoint"
	// SettingRegion that requests are signed for and buckets are made in.
	SettingRegion = "region"
	// SettingAddressing says where the name of a bucket is in an address: path, or AddressingVirtualHost.
	SettingAddressing = "addressing"
	// AddressingVirtualHost has the name of a bucket in that of the host.
	AddressingVirtualHost = "virtualhost"
)

// Settings of ProtocolKafkaExternal.
const (
	// SettingBootstrap are hosts and ports of brokers, separated by commas.
	SettingBootstrap = "bootstrap"
	// SettingMechanism of the login: SCRAM-SHA-512, SCRAM-SHA-256 or PLAIN.
	SettingMechanism = "mechanism"
	// SettingSecurity says whether the listener speaks TLS: SASL_SSL or SASL_PLAINTEXT.
	SettingSecurity = "security"
)

// Driver has the ops agent speak the middleware's own protocol, where that is better than its command line.
type Driver struct {
	// Protocol is one of those above.
	Protocol string `json:"protocol"`
	// Address of the process in its pod: host and port. Empty where Settings say where it is.
	Address string `json:"address,omitempty"`
	// Settings are those of DriverProtocol by name.
	Settings map[string]string `json:"settings,omitempty"`
	// TLS says that the process speaks TLS there; its certificate must lead to CAFile.
	TLS bool `json:"tls,omitempty"`
	// Username that the driver logs in as.
	Username string `json:"username,omitempty"`
	// Account is the name that the driver logs in as, where that is kept like a password; it takes the place of Username.
	Account *SecretRef `json:"account,omitempty"`
	// CA that the certificate of what Settings name leads to, as PEM; those of the image when nil. For ProtocolMinIO it is
	// that of targets of replication, beside those of the image.
	CA *SecretRef `json:"ca,omitempty"`
	// Password of that user.
	Password *SecretRef `json:"password,omitempty"`
	// EntitiesFile, below ConfigDir, is where the driver keeps the objects that it made in the words of a configuration
	// file, for a middleware that forgets them when it is restarted. It has digests of passwords, and lives as long as the
	// pod.
	EntitiesFile string `json:"entitiesFile,omitempty"`
}

// EntityType is a type of objects inside the middleware that the ops agent observes and changes: by the driver, or by
// actions.
type EntityType struct {
	// Type as the plugin calls it.
	Type string `json:"type"`
	// Kind as the driver calls it; empty where actions do it.
	Kind string `json:"kind,omitempty"`
	// Actions by what they do; nil where the driver does it.
	Actions *EntityActions `json:"actions,omitempty"`
}

// EntityActions are the names of actions. Create and Update take the parameter "name", the object's parameters (empty
// where one is not set), and "password" where the type has one; Delete takes "name".
type EntityActions struct {
	// List writes a JSON object to standard output: of each object that is there its parameters by name, as texts.
	List string `json:"list"`
	// Create makes an object.
	Create string `json:"create"`
	// Update changes one; empty where that is not possible.
	Update string `json:"update,omitempty"`
	// Delete removes one; one that is not there is no error.
	Delete string `json:"delete"`
}

// Parameters of the actions of an entity that are not its own.
const (
	EntityName     = "name"
	EntityPassword = "password"
)

// EntityType returns the type with the name.
func (p *Plan) EntityType(name string) (*EntityType, bool) {
	for i := range p.Entities {
		if p.Entities[i].Type == name {
			return &p.Entities[i], true
		}
	}
	return nil, false
}
