// SPDX-License-Identifier: Apache-2.0

//go:build integration

package v1_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/zeroinfra/platform-core/sdk/testkit"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
)

// newMySQL returns a MySQL of version 9.7 whose spec has what the YAML adds.
func newMySQL(t *testing.T, namespace, name, spec string) *unstructured.Unstructured {
	t.Helper()
	kind := databasev1.GroupVersion.WithKind("MySQL")
	return testkit.Object(t, kind, namespace, name, map[string]any{"version": "9.7"}, spec)
}

func TestMySQLCreate(t *testing.T) {
	namespace := env.Namespace(t)
	for title, c := range map[string]struct{ name, spec, want string }{
		"smallest":                    {"a", ``, ""},
		"longest name":                {strings.Repeat("a", 32), ``, ""},
		"name too long":               {strings.Repeat("a", 32+1), ``, "at most 32 characters"},
		"name with a dot":             {"a.b", ``, "cannot hold a dot"},
		"version":                     {"b", `version: latest`, "spec.version"},
		"no version":                  {"b", `version: null`, "version is required"},
		"plugin version":              {"b", `pluginVersion: "1"`, "spec.pluginVersion"},
		"a field that does not exist": {"b", `members: 3`, "spec.members"},
		"storage":                     {"c", `storage: {size: 20Gi, storageClassName: fast}`, ""},
		"users and databases": {"d", `{users: [{name: clerk, passwordFrom: {name: u}}, {name: clerk, host: 10.%, ` +
			`passwordFrom: {name: u}, grants: [{database: a, privileges: [ALL]}, {database: a, table: t, privileges: ` +
			`[SELECT]}]}], databases: [{name: a}]}`, ""},
		"user without a password": {"b", `users: [{name: clerk}]`, "passwordFrom"},
		"user root":               {"b", `users: [{name: root, passwordFrom: {name: u}}]`, "are the instance's own"},
		"user of the engine": {"b", `users: [{name: zeroinfra_x, passwordFrom: {name: u}}]`,
			"are taken: name another one"},
		"global privilege": {"b", `users: [{name: clerk, passwordFrom: {name: u}, globalPrivileges: [SUPER]}]`,
			"SUPER"},
		"grant on mysql": {"b",
			`users: [{name: clerk, passwordFrom: {name: u}, grants: [{database: mysql, privileges: [SELECT]}]}]`,
			"nothing of MySQL's own databases"},
		"privilege of a table": {"b",
			`users: [{name: clerk, passwordFrom: {name: u}, grants: [{database: a, table: t, privileges: [EVENT]}]}]`,
			"on a table there are"},
		"all and one": {"b",
			`users: [{name: clerk, passwordFrom: {name: u}, grants: [{database: a, privileges: [ALL, SELECT]}]}]`,
			"ALL are all privileges"},
		"database of the server": {"b", `databases: [{name: mysql}]`, "are there already"},
		"archive and a point in time": {"t", `{archive: {repositoryRef: {name: store}, timeout: 1m}, restoreFrom: {backup: ` +
			`b, target: {time: "2026-01-31T12:00:00Z", repositoryRef: {name: store}}}}`, ""},
		"archive nowhere": {"b", `archive: {timeout: 1m}`,
			"exactly one of archive.repositoryRef and archive.bucket"},
		"alarm of the archive": {"al", `{archive: {repositoryRef: {name: store}}, parameters: {archive.alarm: "40"}}`,
			""},
		"parameter of the archive": {"b", `parameters: {archive.bucket: logs}`,
			"set spec.archive in place of parameters archive.*"},
		"parameter of tls": {"b", `parameters: {require_secure_transport: "ON"}`, "set spec.tls.enabled"},
		"no size":          {"b", `storage: {size: "0"}`, "storage.size must be greater than 0"},
	} {
		t.Run(title, func(t *testing.T) {
			err := env.Client.Create(t.Context(), newMySQL(t, namespace, c.name, c.spec), testkit.Strict)
			testkit.Refused(t, err, c.want)
		})
	}
}

func TestMySQLVersionCannotChange(t *testing.T) {
	namespace := env.Namespace(t)
	for name, c := range map[string]struct{ before, after string }{
		"upgrade":   {"8.0", "9.7"},
		"downgrade": {"9.7", "8.0"},
	} {
		t.Run(name, func(t *testing.T) {
			obj := newMySQL(t, namespace, name, `version: "`+c.before+`"`)
			if err := env.Client.Create(t.Context(), obj, testkit.Strict); err != nil {
				t.Fatal(err)
			}
			if err := unstructured.SetNestedField(obj.Object, c.after, "spec", "version"); err != nil {
				t.Fatal(err)
			}
			testkit.Refused(t, env.Client.Update(t.Context(), obj), "version cannot change")
		})
	}
}

// What the sample and the tests of Compile have can be applied.
func TestMySQLSamplesApply(t *testing.T) {
	namespace := env.Namespace(t)
	testkit.Samples(t, env.Client, namespace, "../../config/samples/*_v1_mysql.yaml")
	testkit.Samples(t, env.Client, namespace, "../../internal/kind/mysql/testdata/*.in.yaml")
}

func TestMySQLSizeThatIsNotThereYetIsTakenBack(t *testing.T) {
	namespace := env.Namespace(t)
	testkit.SizeTakenBack(t, env.Client, func(name, spec string) *unstructured.Unstructured {
		return newMySQL(t, namespace, name, spec)
	})
}
