// SPDX-License-Identifier: Apache-2.0

//go:build integration

package v1_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/platform-core/sdk/testkit"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
)

// newMySQLCluster returns a MySQLCluster of version 9.7 whose spec has what the YAML adds.
func newMySQLCluster(t *testing.T, namespace, name, spec string) *unstructured.Unstructured {
	t.Helper()
	kind := databasev1.GroupVersion.WithKind("MySQLCluster")
	return testkit.Object(t, kind, namespace, name, map[string]any{"version": "9.7"}, spec)
}

func TestMySQLClusterCreate(t *testing.T) {
	namespace := env.Namespace(t)
	for title, c := range map[string]struct{ name, spec, want string }{
		"smallest":                    {"a", ``, ""},
		"longest name":                {strings.Repeat("a", 25), ``, ""},
		"name too long":               {strings.Repeat("a", 25+1), ``, "at most 25 characters"},
		"name with a dot":             {"a.b", ``, "cannot hold a dot"},
		"version":                     {"b", `version: latest`, "spec.version"},
		"no version":                  {"b", `version: null`, "version is required"},
		"plugin version":              {"b", `pluginVersion: "1"`, "spec.pluginVersion"},
		"a field that does not exist": {"b", `replicas: 3`, "spec.replicas"},
		"storage":                     {"c", `storage: {size: 20Gi, storageClassName: fast}`, ""},
		"no size":                     {"b", `storage: {size: "0"}`, "storage.size must be greater than 0"},
		"most members":                {"d", `members: 9`, ""},
		"four members":                {"b", `members: 4`, "members must be 3, 5, 7 or 9"},
		"a MySQL to adopt":            {"ad", `adoptMySQL: orders`, ""},
		"a MySQL and volumes": {"b", `{adoptMySQL: orders, adoptVolumes: 0b3e5a1c-6d1f-4f6e-9a53-2f4f3c1b7d10}`,
			"take one of them out"},
		"one member":       {"b", `members: 1`, "members must be 3, 5, 7 or 9"},
		"too many members": {"b", `members: 11`, "members must be 3, 5, 7 or 9"},
		"times": {"e", `{expelTimeout: 1h, unreachableMajorityTimeout: 90s, autoRejoinTries: 2016}`,
			""},
		"shortest times":    {"f", `{expelTimeout: 0s, unreachableMajorityTimeout: 1s, autoRejoinTries: 0}`, ""},
		"expelled too late": {"b", `expelTimeout: 61m`, "expelTimeout must be between 0s and 1h, in whole seconds"},
		"expelled in a fraction": {"b", `expelTimeout: 1500ms`,
			"expelTimeout must be between 0s and 1h, in whole seconds"},
		"expelled in microseconds": {"b", `expelTimeout: 500us`,
			"expelTimeout must be between 0s and 1h, in whole seconds"},
		"a majority for ever": {"b", `unreachableMajorityTimeout: 0s`,
			"unreachableMajorityTimeout must be between 1s and 24h, in whole seconds"},
		"too many tries":          {"b", `autoRejoinTries: 2017`, "spec.autoRejoinTries"},
		"negative tries":          {"b", `autoRejoinTries: -1`, "spec.autoRejoinTries"},
		"a level":                 {"g", `consistency: BeforeAndAfter`, ""},
		"a level of MySQL's name": {"b", `consistency: BEFORE`, "spec.consistency"},
		"consistency as a parameter": {"b", `parameters: {group_replication_consistency: BEFORE}`,
			"set spec.consistency in place"},
		"expulsion as a parameter": {"b", `parameters: {group_replication_member_expel_timeout: 5}`,
			"set spec.expelTimeout in place"},
		"majority as a parameter": {"b", `parameters: {group_replication_unreachable_majority_timeout: 5}`,
			"set spec.unreachableMajorityTimeout in place"},
		"tries as a parameter": {"b", `parameters: {group_replication_autorejoin_tries: 5}`,
			"set spec.autoRejoinTries in place"},
		"a log that lags": {"b", `parameters: {innodb_flush_log_at_trx_commit: 2}`,
			"innodb_flush_log_at_trx_commit must be 1"},
		"a binary log that lags": {"b", `parameters: {sync_binlog: 100}`, "sync_binlog must be 1"},
		"no binary log": {"b", `parameters: {binlog_error_action: IGNORE_ERROR}`,
			"binlog_error_action must be ABORT_SERVER"},
		"what a group needs": {"h",
			`parameters: {innodb_flush_log_at_trx_commit: 1, sync_binlog: "1", binlog_error_action: ABORT_SERVER}`, ""},
		"archive and a point in time": {"t", `{archive: {repositoryRef: {name: store}, timeout: 1m}, restoreFrom: {backup: ` +
			`b, target: {time: "2026-01-31T12:00:00Z", repositoryRef: {name: store}}}}`, ""},
		"archive nowhere": {"b", `archive: {timeout: 1m}`,
			"exactly one of archive.repositoryRef and archive.bucket"},
		"alarm of the archive": {"al", `{archive: {repositoryRef: {name: store}}, parameters: {archive.alarm: "40"}}`,
			""},
		"parameter of the archive": {"b", `parameters: {archive.bucket: logs}`,
			"set spec.archive in place of parameters archive.*"},
		"parameter of tls": {"b", `parameters: {require_secure_transport: "ON"}`, "set spec.tls.enabled"},
		"users and databases": {"i", `{users: [{name: clerk, passwordFrom: {name: u}, grants: [{database: a, privileges: ` +
			`[ALL]}]}], databases: [{name: a}]}`, ""},
		"routers":             {"ro", `router: {replicas: 10, parameters: {ttl: "0.5"}, service: {type: LoadBalancer}}`, ""},
		"routers of defaults": {"rd", `router: {}`, ""},
		"no routers":          {"b", `router: {replicas: 0}`, "spec.router.replicas"},
		"too many routers":    {"b", `router: {replicas: 11}`, "spec.router.replicas"},
		"user root":           {"b", `users: [{name: root, passwordFrom: {name: u}}]`, "are the instance's own"},
	} {
		t.Run(title, func(t *testing.T) {
			err := env.Client.Create(t.Context(), newMySQLCluster(t, namespace, c.name, c.spec), testkit.Strict)
			testkit.Refused(t, err, c.want)
		})
	}
}

