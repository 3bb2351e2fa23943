// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

const (
	// upgradedIn is when a test gives up on an upgrade of little data: pods go, a job runs, pods come, replicas copy.
	upgradedIn = 5 * readyIn
	// goodsSum says whether the rows are the same.
	goodsSum = "SELECT md5(string_agg(n || s, ',' ORDER BY n)) FROM goods"
)

// postgresqlToUpgrade is a PostgreSQL of an older version with rows in it.
func postgresqlToUpgrade(s *space, version string, replicas int32) *pgInstance {
	s.create(&databasev1.PostgreSQL{ObjectMeta: named("db"), Spec: databasev1.PostgreSQLSpec{
		Version: version, Replicas: replicas, Storage: databasev1.PostgreSQLStorage{Size: resource.MustParse("1Gi")},
		Parameters:     platformv1.Parameters{"max_connections": "40", "max_wal_size": "64MB", "min_wal_size": "32MB", "wal_keep_size": "32MB"},
		DeletionPolicy: platformv1.DeletionPolicyDelete,
	}})
	p := &pgInstance{space: s, name: "db", ways: s.ways()}
	p.following(int(replicas))
	p.exec(p.pool(login{}), "CREATE TABLE numbers (n int)", "CREATE TABLE goods (n int PRIMARY KEY, s text)",
		"INSERT INTO goods SELECT n, repeat(n::text, 50) FROM generate_series(1, 20000) n", "CREATE EXTENSION hstore")
	return p
}

// upgrade is an Operation on the data.
func (p *pgInstance) upgrade(name, template string, pairs ...string) *platformv1.Operation {
	op := operation(name, template, p.reference(), pairs...)
	op.Spec.Timeout = &metav1.Duration{Duration: upgradedIn}
	return op
}

// upgrades runs an Operation to its good end.
func (p *pgInstance) upgrades(name, template string, pairs ...string) {
	p.Helper()
	begun := time.Now()
	p.create(p.upgrade(name, template, pairs...))
	if ended := p.finished(name, upgradedIn); ended.Status.Phase != platformv1.OperationSucceeded {
		p.Fatalf("Operation %q is %s: %s", name, ended.Status.Phase, ended.Status.Error)
	}
	p.Logf("%s took %s", template, seconds(time.Since(begun)))
}

// fails runs an Operation to its bad end, with a text in what it says.
func (p *pgInstance) fails(name, text, template string, pairs ...string) {
	p.Helper()
	p.create(p.upgrade(name, template, pairs...))
	ended := p.finished(name, upgradedIn)
	if ended.Status.Phase != platformv1.OperationFailed || !strings.Contains(ended.Status.Error, text) {
		p.Fatalf("Operation %q is %s: %s; want a failure with %q", name, ended.Status.Phase, ended.Status.Error, text)
	}
}

// serves waits until primary and replicas serve one major version, with the same data.
func (p *pgInstance) serves(version string, replicas int) {
	p.Helper()
	p.following(replicas)
	super, reader := p.pool(login{}), p.pool(login{readOnly: true})
	major := "SELECT (current_setting('server_version_num')::int / 10000)::text"
	p.answers(super, version, major)
	p.answers(super, fmt.Sprint(replicas), "SELECT count(*)::text FROM pg_stat_replication WHERE state = 'streaming'")
	p.answers(reader, version, major)
	system := p.asked(super, "SELECT system_identifier::text FROM pg_control_system()")
	p.answers(reader, system, "SELECT system_identifier::text FROM pg_control_system()")
	if spec, status := p.object().Spec.Version, p.object().Status.Version; spec != version || !strings.HasPrefix(status, version+".") {
		p.Errorf("the spec says version %s, and the status %s; want %s", spec, status, version)
	}
}

// asked is what a statement gives that has to give something.
func (p *pgInstance) asked(pool *pgxpool.Pool, statement string) string {
	p.Helper()
	got, err := asks(p.ctx, pool, statement)
	if err != nil {
		p.Fatalf("%s: %v", statement, err)
	}
	return got
}

// saysOfUpgrade waits until the object says for which reason an upgrade is committed or not.
func (p *pgInstance) saysOfUpgrade(reason string) {
	p.Helper()
	p.eventually(settleIn, "the condition UpgradeCommitted says "+reason, func() error {
		if c := meta.FindStatusCondition(p.object().Status.Conditions, "UpgradeCommitted"); c == nil || c.Reason != reason {
			return fmt.Errorf("it says %+v", c)
		}
		return nil
	})
}

