// SPDX-License-Identifier: Apache-2.0

package database

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

const (
	// dumpedVersion is that of the server that is dumped, and dumpBackup its Backup.
	dumpedVersion = "15"
	dumpBackup    = "dump-backup"
	// sumOdd says whether what is in a database with an odd name is the same.
	sumOdd = "SELECT md5(string_agg(n || s, ',' ORDER BY n)) || count(*) FROM odd"
)

// oddName is that of a database which no object declares.
const oddName = `odd "name" = it's`

// dumping asks for a PostgreSQL of a version, with a password of its user from a key of the Secret "users".
func dumping(version, key string) databasev1.PostgreSQLSpec {
	return databasev1.PostgreSQLSpec{
		InstanceSpec: platformv1.InstanceSpec{
			Version: version,
			Storage: platformv1.InstanceStorage{Size: resource.MustParse("1Gi")},
			Parameters: platformv1.Parameters{"max_connections": "40", "max_wal_size": "64MB", "min_wal_size": "32MB",
				"wal_keep_size": "64MB"},
			DeletionPolicy: platformv1.DeletionPolicyDelete,
		},
		Replicas: 1,
		Roles: []databasev1.PostgreSQLRole{
			{Name: "app", PasswordFrom: &platformv1.SecretKeyReference{Name: "users", Key: key}}},
		Databases: []databasev1.PostgreSQLDatabase{
			{Name: "shop", Owner: "app", Extensions: []databasev1.PostgreSQLExtension{{Name: "hstore"}}}},
	}
}

// dumpOf is an Operation that backs a target up by what is in it.
func dumpOf(name, repository string, target platformv1.TargetReference) *platformv1.Operation {
	op := framework.NewBackupOperation(name, repository, target)
	op.Spec.Parameters["method"] = "dump"
	return op
}

// TestPostgreSQLDump backs a PostgreSQL up by pg_dump while it is written to, and has instances of the same and of a
// later version begin with that, and one that is there take it. Rows, roles and rights are those of the Backup, and
// passwords those of each instance. What cannot be is refused.
func TestPostgreSQLDump(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespace(t, "pgdump")
	s.Create(&corev1.Secret{ObjectMeta: framework.ObjectMeta("users"),
		StringData: map[string]string{"before": appPassword, "after": "another " + appPassword}})
	s.Create(&databasev1.PostgreSQL{ObjectMeta: framework.ObjectMeta("db"), Spec: dumping(dumpedVersion, "before")})
	p := &framework.PostgreSQLInstance{Namespace: s, Name: "db", PortForwards: s.NewPortForwards()}
	p.WaitForReplicas(1)
	primary := &corev1.Pod{}
	p.MustGet(role(p, "primary"), primary)
	s.CreateRepository("store", primary.Spec.Containers[0].Image)
	fillsForDump(p)
	shop := p.Pool(framework.Login{Database: "shop"})
	sum, odd := asked(p, shop, sumRows), asked(p, p.Pool(framework.Login{Database: oddName}), sumOdd)

	w := p.StartWriter(p.Pool(framework.Login{}))
	loaded := make(chan error, 1)
	go func() {
		_, err := shop.Exec(p.Ctx, "INSERT INTO load SELECT generate_series(1, 300000)")
		loaded <- err
	}()
	s.Create(dumpOf("dump", "store", p.Reference()))
	b := s.WaitForStoredBackup("dump")
	if err := <-loaded; err != nil {
		t.Error(err)
	}
	w.StopAndVerify("a dump", framework.InPlaceGapLimit)
	facts := b.Status.Facts
	if b.Spec.Method != "dump" || facts["source"] != "primary" || facts["databases"] != "5" ||
		!strings.HasPrefix(facts["serverVersion"], dumpedVersion+".") {
		t.Errorf("the Backup is by %s, and says %v", b.Spec.Method, facts)
	}

	for _, version := range []string{dumpedVersion, "17"} {
		t.Run("into version "+version, func(t *testing.T) { checkDumpTaken(s.In(t), "copy"+version, version, sum, odd) })
	}
	t.Run("that cannot be", func(t *testing.T) { checkDumpRefused(p.In(t)) })
	t.Run("in place of later data", func(t *testing.T) { checkDumpInPlace(p.In(t), sum) })
	t.Run("that is verified", func(t *testing.T) {
		d := p.In(t)
		op := framework.NewDrillOperation("drill", d.Reference())
		op.Spec.Parameters = platformv1.Parameters{"backup": dumpBackup}
		d.Create(op)
		d.WaitForOperation("drill")
		d.ExpectVerified(dumpBackup, "drill", platformv1.VerificationPassed, "found the data good")
		d.ExpectNoDrillLeftovers()
	})
	// What is left goes with the namespace.
}

