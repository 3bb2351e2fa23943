// SPDX-License-Identifier: Apache-2.0

//go:build integration

package v1_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/testkit"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
)

// fullRole says everything that there is to say of a role.
const fullRole = `{name: a, passwordFrom: {name: x, key: k}, connectionLimit: 5, createDatabase: true,
  bypassRowSecurity: true, validUntil: "2027-01-31T00:00:00Z", memberOf: [pg_read_all_data, b], adopt: true,
  grants: [{database: d, privileges: [CONNECT]}, {database: d, schema: public, privileges: [USAGE, CREATE]},
  {database: d, schema: public, table: t, privileges: [SELECT, INSERT]}]}`

// postgreSQLs are specs, and what is said of those that are wrong.
var postgreSQLs = map[string]struct{ name, spec, want string }{
	"smallest":   {"a", ``, ""},
	"name of 27": {strings.Repeat("a", 27), ``, ""},
	"point in time": {"p", `restoreFrom: {backup: b, target: {time: ` +
		`"2026-01-31T12:00:00.123456+01:00", parameters: {archive.bucket: logs, archive.prefix: a/b}, credentials: ` +
		`[{name: archive, passwordFrom: {name: x, key: k}}]}}`, ""},
	"no point in time": {"b", `restoreFrom: {backup: b, target: {time: "yesterday"}}`,
		"spec.restoreFrom.target.time"},
	"a second of seven digits": {"b", `restoreFrom: {backup: b, target: {time: "2026-01-31T12:00:00.1234567Z"}}`,
		"spec.restoreFrom.target.time"},
	"target without a time": {"b", `restoreFrom: {backup: b, target: {parameters: {archive.bucket: logs}}}`,
		"spec.restoreFrom.target.time"},
	"the archive that it comes from": {"from-here", `{archive: {endpoint: "http://s3:9000", bucket: logs, prefix: a/b, ` +
		`accessKey: app, secretKeyFrom: {name: x}}, restoreFrom: {backup: b, target: {time: "2026-01-31T12:00:00Z", ` +
		`parameters: {archive.endpoint: "http://s3:9000", archive.bucket: logs, archive.prefix: a/b}}}}`, ""},
	"the archive at an IPv6 address": {"at-ipv6",
		`archive: {endpoint: "http://[fd00::5]:9000", bucket: logs, accessKey: app, secretKeyFrom: {name: x}}`, ""},
	"another archive": {"q", `{archive: {endpoint: "http://s3:9000", bucket: logs, prefix: a/c, ` +
		`accessKey: app, secretKeyFrom: {name: x}}, restoreFrom: {backup: b, target: {time: "2026-01-31T12:00:00Z", ` +
		`parameters: {archive.endpoint: "http://s3:9000", archive.bucket: logs, archive.prefix: a/b}}}}`, ""},
	"archive in a repository": {"k", `{archive: {repositoryRef: {name: store}, timeout: 1m}, restoreFrom: ` +
		`{backup: b, target: {time: "2026-01-31T12:00:00Z", repositoryRef: {name: store}}}}`, ""},
	"archive nowhere": {"b", `archive: {timeout: 1m}`,
		"exactly one of archive.repositoryRef and archive.bucket"},
	"archive in two places": {"b", `archive: {repositoryRef: {name: store}, endpoint: "http://s3:9000", ` +
		`bucket: logs, accessKey: app, secretKeyFrom: {name: x}}`,
		"exactly one of archive.repositoryRef and archive.bucket"},
	"repository and more": {"b", `archive: {repositoryRef: {name: store}, addressing: Path}`,
		"are for archive.bucket"},
	"repository and a CA": {"b", `archive: {repositoryRef: {name: store}, caFrom: {name: x}}`,
		"are for archive.bucket"},
	"repository without a name": {"b", `archive: {repositoryRef: {}}`, "spec.archive.repositoryRef.name"},
	"bucket without an account": {"b", `archive: {endpoint: "http://s3:9000", bucket: logs}`,
		"archive.bucket needs archive.endpoint, archive.accessKey and archive.secretKeyFrom"},
	"bucket without an endpoint": {"b", `archive: {bucket: logs, accessKey: app, secretKeyFrom: {name: x}}`,
		"archive.bucket needs archive.endpoint, archive.accessKey and archive.secretKeyFrom"},
	"name of 28":              {strings.Repeat("a", 28), ``, "at most 27 characters"},
	"name with a dot":         {"a.b", ``, "cannot hold a dot"},
	"name with a digit first": {"1web", ``, ""},
	"no major version":        {"b", `version: "17.2"`, "spec.version"},
	"version that is a word":  {"b", `version: latest`, "spec.version"},
	"no version":              {"b", `version: ""`, "spec.version"},
	"replicas": {"c",
		`{replicas: 4, failover: {mode: Manual, after: 10s}, synchronous: {replicas: 4, method: First, shortage: Continue}}`,
		""},
	"autoscaling": {"m",
		`{autoscaling: {minReplicas: 2, maxReplicas: 4, memoryUtilization: 70}, synchronous: {replicas: 2}}`, ""},
	"autoscaling by a metric": {"o", `{monitoring: {enabled: true}, autoscaling: {minReplicas: 1, maxReplicas: 4, ` +
		`metrics: [{name: postgresql_connections, averageValue: 60}]}}`, ""},
	"autoscaling by a metric that nobody reads": {"b", `{autoscaling: {minReplicas: 1, maxReplicas: 4, ` +
		`metrics: [{name: postgresql_connections, averageValue: 60}]}}`, "set monitoring.enabled"},
	"autoscaling beside replicas": {"b",
		`{replicas: 1, autoscaling: {minReplicas: 1, maxReplicas: 4, cpuUtilization: 70}}`, "take replicas out"},
	"more copies than autoscaling": {"b",
		`{autoscaling: {minReplicas: 1, maxReplicas: 4, cpuUtilization: 70}, synchronous: {replicas: 2}}`,
		"or autoscaling.minReplicas"},
	"negative replicas": {"b", `replicas: -1`, "spec.replicas"},
	"too many replicas": {"b", `replicas: 5`, "spec.replicas"},
	"more copies than replicas": {"b", `{replicas: 1, synchronous: {replicas: 2}}`,
		"synchronous.replicas cannot be above replicas"},
	"copies of one alone": {"b", `synchronous: {replicas: 1}`,
		"synchronous.replicas cannot be above replicas"},
	"no copies of one alone":      {"d", `synchronous: {replicas: 0}`, ""},
	"negative copies":             {"b", `{replicas: 2, synchronous: {replicas: -1}}`, "spec.synchronous.replicas"},
	"method":                      {"b", `{replicas: 2, synchronous: {method: any}}`, "spec.synchronous.method"},
	"shortage":                    {"b", `{replicas: 2, synchronous: {shortage: Panic}}`, "spec.synchronous.shortage"},
	"mode of failover":            {"b", `failover: {mode: Never}`, "spec.failover.mode"},
	"failover too soon":           {"b", `failover: {after: 1ms}`, "failover.after must be between 1s and 10m"},
	"failover with a lag":         {"b", `failover: {maxLag: 1Mi}`, "spec.failover.maxLag"},
	"claims":                      {"b", `resources: {claims: [{name: x}]}`, "resources.claims is not supported"},
	"no size":                     {"b", `storage: {size: "0"}`, "storage.size must be greater than 0"},
	"negative size":               {"b", `storage: {size: -1Gi}`, "storage.size must be greater than 0"},
	"storage class by itself":     {"e", `storage: {storageClassName: fast}`, ""},
	"password from nowhere":       {"b", `auth: {passwordFrom: {key: x}}`, "spec.auth.passwordFrom.name"},
	"parameters":                  {"f", `parameters: {max_connections: 100, work_mem: 8MB}`, ""},
	"parameter with a line break": {"b", `parameters: {search_path: "a\nfsync = off"}`, "spec.parameters.search_path"},
	"parameter of copies": {"b", `parameters: {synchronous.replicas: 1}`,
		"set spec.synchronous.replicas in place"},
	"parameter of their method": {"b", `parameters: {synchronous.method: any}`,
		"set spec.synchronous.method in place"},
	"parameter of shortage": {"b", `parameters: {synchronous.shortage: wait}`,
		"set spec.synchronous.shortage in place"},
	"parameter of standbys": {"b", `parameters: {synchronous_standby_names: "*"}`,
		"set spec.synchronous in place"},
	"parameter ssl": {"b", `parameters: {ssl: "on"}`, "set spec.tls.enabled in place"},
	"parameter of a rule": {"b", `parameters: {hba.01: host all all all reject}`,
		"set spec.hba in place of parameters hba.*"},
	"pooler": {"i",
		`pooler: {replicas: 10, mode: Session, parameters: {default_pool_size: 5}, service: {type: LoadBalancer}}`, ""},
	"pooler of defaults": {"j", `pooler: {}`, ""},
	"no poolers":         {"b", `pooler: {replicas: 0}`, "spec.pooler.replicas"},
	"too many poolers":   {"b", `pooler: {replicas: 11}`, "spec.pooler.replicas"},
	"mode of a pooler":   {"b", `pooler: {mode: transaction}`, "spec.pooler.mode"},
	"mode as a parameter": {"b", `pooler: {parameters: {pool_mode: session}}`,
		"set spec.pooler.mode in place"},
	"service type":    {"b", `service: {type: ExternalName}`, "spec.service.type"},
	"plugin version":  {"b", `pluginVersion: "1"`, "spec.pluginVersion"},
	"deletion policy": {"b", `deletionPolicy: Forget`, "spec.deletionPolicy"},
	"kept": {"kept",
		`{deletionProtection: true, adoptVolumes: 6f2c1c1e-55b4-4a0e-9f0c-0f6f0a0d8a11}`, ""},
	"data from two places": {"b",
		`{restoreFrom: {backup: a}, adoptVolumes: 6f2c1c1e-55b4-4a0e-9f0c-0f6f0a0d8a11}`,
		"say both where the data comes from"},
	"no UID":                      {"b", `adoptVolumes: the volumes of the one that there was before`, "adoptVolumes"},
	"a field that does not exist": {"b", `members: 3`, "spec.members"},
	"topology":                    {"b", `topology: standalone`, "spec.topology"},
	"stopped and left alone":      {"g", `{running: false, suspend: true}`, ""},
	"schedule without a line": {"b", `schedules: [{name: x, operation: {templateRef: Restart}}]`,
		"spec.schedules[0].schedule"},
	"issuer without a name":          {"b", `tls: {enabled: true, issuerRef: {kind: Issuer}}`, "spec.tls.issuerRef.name"},
	"replicas that are no number":    {"b", `replicas: two`, "spec.replicas"},
	"parameters that are no mapping": {"b", `parameters: [a]`, "spec.parameters"},
}