// TestPostgreSQLMajorUpgrade has three members under writes go to the next major version, back, there again and stay.
func TestPostgreSQLMajorUpgrade(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "pgmajor")
	p := postgresqlToUpgrade(s, "15", 2)
	super := p.pool(login{})
	sum := p.asked(super, goodsSum)
	p.wantRefused(p.tryUpdate(func(spec *databasev1.PostgreSQLSpec) { spec.Version = "17" }), "version cannot change by hand")
	p.refusedOperation(operation("elsewhere", "UpgradePaaS", p.reference(), "version", "16"), "17, from 15")
	p.refusedOperation(operation("nothing", "RollBackUpgrade", p.reference(), "acceptDataLoss", "true"), "there is no upgrade that could be rolled back")

	w := p.startWriter(p.pool(login{}))
	p.upgrades("upgrade", "UpgradePaaS", "version", "17")
	p.serves("17", 2)
	w.judge("upgrade of the major version", upgradedIn)
	p.answers(super, sum, goodsSum)
	p.answers(p.pool(login{readOnly: true}), sum, goodsSum)
	p.answers(super, "1", "SELECT 'a=>1'::hstore -> 'a'")
	p.answers(super, "true", "SELECT (count(*) > 0)::text FROM pg_statistic s JOIN pg_class c ON c.oid = starelid WHERE relname = 'goods'")
	p.saysOfUpgrade("AwaitsCommit")

	before := p.asked(super, "SELECT count(*)::text FROM numbers")
	p.exec(super, "DELETE FROM goods WHERE n > 10", "CREATE TABLE since (n int)")
	p.upgrades("back", "RollBackUpgrade", "acceptDataLoss", "true")
	p.serves("15", 2)
	p.answers(super, sum, goodsSum)
	p.refuses(super, `relation "since" does not exist`, "SELECT n::text FROM since")
	p.answers(super, "true", "SELECT (count(*) > 0 AND count(*) <= "+before+")::text FROM numbers")
	p.saysOfUpgrade("RolledBack")

	p.fails("early", "run CommitUpgrade first", "UpgradePaaS", "version", "17")
	p.serves("15", 2)
	p.upgrades("forget", "CommitUpgrade")
	p.saysOfUpgrade("Committed")
	p.upgrades("again", "UpgradePaaS", "version", "17")
	p.serves("17", 2)
	p.answers(super, sum, goodsSum)
	p.fails("twice", "version 17 can be reached from an earlier one alone", "UpgradePaaS", "version", "17")
	p.upgrades("commit", "CommitUpgrade")
	p.saysOfUpgrade("Committed")
	p.fails("late", "there is no upgrade that could be rolled back", "RollBackUpgrade", "acceptDataLoss", "true")
	p.serves("17", 2)
	p.answers(super, sum, goodsSum)
}

// TestPostgreSQLMajorUpgradeToTheNewest has a primary and a replica go from the version before the latest to that, back, and there again.
func TestPostgreSQLMajorUpgradeToTheNewest(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "pgnewest")
	p := postgresqlToUpgrade(s, "17", 1)
	super := p.pool(login{})
	sum := p.asked(super, goodsSum)
	const counted = "SELECT (count(*) > 0)::text FROM pg_statistic s JOIN pg_class c ON c.oid = starelid WHERE relname = 'goods'"
	p.exec(super, "ANALYZE goods")

	// A table can lack what the one has that it inherits from, in this version alone.
	p.exec(super, "CREATE TABLE child () INHERITS (goods)", "ALTER TABLE child ALTER n DROP NOT NULL")
	p.fails("refused", "SET NOT NULL for public.child.n", "UpgradePaaS", "version", postgresqlNewest)
	p.exec(super, "DROP TABLE child")

	p.upgrades("upgrade", "UpgradePaaS", "version", postgresqlNewest)
	p.serves(postgresqlNewest, 1)
	p.answers(super, sum, goodsSum)
	p.answers(super, "on", "SHOW data_checksums")
	p.answers(super, "true", counted)
	p.saysOfUpgrade("AwaitsCommit")
	p.exec(super, "CREATE TABLE since (n int)")
	p.upgrades("back", "RollBackUpgrade", "acceptDataLoss", "true")
	p.serves("17", 1)
	p.answers(super, sum, goodsSum)
	p.refuses(super, `relation "since" does not exist`, "SELECT n::text FROM since")
	p.upgrades("forget", "CommitUpgrade")
	p.upgrades("again", "UpgradePaaS", "version", postgresqlNewest)
	p.serves(postgresqlNewest, 1)
	p.fails("twice", "version 18 can be reached from an earlier one alone", "UpgradePaaS", "version", postgresqlNewest)
	p.upgrades("commit", "CommitUpgrade")
	p.saysOfUpgrade("Committed")
	p.answers(super, sum, goodsSum)
}