// fillsForDump makes what the object does not declare.
func fillsForDump(p *framework.PostgreSQLInstance) {
	p.Helper()
	super, shop := p.Pool(framework.Login{}), p.Pool(framework.Login{Database: "shop"})
	p.Exec(super, "CREATE TABLE numbers (n int PRIMARY KEY)",
		"CREATE ROLE guest LOGIN PASSWORD 'guest''s own' CONNECTION LIMIT 3", "CREATE ROLE readers ROLE guest",
		`CREATE DATABASE "`+strings.ReplaceAll(oddName, `"`, `""`)+`"`)
	p.Exec(shop, "CREATE TABLE kept AS SELECT n, md5(n::text) AS s FROM generate_series(1, 100000) n",
		"CREATE TABLE load (n int)", "ALTER TABLE kept ADD PRIMARY KEY (n)", "ALTER TABLE kept OWNER TO app",
		"GRANT SELECT ON kept TO readers", "CREATE SEQUENCE counter START 4242", "SELECT nextval('counter')",
		"SELECT lo_from_bytea(4711, 'a large one')",
		"CREATE TABLE things AS SELECT 'colour=>red'::hstore AS h")
	p.Exec(p.Pool(framework.Login{Database: oddName}),
		"CREATE TABLE odd AS SELECT n, repeat('ü', n % 7) AS s FROM generate_series(1, 1000) n")
}

// checkDumpTaken has an instance begin with the dump, and finds in it and in its replica what there was.
func checkDumpTaken(s *framework.Namespace, name, version, sum, odd string) {
	spec := dumping(version, "after")
	spec.RestoreFrom = &platformv1.RestoreFrom{Backup: dumpBackup}
	s.Create(&databasev1.PostgreSQL{ObjectMeta: framework.ObjectMeta(name), Spec: spec})
	p := &framework.PostgreSQLInstance{Namespace: s, Name: name, PortForwards: s.NewPortForwards()}
	serves(p, version, 1)
	if c := meta.FindStatusCondition(p.Object().Status.Conditions, platformv1.RestoredCondition); c == nil ||
		c.Reason != platformv1.ReasonRestored {
		s.Errorf("it says %s", framework.Describe(p.Object().Status.Conditions))
	}
	super := p.Pool(framework.Login{Database: "shop"})
	p.WaitForAnswer(super, sum, sumRows)
	p.WaitForAnswer(p.Pool(framework.Login{Database: "shop", ReadOnly: true}), sum, sumRows)
	p.WaitForAnswer(p.Pool(framework.Login{Database: oddName}), odd, sumOdd)
	p.WaitForAnswer(super, "4242 a large one red", "SELECT (SELECT last_value FROM counter) || ' ' || "+
		"convert_from(lo_get(4711), 'UTF8') || ' ' || (SELECT h -> 'colour' FROM things)")
	p.WaitForAnswer(super, "3 true", "SELECT rolconnlimit || ' ' || pg_has_role('guest', 'readers', 'MEMBER') FROM "+
		"pg_roles WHERE rolname = 'guest'")

	// Declared users have the passwords that the object names, and others those that they had.
	owner := p.Pool(framework.Login{User: "app", Password: "another " + appPassword, Database: "shop"})
	p.Exec(owner, "INSERT INTO kept VALUES (0, 'new')", "CREATE TABLE mine (n int)")
	p.ExpectStatementRefused(p.Pool(framework.Login{User: "app", Password: appPassword, Database: "shop"}),
		"password authentication failed", "SELECT 1::text")
	guest := p.Pool(framework.Login{User: "guest", Password: "guest's own", Database: "shop"})
	p.WaitForAnswer(guest, "100001", "SELECT count(*)::text FROM kept")
	p.ExpectStatementRefused(guest, "permission denied", "SELECT count(*)::text FROM load")
	source := &framework.PostgreSQLInstance{Namespace: s, Name: "db", PortForwards: p.PortForwards}
	former := source.SuperuserPassword()
	if p.SuperuserPassword() == former {
		s.Error("the restored server has the password of the one before")
	}
	p.ExpectStatementRefused(p.Pool(framework.Login{User: "postgres", Password: former}), "password authentication failed",
		"SELECT 1::text")
	system := "SELECT system_identifier::text FROM pg_control_system()"
	if asked(p, super, system) == asked(source, source.Pool(framework.Login{}), system) {
		s.Error("the restored server has the number of the one before")
	}
}