func TestMySQLClusterUpdate(t *testing.T) {
	namespace := env.Namespace(t)
	for title, c := range map[string]struct{ before, after, want string }{
		"more members":     {`members: 3`, `members: 5`, ""},
		"fewer members":    {`members: 5`, `members: 3`, ""},
		"an even number":   {`members: 3`, `members: 4`, "members must be 3, 5, 7 or 9"},
		"another level":    {`consistency: After`, `consistency: Before`, ""},
		"a later version":  {`version: "8.0"`, `version: "9.7"`, "version cannot change"},
		"a downgrade":      {`version: "9.7"`, `version: "8.0"`, "version cannot change"},
		"a router":         {``, `router: {}`, ""},
		"no router":        {`router: {replicas: 1}`, ``, ""},
		"adopted later":    {`members: 3`, `adoptMySQL: orders`, "adoptMySQL is for an object that is made"},
		"another MySQL":    {`adoptMySQL: orders`, `adoptMySQL: bills`, "adoptMySQL is for an object that is made"},
		"a smaller volume": {`storage: {size: 2Gi}`, `storage: {size: 1Gi}`, "storage.size cannot shrink"},
	} {
		t.Run(title, func(t *testing.T) {
			name := strings.ToLower(strings.ReplaceAll(title, " ", "-"))
			before := newMySQLCluster(t, namespace, name, c.before)
			if err := env.Client.Create(t.Context(), before, testkit.Strict); err != nil {
				t.Fatal(err)
			}
			after := newMySQLCluster(t, namespace, name, c.after)
			after.SetResourceVersion(before.GetResourceVersion())
			testkit.Refused(t, env.Client.Update(t.Context(), after, testkit.Strict, client.FieldOwner("test")), c.want)
		})
	}
}

// What the sample and the tests of Compile have can be applied.
func TestMySQLClusterSamplesApply(t *testing.T) {
	namespace := env.Namespace(t)
	testkit.Samples(t, env.Client, namespace, "../../config/samples/*_v1_mysqlcluster.yaml")
	testkit.Samples(t, env.Client, namespace, "../../internal/kind/mysqlcluster/testdata/*.in.yaml")
	testkit.Samples(t, env.Client, namespace, "../../internal/kind/mysqlcluster/testdata/entities/*.in.yaml")
}

func TestMySQLClusterSizeThatIsNotThereYetIsTakenBack(t *testing.T) {
	namespace := env.Namespace(t)
	testkit.SizeTakenBack(t, env.Client, func(name, spec string) *unstructured.Unstructured {
		return newMySQLCluster(t, namespace, name, spec)
	})
}