func TestCreatePostgreSQL(t *testing.T) {
	namespace := env.Namespace(t)
	for title, c := range postgreSQLs {
		t.Run(title, func(t *testing.T) {
			testkit.Refused(t, env.Client.Create(t.Context(), postgresql(t, namespace, c.name, c.spec), testkit.Strict), c.want)
		})
	}
}

// fullHBA has rules of all types and methods, with TLS.
const fullHBA = `{tls: {enabled: true, issuerRef: {name: x}}, hba: [{method: reject},
  {type: hostssl, databases: [shop, "a.b-c"], users: [app, +readers], address: "fd00::/8", method: cert},
  {type: host, address: 10.255.0.0/16, method: scram-sha-256}, {address: "::/0", method: reject},
  {address: 0.0.0.0/0, method: reject}]}`

func TestCreatePostgreSQLWithRules(t *testing.T) {
	namespace := env.Namespace(t)
	rule := func(text string) string { return `hba: [` + text + `]` }
	for title, c := range map[string]struct{ name, spec, want string }{
		"rules": {"rules", fullHBA, ""},
		"rules without TLS": {"plain",
			rule(`{type: hostnossl, method: scram-sha-256}, {address: all, method: reject}`), ""},
		"as many as there can be": {"many", rule(strings.Repeat(`{method: reject}, `, 31) + `{method: reject}`), ""},
		"more than there can be":  {"b", rule(strings.Repeat(`{method: reject}, `, 32) + `{method: reject}`), "spec.hba"},
		"method trust":            {"b", rule(`{method: trust}`), `supported values: "scram-sha-256", "reject", "cert"`},
		"method md5":              {"b", rule(`{method: md5}`), "spec.hba[0].method"},
		"no method":               {"b", rule(`{address: all}`), "spec.hba[0].method"},
		"type local": {"b", rule(`{type: local, method: reject}`),
			`supported values: "host", "hostssl", "hostnossl"`},
		"hostssl without TLS": {"b", rule(`{type: hostssl, method: reject}`), "hostssl needs tls.enabled"},
		"hostnossl with TLS": {"b", `{tls: {enabled: true}, ` + rule(`{type: hostnossl, method: reject}`) + `}`,
			"hostnossl would never match"},
		"cert without TLS": {"b", rule(`{method: cert}`), "method cert needs type hostssl"},
		"an address without length": {"b", rule(`{address: 10.0.0.1, method: reject}`),
			"address must be all, or an address and the length of its network"},
		"too long a network": {"b", rule(`{address: 10.0.0.0/33, method: reject}`),
			"address must be all, or an address"},
		"no such address": {"b", rule(`{address: 10.0.256.0/24, method: reject}`),
			"address must be all, or an address"},
		"too long a network of six": {"b", rule(`{address: "fd00::/129", method: reject}`),
			"address must be all, or an address"},
		"name of a host": {"b", rule(`{address: example.com, method: reject}`),
			"address must be all, or an address"},
		"a second rule in a name": {"b", rule(`{databases: ["a all all trust\nhost b"], method: reject}`),
			"spec.hba[0].databases[0]"},
		"a quote in a name": {"b", rule(`{databases: ['a"b'], method: reject}`), "spec.hba[0].databases[0]"},
		"a blank in a role": {"b", rule(`{users: ["a b"], method: reject}`), "spec.hba[0].users[0]"},
		"a comma in a role": {"b", rule(`{users: ["a,b"], method: reject}`), "spec.hba[0].users[0]"},
		"a pattern":         {"b", rule(`{users: ["/^a"], method: reject}`), "spec.hba[0].users[0]"},
		"keyword for databases": {"b", rule(`{databases: [replication], method: reject}`),
			"are keywords of pg_hba.conf: name databases"},
		"keyword for roles":    {"b", rule(`{users: [samerole], method: reject}`), "are keywords of pg_hba.conf: name roles"},
		"the superuser":        {"b", rule(`{users: [postgres], method: reject}`), "are the engine's own"},
		"the role of replicas": {"b", rule(`{users: [zeroinfra_replication], method: reject}`), "are the engine's own"},
		"options":              {"b", rule(`{method: cert, options: {map: x}}`), "spec.hba[0].options"},
	} {
		t.Run(title, func(t *testing.T) {
			testkit.Refused(t, env.Client.Create(t.Context(), postgresql(t, namespace, c.name, c.spec), testkit.Strict), c.want)
		})
	}
}

