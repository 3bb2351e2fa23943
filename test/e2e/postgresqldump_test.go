// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
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
		Version: version, Replicas: 1, Storage: databasev1.PostgreSQLStorage{Size: resource.MustParse("1Gi")},
		Parameters:     platformv1.Parameters{"max_connections": "40", "max_wal_size": "64MB", "min_wal_size": "32MB", "wal_keep_size": "64MB"},
		Roles:          []databasev1.PostgreSQLRole{{Name: "app", PasswordFrom: &platformv1.SecretKeyReference{Name: "users", Key: key}}},
		Databases:      []databasev1.PostgreSQLDatabase{{Name: "shop", Owner: "app", Extensions: []databasev1.PostgreSQLExtension{{Name: "hstore"}}}},
		DeletionPolicy: platformv1.DeletionPolicyDelete,
	}
}

// dumpOf is an Operation that backs a target up by what is in it.
func dumpOf(name, repository string, target platformv1.TargetReference) *platformv1.Operation {
	op := backupOf(name, repository, target)
	op.Spec.Parameters["method"] = "dump"
	return op
}

// TestPostgreSQLDump backs a PostgreSQL up by pg_dump while it is written to, and has instances of the same and of a later version begin with that, and one that
// is there take it. Rows, roles and rights are those of the Backup, and passwords those of each instance. What cannot be is refused.
func TestPostgreSQLDump(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "pgdump")
	s.create(&corev1.Secret{ObjectMeta: named("users"), StringData: map[string]string{"before": appPassword, "after": "another " + appPassword}})
	s.create(&databasev1.PostgreSQL{ObjectMeta: named("db"), Spec: dumping(dumpedVersion, "before")})
	p := &pgInstance{space: s, name: "db", ways: s.ways()}
	p.following(1)
	primary := &corev1.Pod{}
	p.mustGet(p.role("primary"), primary)
	s.shelf("store", primary.Spec.Containers[0].Image)
	p.fillsForDump()
	shop := p.pool(login{database: "shop"})
	sum, odd := p.asked(shop, sumRows), p.asked(p.pool(login{database: oddName}), sumOdd)

	w := p.startWriter(p.pool(login{}))
	loaded := make(chan error, 1)
	go func() {
		_, err := shop.Exec(p.ctx, "INSERT INTO load SELECT generate_series(1, 300000)")
		loaded <- err
	}()
	s.create(dumpOf("dump", "store", p.reference()))
	b := s.whole("dump")
	if err := <-loaded; err != nil {
		t.Error(err)
	}
	w.judge("a dump", inPlaceGap)
	facts := b.Status.Facts
	if b.Spec.Method != "dump" || facts["source"] != "primary" || facts["databases"] != "4" || !strings.HasPrefix(facts["serverVersion"], dumpedVersion+".") {
		t.Errorf("the Backup is by %s, and says %v", b.Spec.Method, facts)
	}

	for _, version := range []string{dumpedVersion, "17"} {
		t.Run("into version "+version, func(t *testing.T) { s.in(t).checkDumpTaken("copy"+version, version, sum, odd) })
	}
	t.Run("that cannot be", func(t *testing.T) { p.in(t).checkDumpRefused() })
	t.Run("in place of later data", func(t *testing.T) { p.in(t).checkDumpInPlace(sum) })
	t.Run("that is verified", func(t *testing.T) {
		d := p.in(t)
		op := drillOf("drill", d.reference())
		op.Spec.Parameters = platformv1.Parameters{"backup": dumpBackup}
		d.create(op)
		d.passes("drill")
		d.verified(dumpBackup, "drill", platformv1.VerificationPassed, "found the data good")
		d.nothingOfDrills()
	})
	// What is left goes with the namespace.
}

// fillsForDump makes what the object does not declare.
func (p *pgInstance) fillsForDump() {
	p.Helper()
	super, shop := p.pool(login{}), p.pool(login{database: "shop"})
	p.exec(super, "CREATE TABLE numbers (n int PRIMARY KEY)", "CREATE ROLE guest LOGIN PASSWORD 'guest''s own' CONNECTION LIMIT 3", "CREATE ROLE readers ROLE guest",
		`CREATE DATABASE "`+strings.ReplaceAll(oddName, `"`, `""`)+`"`)
	p.exec(shop, "CREATE TABLE kept AS SELECT n, md5(n::text) AS s FROM generate_series(1, 100000) n", "CREATE TABLE load (n int)", "ALTER TABLE kept ADD PRIMARY KEY (n)", "ALTER TABLE kept OWNER TO app",
		"GRANT SELECT ON kept TO readers", "CREATE SEQUENCE counter START 4242", "SELECT nextval('counter')", "SELECT lo_from_bytea(4711, 'a large one')",
		"CREATE TABLE things AS SELECT 'colour=>red'::hstore AS h")
	p.exec(p.pool(login{database: oddName}), "CREATE TABLE odd AS SELECT n, repeat('ü', n % 7) AS s FROM generate_series(1, 1000) n")
}