// TestPostgreSQLMajorUpgradeIsUndone has an upgrade fail before anything is touched, and in the middle: the data of before serves again, and
// nobody has to do anything for that.
func TestPostgreSQLMajorUpgradeIsUndone(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "pgundone")
	p := postgresqlToUpgrade(s, "15", 1)
	super := p.pool(login{})
	sum := p.asked(super, goodsSum)
	started := "SELECT pg_postmaster_start_time()::text"

	since := p.asked(super, started)
	p.exec(super, "CREATE DATABASE closed ALLOW_CONNECTIONS false", "CREATE TABLE rights (r aclitem)")
	p.fails("refused", "a database lets nobody in: closed", "UpgradePaaS", "version", "17")
	if op := p.finished("refused", settleIn); !strings.Contains(op.Status.Error, "public.rights.r (aclitem)") {
		t.Errorf("the Operation says %s", op.Status.Error)
	}
	p.answers(super, since, started)
	p.exec(super, "DROP DATABASE closed", "DROP TABLE rights")

	// There is no such column in the next version, and nothing tells before the view is made.
	p.exec(super, "CREATE VIEW gone AS SELECT buffers_backend FROM pg_stat_bgwriter")
	w := p.startWriter(p.pool(login{}))
	p.fails("halfway", "pg_upgrade failed", "UpgradePaaS", "version", "17")
	p.serves("15", 1)
	w.judge("upgrade that fails", upgradedIn)
	p.answers(super, sum, goodsSum)
	if running := p.object().Spec.Running; running != nil && !*running {
		t.Error("it is left stopped")
	}

	p.exec(super, "DROP VIEW gone")
	p.upgrades("mended", "UpgradePaaS", "version", "17")
	p.serves("17", 1)
	p.answers(super, sum, goodsSum)
}

// TestOperatorKilledDuringMajorUpgrade ends the operator in each step of an upgrade: the next one goes on, and does nothing twice.
func TestOperatorKilledDuringMajorUpgrade(t *testing.T) {
	s := newSpace(t, "pgkilled")
	// A spare replica, so that it takes as long as the Lease and not as a pod's start on top.
	s.restoreOperator()
	s.mustInstall(operatorName, "replicas=2")
	p := postgresqlToUpgrade(s, "15", 1)
	super := p.pool(login{})
	sum := p.asked(super, goodsSum)
	op := p.upgrade("upgrade", "UpgradePaaS", "version", "17")
	p.create(op)
	for _, step := range []string{"check", "stop", "version", "convert", "start"} {
		p.eventually(upgradedIn, "step "+step+" begins", func() error {
			if err := p.get("upgrade", op); err != nil {
				return err
			}
			for _, status := range op.Status.Steps {
				if status.Name == step && status.Attempts > 0 {
					return nil
				}
			}
			return fmt.Errorf("it is %q at step %q: %s", op.Status.Phase, op.Status.Progress, op.Status.Error)
		})
		s.deleteOperator()
		s.mustLeader()
	}
	if ended := p.finished("upgrade", upgradedIn); ended.Status.Phase != platformv1.OperationSucceeded {
		t.Fatalf("the Operation is %s: %s", ended.Status.Phase, ended.Status.Error)
	}
	p.serves("17", 1)
	p.answers(super, sum, goodsSum)
	for _, step := range p.finished("upgrade", settleIn).Status.Steps {
		if step.Name == "convert" && step.Attempts != 1 {
			t.Errorf("the data was converted in %d attempts", step.Attempts)
		}
	}
}