func TestCreateInsidePostgreSQL(t *testing.T) {
	namespace := env.Namespace(t)
	role := func(rest string) string { return `roles: [{name: a, passwordFrom: {name: x}, ` + rest + `}]` }
	grant := func(text string) string { return role(`grants: [` + text + `]`) }
	database := func(text string) string { return `databases: [` + text + `]` }
	for title, c := range map[string]struct{ name, spec, want string }{
		"everything inside": {"h", `{roles: [` + fullRole + `, {name: b, login: false}], databases: [{name: d, ` +
			`owner: a, connectionLimit: -1, encoding: LATIN1, locale: C, deletionPolicy: Delete, adopt: true, extensions: ` +
			`[{name: uuid-ossp, version: "1.1", schema: public}]}]}`, ""},
		"role without a password": {"b", `roles: [{name: a}]`, "a role that logs in needs passwordFrom"},
		"role of an empty Secret": {"b", `roles: [{name: a, passwordFrom: {name: ""}}]`,
			"spec.roles[0].passwordFrom.name"},
		"role postgres": {"b", `roles: [{name: postgres, passwordFrom: {name: x}}]`,
			"the role postgres is the instance's own"},
		"role of the engine": {"b", `roles: [{name: zeroinfra_replication, passwordFrom: {name: x}}]`,
			"begin with zeroinfra_ are the engine's own"},
		"role of PostgreSQL": {"b", `roles: [{name: pg_monitor, login: false}]`,
			"begin with pg_ are PostgreSQL's own"},
		"name of a role":              {"b", `roles: [{name: "a b", passwordFrom: {name: x}}]`, "spec.roles[0].name"},
		"name of a role with a slash": {"b", `roles: [{name: a/b, passwordFrom: {name: x}}]`, "spec.roles[0].name"},
		"two roles of a name":         {"b", `roles: [{name: a, login: false}, {name: a, login: false}]`, "spec.roles[1]"},
		"a role as superuser":         {"b", role(`superuser: true`), "superuser"},
		"member of programs":          {"b", role(`memberOf: [pg_execute_server_program]`), "past the engine"},
		"member of the engine's":      {"b", role(`memberOf: [zeroinfra_replication]`), "past the engine"},
		"member of the superuser":     {"b", role(`memberOf: [postgres]`), "past the engine"},
		"connections of a role":       {"b", role(`connectionLimit: -2`), "connectionLimit"},
		"end of a role":               {"b", role(`validUntil: tomorrow`), "validUntil"},
		"grant of nothing":            {"b", grant(`{database: d, privileges: []}`), "privileges"},
		"grant of everything":         {"b", grant(`{database: d, privileges: [ALL]}`), "privileges"},
		"grant on a database": {"b", grant(`{database: d, privileges: [SELECT]}`),
			"on a database there are the privileges CONNECT, CREATE and TEMPORARY"},
		"grant on a schema": {"b", grant(`{database: d, schema: public, privileges: [CONNECT]}`),
			"on a schema there are the privileges CREATE and USAGE"},
		"grant on a table": {"b", grant(`{database: d, schema: public, table: t, privileges: [USAGE]}`),
			"on a table there are the privileges DELETE"},
		"grant on a table of no schema": {"b", grant(`{database: d, table: t, privileges: [SELECT]}`),
			"a grant on a table needs schema"},
		"grant on a schema of the own": {"b", grant(`{database: d, schema: pg_catalog, privileges: [USAGE]}`),
			"a schema of PostgreSQL's own"},
		"two grants on one": {"b", grant(`{database: d, privileges: [CONNECT]}, {database: d, privileges: [CREATE]}`),
			"spec.roles[0].grants[1]"},
		"database postgres":       {"b", database(`{name: postgres}`), "are there from the beginning"},
		"name of a database":      {"b", database(`{name: "1a"}`), "spec.databases[0].name"},
		"two databases of a name": {"b", database(`{name: d}, {name: d}`), "spec.databases[1]"},
		"encoding":                {"b", database(`{name: d, encoding: UTF16}`), "spec.databases[0].encoding"},
		"encoding against locale": {"b", database(`{name: d, encoding: LATIN1}`),
			"encoding LATIN1 needs locale C or POSIX"},
		"locale": {"b", database(`{name: d, locale: de_DE}`), "spec.databases[0].locale"},
		"role app and its database": {"app",
			`{roles: [{name: app, connectionLimit: 7}], databases: [{name: app, extensions: [{name: hstore}]}]}`, ""},
		"two passwords of app": {"b", `{auth: {passwordFrom: {name: z}}, roles: [{name: app, passwordFrom: {name: x}}]}`,
			"auth.passwordFrom and passwordFrom of the role app are both the password"},
		"database app of another role": {"b", database(`{name: app, owner: b}`), "it is owned by the role app and stays"},
		"database app that goes": {"b", database(`{name: app, deletionPolicy: Delete}`),
			"it is owned by the role app and stays"},
		"deletion policy of a database": {"b", database(`{name: d, deletionPolicy: Snapshot}`),
			"spec.databases[0].deletionPolicy"},
		"name of an extension": {"b", database(`{name: d, extensions: [{name: "a; DROP"}]}`),
			"spec.databases[0].extensions[0].name"},
		"two extensions of a name": {"b", database(`{name: d, extensions: [{name: hstore}, {name: hstore}]}`),
			"spec.databases[0].extensions[1]"},
		"version of an extension": {"b", database(`{name: d, extensions: [{name: hstore, version: latest}]}`),
			"spec.databases[0].extensions[0].version"},
	} {
		t.Run(title, func(t *testing.T) {
			testkit.Refused(t, env.Client.Create(t.Context(), postgresql(t, namespace, c.name, c.spec), testkit.Strict), c.want)
		})
	}
}