// checkDumpTaken has an instance begin with the dump, and finds in it and in its replica what there was.
func (s *space) checkDumpTaken(name, version, sum, odd string) {
	spec := dumping(version, "after")
	spec.RestoreFrom = &platformv1.RestoreFrom{Backup: dumpBackup}
	s.create(&databasev1.PostgreSQL{ObjectMeta: named(name), Spec: spec})
	p := &pgInstance{space: s, name: name, ways: s.ways()}
	p.serves(version, 1)
	if c := meta.FindStatusCondition(p.object().Status.Conditions, platformv1.RestoredCondition); c == nil || c.Reason != platformv1.ReasonRestored {
		s.Errorf("it says %s", describe(p.object().Status.Conditions))
	}
	super := p.pool(login{database: "shop"})
	p.answers(super, sum, sumRows)
	p.answers(p.pool(login{database: "shop", readOnly: true}), sum, sumRows)
	p.answers(p.pool(login{database: oddName}), odd, sumOdd)
	p.answers(super, "4242 a large one red", "SELECT (SELECT last_value FROM counter) || ' ' || convert_from(lo_get(4711), 'UTF8') || ' ' || (SELECT h -> 'colour' FROM things)")
	p.answers(super, "3 true", "SELECT rolconnlimit || ' ' || pg_has_role('guest', 'readers', 'MEMBER') FROM pg_roles WHERE rolname = 'guest'")

	// Declared users have the passwords that the object names, and others those that they had.
	owner := p.pool(login{user: "app", password: "another " + appPassword, database: "shop"})
	p.exec(owner, "INSERT INTO kept VALUES (0, 'new')", "CREATE TABLE mine (n int)")
	p.refuses(p.pool(login{user: "app", password: appPassword, database: "shop"}), "password authentication failed", "SELECT 1::text")
	guest := p.pool(login{user: "guest", password: "guest's own", database: "shop"})
	p.answers(guest, "100001", "SELECT count(*)::text FROM kept")
	p.refuses(guest, "permission denied", "SELECT count(*)::text FROM load")
	source := &pgInstance{space: s, name: "db", ways: p.ways}
	former := source.binding()["password"]
	if p.binding()["password"] == former {
		s.Error("the restored server has the password of the one before")
	}
	p.refuses(p.pool(login{user: "postgres", password: former}), "password authentication failed", "SELECT 1::text")
	system := "SELECT system_identifier::text FROM pg_control_system()"
	if p.asked(super, system) == source.asked(source.pool(login{}), system) {
		s.Error("the restored server has the number of the one before")
	}
}

// checkDumpRefused: neither an older version nor a point in time, and before anything is made.
func (p *pgInstance) checkDumpRefused() {
	p.create(dumpOf("later", "store", (&pgInstance{space: p.space, name: "copy17"}).reference()))
	p.whole("later")
	older := dumping(dumpedVersion, "after")
	older.RestoreFrom = &platformv1.RestoreFrom{Backup: "later-backup"}
	timed := dumping("17", "after")
	timed.RestoreFrom = &platformv1.RestoreFrom{Backup: dumpBackup, Target: &platformv1.RestoreTarget{Time: "2099-01-01T00:00:00Z"}}
	for name, tc := range map[string]struct {
		spec databasev1.PostgreSQLSpec
		says string
	}{
		"older": {older, "it is of version 17, and this is version 15, which is older"},
		"timed": {timed, `reaches no point in time with method "dump"`},
	} {
		if err := p.tryCreate(&databasev1.PostgreSQL{ObjectMeta: named(name), Spec: tc.spec}); err != nil {
			if !strings.Contains(err.Error(), tc.says) {
				p.Errorf("%s: %v", name, err)
			}
			continue
		}
		refused := &pgInstance{space: p.space, name: name, ways: p.ways}
		refused.notReadyFor(platformv1.ReasonRestoreRefused, tc.says)
		if left := p.volumes(refused.application().name); len(left) > 0 {
			p.Errorf("%s has the volumes %v", name, left)
		}
	}
}

// checkDumpInPlace: the dump takes the place of what an instance of a later version has by now, and so does its safety copy.
func (p *pgInstance) checkDumpInPlace(sum string) {
	copied := &pgInstance{space: p.space, name: "copy17", ways: p.ways}
	copied.exec(copied.pool(login{database: "shop"}), "UPDATE kept SET s = 'spoilt'")
	password := copied.binding()["password"]
	op := restoreOf("rewind", dumpBackup, copied.reference())
	p.create(op)
	p.passes("rewind")
	copied.serves("17", 1)
	copied.answers(copied.pool(login{database: "shop"}), sum, sumRows)
	copied.exec(copied.pool(login{user: "app", password: "another " + appPassword, database: "shop"}), "INSERT INTO kept VALUES (-1, 'newer')")
	if copied.binding()["password"] != password {
		p.Error("its password is another one")
	}
	p.mustGet("rewind", op)
	for _, step := range op.Status.Steps {
		if step.Name == "safety-copy" {
			safety := &platformv1.Backup{}
			p.mustGet(step.Outputs["backup"], safety)
			if safety.Spec.Method != "dump" || safety.Status.Phase != platformv1.BackupCompleted {
				p.Errorf("the safety copy is %s: %s", safety.Spec.Method, safety.Status.Phase)
			}
			return
		}
	}
	p.Error(fmt.Sprintf("there is no safety copy: %+v", op.Status.Steps))
}
