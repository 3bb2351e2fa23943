// SPDX-License-Identifier: Apache-2.0

package database

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// postgresqlNewest is the latest major version.
const postgresqlNewest = "18"

// TestPostgreSQLHBA has a server of the latest version serve, and let in and refuse as the rules of its spec say: they
// are read back, restart nothing, and keep nobody out whom the instance itself needs.
func TestPostgreSQLHBA(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespace(t, "pghba")
	s.Create(&corev1.Secret{ObjectMeta: framework.ObjectMeta("users"),
		StringData: map[string]string{"app": appPassword, "reader": "reads"}})
	from := func(key string) *platformv1.SecretKeyReference {
		return &platformv1.SecretKeyReference{Name: "users", Key: key}
	}
	s.Create(&databasev1.PostgreSQL{ObjectMeta: framework.ObjectMeta("db"), Spec: databasev1.PostgreSQLSpec{
		InstanceSpec: platformv1.InstanceSpec{
			Version: postgresqlNewest,
			Storage: platformv1.InstanceStorage{Size: resource.MustParse("512Mi")},
			// They cost nothing and show that what is new in this version is taken over.
			Parameters: platformv1.Parameters{"io_method": "sync", "log_connections": "receipt, setup_durations",
				"max_wal_size": "64MB", "min_wal_size": "32MB"},
			DeletionPolicy: platformv1.DeletionPolicyDelete,
		},
		Roles: []databasev1.PostgreSQLRole{{Name: "app", PasswordFrom: from("app")},
			{Name: "reader", PasswordFrom: from("reader")}},
		Databases: []databasev1.PostgreSQLDatabase{{Name: "shop", Owner: "app"}},
	}})
	p := &framework.PostgreSQLInstance{Namespace: s, Name: "db", PortForwards: s.NewPortForwards()}
	t.Logf("made to Ready: %s", framework.FormatSeconds(p.WaitReady()))
	super := p.Pool(framework.Login{})
	owner, reader := p.Pool(app), framework.Login{User: "reader", Password: "reads", Database: "shop"}
	p.Exec(owner, "CREATE TABLE goods (n int)", "INSERT INTO goods VALUES (1)")
	if version := p.Object().Status.Version; !strings.HasPrefix(version, postgresqlNewest+".") {
		t.Errorf("the status says version %s", version)
	}
	p.WaitForAnswer(super, "sync receipt, setup_durations on", "SELECT concat_ws(' ', current_setting('io_method'), "+
		"current_setting('log_connections'), current_setting('data_checksums'))")
	p.WaitForAnswer(p.Pool(reader), "1", "SELECT 1::text")

	since := asked(p, super, "SELECT pg_postmaster_start_time()::text")
	const rules = `SELECT string_agg(concat_ws(' ', type, array_to_string(database, ','),
		array_to_string(user_name, ','), address, auth_method), '; ' ORDER BY line_number)
		FROM pg_hba_file_rules WHERE type <> 'local' AND database <> '{replication}' AND error IS NULL`
	const own, last = "host all postgres,zeroinfra_replication,zeroinfra_pooler all scram-sha-256; ",
		"host all all all scram-sha-256"
	p.WaitForAnswer(super, own+last, rules)
	p.Update(func(spec *databasev1.PostgreSQLSpec) {
		spec.HBA = []databasev1.PostgreSQLHBARule{
			{Databases: []string{"shop"}, Users: []string{"reader", "+reader"}, Method: databasev1.HBAMethodReject},
			{Address: "192.0.2.0/24", Method: databasev1.HBAMethodSCRAM},
		}
	})
	p.WaitForAnswer(super, own+"host shop reader,+reader all reject; host all all 192.0.2.0 scram-sha-256; "+last, rules)
	p.ExpectStatementRefused(p.Pool(reader), "pg_hba.conf rejects connection", "SELECT 1::text")
	reader.Database = "postgres"
	p.WaitForAnswer(p.Pool(reader), "1", "SELECT 1::text")
	p.WaitForAnswer(p.Pool(app), "1", "SELECT n::text FROM goods")

	// Everybody is kept out, and the engine is not: it makes a role, and reads it back.
	p.Update(func(spec *databasev1.PostgreSQLSpec) {
		spec.HBA = []databasev1.PostgreSQLHBARule{{Method: databasev1.HBAMethodReject}}
		spec.Roles = append(spec.Roles, databasev1.PostgreSQLRole{Name: "late", Login: new(false)})
	})
	p.WaitForAnswer(super, own+"host all all all reject; "+last, rules)
	p.WaitForAnswer(super, "late", "SELECT rolname::text FROM pg_roles WHERE rolname = 'late'")
	p.ExpectStatementRefused(p.Pool(app), "pg_hba.conf rejects connection", "SELECT 1::text")
	p.ExpectRefused(p.TryUpdate(func(spec *databasev1.PostgreSQLSpec) {
		spec.HBA = []databasev1.PostgreSQLHBARule{{Address: "10.0.0.1/8", Method: databasev1.HBAMethodReject}}
	}), "write 10.0.0.0/8, or /32 for this address alone")
	p.Update(func(spec *databasev1.PostgreSQLSpec) { spec.HBA = nil })
	p.WaitForAnswer(p.Pool(app), "1", "SELECT n::text FROM goods")
	p.WaitForAnswer(super, since, "SELECT pg_postmaster_start_time()::text")
}