// postgresql returns a PostgreSQL of version 17 whose spec has what the YAML adds.
func postgresql(t *testing.T, namespace, name, spec string) *unstructured.Unstructured {
	t.Helper()
	return versioned(t, "PostgreSQL", "17", namespace, name, spec)
}

func TestUpdatePostgreSQL(t *testing.T) {
	namespace := env.Namespace(t)
	const role = `roles: [{name: a, passwordFrom: {name: x}}]`
	for title, c := range map[string]struct{ before, after, want string }{
		"more replicas":        {`replicas: 0`, `replicas: 2`, ""},
		"no replicas any more": {`replicas: 2`, ``, ""},
		"fewer than copies": {`{replicas: 2, synchronous: {replicas: 2}}`, `{replicas: 1, synchronous: {replicas: 2}}`,
			"synchronous.replicas cannot be above replicas"},
		"none for the copies": {`{replicas: 2, synchronous: {replicas: 2}}`, `{synchronous: {replicas: 2}}`,
			"synchronous.replicas cannot be above replicas"},
		"another major version":  {`version: "15"`, `version: "17"`, "version cannot change"},
		"an older major version": {``, `version: "15"`, "version cannot change"},
		"a version as it starts": {`{version: "15", running: false}`, `{version: "17"}`, "version cannot change"},
		"a version as it stops":  {`{version: "15"}`, `{version: "17", running: false}`, "version cannot change"},
		"a version in between":   {`{version: "15", running: false}`, `{version: "17", running: false}`, ""},
		"autoscaling comes":      {`replicas: 1`, `autoscaling: {minReplicas: 1, maxReplicas: 2, cpuUtilization: 70}`, ""},
		"autoscaling goes":       {`autoscaling: {minReplicas: 1, maxReplicas: 2, cpuUtilization: 70}`, `replicas: 2`, ""},
		"autoscaling taken out": {`autoscaling: {minReplicas: 1, maxReplicas: 2, cpuUtilization: 70}`, ``,
			"which says how many stay"},
		"size grows":              {`storage: {size: 5Gi}`, `storage: {size: 5121Mi}`, ""},
		"size shrinks":            {`storage: {size: 5Gi}`, `storage: {size: 5119Mi}`, "storage.size cannot shrink"},
		"size shrinks to default": {`storage: {size: 6Gi}`, ``, "storage.size cannot shrink"},
		"storage class changes": {`storage: {storageClassName: a}`, `storage: {storageClassName: b}`,
			"storageClassName is immutable"},
		"storage class appears": {``, `storage: {storageClassName: b}`, "storageClassName is immutable"},
		"storage class goes":    {`storage: {storageClassName: a}`, ``, "storageClassName is immutable"},
		"encoding changes": {`databases: [{name: d}]`, `databases: [{name: d, encoding: SQL_ASCII}]`,
			"encoding and locale of a database cannot change"},
		"locale changes": {`databases: [{name: d, locale: C}]`, `databases: [{name: d}]`,
			"encoding and locale of a database cannot change"},
		"owner changes": {`databases: [{name: d}]`, `databases: [{name: d, owner: a}]`, ""},
		"another order": {`databases: [{name: d}, {name: e, encoding: LATIN1, locale: C}]`,
			`databases: [{name: e, encoding: LATIN1, locale: C}, {name: d}]`, ""},
		"a role loses its key":   {role, `roles: [{name: a}]`, "needs passwordFrom"},
		"a role becomes a group": {role, `roles: [{name: a, login: false}]`, ""},
		"tls":                    {``, `tls: {enabled: true}`, ""},
		"a pooler":               {``, `pooler: {}`, ""},
		"no pooler any more":     {`pooler: {mode: Session}`, ``, ""},
	} {
		t.Run(title, func(t *testing.T) {
			name := strings.ReplaceAll(title, " ", "-")
			before := postgresql(t, namespace, name, c.before)
			if err := env.Client.Create(t.Context(), before, testkit.Strict); err != nil {
				t.Fatal(err)
			}
			after := postgresql(t, namespace, name, c.after)
			after.SetResourceVersion(before.GetResourceVersion())
			testkit.Refused(t, env.Client.Update(t.Context(), after, testkit.Strict), c.want)
		})
	}
}