// checkDumpRefused: neither an older version nor a point in time, and before anything is made.
func checkDumpRefused(p *framework.PostgreSQLInstance) {
	p.Create(dumpOf("later", "store", (&framework.PostgreSQLInstance{Namespace: p.Namespace, Name: "copy17"}).Reference()))
	p.WaitForStoredBackup("later")
	older := dumping(dumpedVersion, "after")
	older.RestoreFrom = &platformv1.RestoreFrom{Backup: "later-backup"}
	timed := dumping("17", "after")
	timed.RestoreFrom = &platformv1.RestoreFrom{Backup: dumpBackup,
		Target: &platformv1.RestoreTarget{Time: "2099-01-01T00:00:00Z"}}
	for name, tc := range map[string]struct {
		spec databasev1.PostgreSQLSpec
		says string
	}{
		"older": {older, "it is of version 17, and this is version 15, which is older"},
		"timed": {timed, `reaches no point in time with method "dump"`},
	} {
		if err := p.TryCreate(&databasev1.PostgreSQL{ObjectMeta: framework.ObjectMeta(name), Spec: tc.spec}); err != nil {
			if !strings.Contains(err.Error(), tc.says) {
				p.Errorf("%s: %v", name, err)
			}
			continue
		}
		refused := &framework.PostgreSQLInstance{Namespace: p.Namespace, Name: name, PortForwards: p.PortForwards}
		refused.ExpectNotReady(platformv1.ReasonRestoreRefused, tc.says)
		if left := volumes(p.Namespace, refused.Application().Name); len(left) > 0 {
			p.Errorf("%s has the volumes %v", name, left)
		}
	}
}

// checkDumpInPlace: the dump takes the place of what an instance of a later version has by now, and so does its safety
// copy.
func checkDumpInPlace(p *framework.PostgreSQLInstance, sum string) {
	copied := &framework.PostgreSQLInstance{Namespace: p.Namespace, Name: "copy17", PortForwards: p.PortForwards}
	copied.Exec(copied.Pool(framework.Login{Database: "shop"}), "UPDATE kept SET s = 'spoilt'")
	password := copied.SuperuserPassword()
	op := framework.NewRestoreOperation("rewind", dumpBackup, copied.Reference())
	p.Create(op)
	p.WaitForOperation("rewind")
	serves(copied, "17", 1)
	copied.WaitForAnswer(copied.Pool(framework.Login{Database: "shop"}), sum, sumRows)
	copied.Exec(copied.Pool(framework.Login{User: "app", Password: "another " + appPassword, Database: "shop"}),
		"INSERT INTO kept VALUES (-1, 'newer')")
	if copied.SuperuserPassword() != password {
		p.Error("its password is another one")
	}
	p.MustGet("rewind", op)
	for _, step := range op.Status.Steps {
		if step.Name == "safety-copy" {
			safety := &platformv1.Backup{}
			p.MustGet(step.Outputs["backup"], safety)
			if safety.Spec.Method != "dump" || safety.Status.Phase != platformv1.BackupCompleted {
				p.Errorf("the safety copy is %s: %s", safety.Spec.Method, safety.Status.Phase)
			}
			return
		}
	}
	p.Error(fmt.Sprintf("there is no safety copy: %+v", op.Status.Steps))
}