// A version that nothing was made of can be mended: the object says that there is none such.
func TestVersionThatWasNeverThere(t *testing.T) {
	obj := &databasev1.PostgreSQL{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace(t), Name: "db"},
		Spec: databasev1.PostgreSQLSpec{
			InstanceSpec: platformv1.InstanceSpec{Version: "16"},
		}}
	if err := env.Client.Create(t.Context(), obj); err != nil {
		t.Fatal(err)
	}
	mended := obj.DeepCopy()
	mended.Spec.Version = "17"
	testkit.Refused(t, env.Client.Patch(t.Context(), mended, client.MergeFrom(obj)), "version cannot change")
	obj.Status.Conditions = []metav1.Condition{
		{Type: platformv1.StalledCondition, Status: metav1.ConditionTrue, Reason: platformv1.ReasonVersionNotSupported,
			LastTransitionTime: metav1.Now()}}
	if err := env.Client.Status().Update(t.Context(), obj); err != nil {
		t.Fatal(err)
	}
	mended = obj.DeepCopy()
	mended.Spec.Version = "17"
	testkit.Refused(t, env.Client.Patch(t.Context(), mended, client.MergeFrom(obj)), "")
}

// TestDefaultsOfPostgreSQL shows what the server fills in when a Go client sends no more than the version.
func TestDefaultsOfPostgreSQL(t *testing.T) {
	got := &databasev1.PostgreSQL{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace(t), Name: "defaults"},
		Spec: databasev1.PostgreSQLSpec{
			InstanceSpec: platformv1.InstanceSpec{Version: "17"},
			Synchronous:  &databasev1.PostgreSQLSynchronous{},
			Roles: []databasev1.PostgreSQLRole{{Name: "a", PasswordFrom: &platformv1.SecretKeyReference{Name: "x"},
				Grants: []databasev1.PostgreSQLGrant{{Database: "d", Privileges: []databasev1.PostgreSQLPrivilege{"CONNECT"}}}}},
			Databases: []databasev1.PostgreSQLDatabase{
				{Name: "d", Extensions: []databasev1.PostgreSQLExtension{{Name: "hstore"}}}},
		}}
	if err := env.Client.Create(t.Context(), got); err != nil {
		t.Fatal(err)
	}
	spec, role, database := got.Spec, got.Spec.Roles[0], got.Spec.Databases[0]
	if spec.DeletionPolicy != "Retain" || spec.PluginVersion != "1.0.0" || spec.Replicas != 0 || !*spec.Running {
		t.Errorf("the defaults are %+v", spec)
	}
	if s := spec.Synchronous; s.Method != databasev1.SynchronousAny || s.Shortage != platformv1.ShortageWait ||
		s.Replicas != nil {
		t.Errorf("synchronous is %+v", s)
	}
	if !*role.Login || !*role.Inherit || *role.ConnectionLimit != -1 || role.PasswordFrom.Key != "password" {
		t.Errorf("a role is %+v", role)
	}
	if database.Encoding != "UTF8" || database.Locale != "C.UTF-8" || *database.ConnectionLimit != -1 ||
		database.DeletionPolicy != platformv1.EntityRetain || database.Extensions[0].Schema != "public" {
		t.Errorf("a database is %+v", database)
	}
}
