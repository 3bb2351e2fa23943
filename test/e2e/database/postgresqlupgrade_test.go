// SPDX-License-Identifier: Apache-2.0

package database

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
	"github.com/zeroinfra/test/e2e/framework"
)

const (
	// upgradedIn is when a test gives up on an upgrade of little data: pods go, a job runs, pods come, replicas copy.
	upgradedIn = 5 * framework.ReadyTimeout
	// goodsSum says whether the rows are the same.
	goodsSum = "SELECT md5(string_agg(n || s, ',' ORDER BY n)) FROM goods"
)

// postgresqlToUpgrade is a PostgreSQL of an older version with rows in it.
func postgresqlToUpgrade(s *framework.Namespace, version string, replicas int32) *framework.PostgreSQLInstance {
	s.Create(&databasev1.PostgreSQL{ObjectMeta: framework.ObjectMeta("db"), Spec: databasev1.PostgreSQLSpec{
		InstanceSpec: platformv1.InstanceSpec{
			Version: version,
			Storage: platformv1.InstanceStorage{Size: resource.MustParse("1Gi")},
			Parameters: platformv1.Parameters{"max_connections": "40", "max_wal_size": "64MB", "min_wal_size": "32MB",
				"wal_keep_size": "32MB"},
			DeletionPolicy: platformv1.DeletionPolicyDelete,
		},
		Replicas: replicas,
	}})
	p := &framework.PostgreSQLInstance{Namespace: s, Name: "db", PortForwards: s.NewPortForwards()}
	p.WaitForReplicas(int(replicas))
	p.Exec(p.Pool(framework.Login{}), "CREATE TABLE numbers (n int)", "CREATE TABLE goods (n int PRIMARY KEY, s text)",
		"INSERT INTO goods SELECT n, repeat(n::text, 50) FROM generate_series(1, 20000) n", "CREATE EXTENSION hstore")
	return p
}

// upgradeOperation is an Operation on the data.
func upgradeOperation(p *framework.PostgreSQLInstance, name, template string, pairs ...string) *platformv1.Operation {
	op := framework.NewOperation(name, template, p.Reference(), pairs...)
	op.Spec.Timeout = &metav1.Duration{Duration: upgradedIn}
	return op
}

// upgrades runs an Operation to its good end.
func upgrades(p *framework.PostgreSQLInstance, name, template string, pairs ...string) {
	p.Helper()
	begun := time.Now()
	p.Create(upgradeOperation(p, name, template, pairs...))
	if ended := p.WaitForOperationEnd(name, upgradedIn); ended.Status.Phase != platformv1.OperationSucceeded {
		p.Fatalf("Operation %q is %s: %s", name, ended.Status.Phase, ended.Status.Error)
	}
	p.Logf("%s took %s", template, framework.FormatSeconds(time.Since(begun)))
}

// fails runs an Operation to its bad end, with a text in what it says.
func fails(p *framework.PostgreSQLInstance, name, text, template string, pairs ...string) {
	p.Helper()
	p.Create(upgradeOperation(p, name, template, pairs...))
	ended := p.WaitForOperationEnd(name, upgradedIn)
	if ended.Status.Phase != platformv1.OperationFailed || !strings.Contains(ended.Status.Error, text) {
		p.Fatalf("Operation %q is %s: %s; want a failure with %q", name, ended.Status.Phase, ended.Status.Error, text)
	}
}

// serves waits until primary and replicas serve one major version, with the same data.
func serves(p *framework.PostgreSQLInstance, version string, replicas int) {
	p.Helper()
	p.WaitForReplicas(replicas)
	super, reader := p.Pool(framework.Login{}), p.Pool(framework.Login{ReadOnly: true})
	major := "SELECT (current_setting('server_version_num')::int / 10000)::text"
	p.WaitForAnswer(super, version, major)
	p.WaitForAnswer(super, fmt.Sprint(replicas),
		"SELECT count(*)::text FROM pg_stat_replication WHERE state = 'streaming'")
	p.WaitForAnswer(reader, version, major)
	system := asked(p, super, "SELECT system_identifier::text FROM pg_control_system()")
	p.WaitForAnswer(reader, system, "SELECT system_identifier::text FROM pg_control_system()")
	if spec, status := p.Object().Spec.Version, p.Object().Status.Version; spec != version ||
		!strings.HasPrefix(status, version+".") {
		p.Errorf("the spec says version %s, and the status %s; want %s", spec, status, version)
	}
}

// asked is what a statement gives that has to give something.
func asked(p *framework.PostgreSQLInstance, pool *pgxpool.Pool, statement string) string {
	p.Helper()
	got, err := framework.Asks(p.Ctx, pool, statement)
	if err != nil {
		p.Fatalf("%s: %v", statement, err)
	}
	return got
}

// saysOfUpgrade waits until the object says for which reason an upgrade is committed or not.
func saysOfUpgrade(p *framework.PostgreSQLInstance, reason string) {
	p.Helper()
	p.Eventually(framework.SettleTimeout, "the condition UpgradeCommitted says "+reason, func() error {
		if c := meta.FindStatusCondition(p.Object().Status.Conditions, "UpgradeCommitted"); c == nil || c.Reason != reason {
			return fmt.Errorf("it says %+v", c)
		}
		return nil
	})
}

// TestPostgreSQLMajorUpgrade has three members under writes go to the next major version, back, there again and stay.
func TestPostgreSQLMajorUpgrade(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespace(t, "pgmajor")
	p := postgresqlToUpgrade(s, "15", 2)
	super := p.Pool(framework.Login{})
	sum := asked(p, super, goodsSum)
	p.ExpectRefused(p.TryUpdate(func(spec *databasev1.PostgreSQLSpec) { spec.Version = "17" }),
		"version cannot change by hand")
	p.ExpectOperationRefused(framework.NewOperation("elsewhere", "UpgradePaaS", p.Reference(), "version", "16"),
		"17, from 15")
	p.ExpectOperationRefused(framework.NewOperation("nothing", "RollBackUpgrade", p.Reference(), "acceptDataLoss", "true"),
		"there is no upgrade that could be rolled back")

	w := p.StartWriter(p.Pool(framework.Login{}))
	upgrades(p, "upgrade", "UpgradePaaS", "version", "17")
	serves(p, "17", 2)
	w.StopAndVerify("upgrade of the major version", upgradedIn)
	p.WaitForAnswer(super, sum, goodsSum)
	p.WaitForAnswer(p.Pool(framework.Login{ReadOnly: true}), sum, goodsSum)
	p.WaitForAnswer(super, "1", "SELECT 'a=>1'::hstore -> 'a'")
	p.WaitForAnswer(super, "true", "SELECT (count(*) > 0)::text FROM pg_statistic s JOIN pg_class c ON c.oid = starelid "+
		"WHERE relname = 'goods'")
	saysOfUpgrade(p, "AwaitsCommit")

	before := asked(p, super, "SELECT count(*)::text FROM numbers")
	p.Exec(super, "DELETE FROM goods WHERE n > 10", "CREATE TABLE since (n int)")
	upgrades(p, "back", "RollBackUpgrade", "acceptDataLoss", "true")
	serves(p, "15", 2)
	p.WaitForAnswer(super, sum, goodsSum)
	p.ExpectStatementRefused(super, `relation "since" does not exist`, "SELECT n::text FROM since")
	p.WaitForAnswer(super, "true", "SELECT (count(*) > 0 AND count(*) <= "+before+")::text FROM numbers")
	saysOfUpgrade(p, "RolledBack")

	fails(p, "early", "run CommitUpgrade first", "UpgradePaaS", "version", "17")
	serves(p, "15", 2)
	upgrades(p, "forget", "CommitUpgrade")
	saysOfUpgrade(p, "Committed")
	upgrades(p, "again", "UpgradePaaS", "version", "17")
	serves(p, "17", 2)
	p.WaitForAnswer(super, sum, goodsSum)
	fails(p, "twice", "version 17 can be reached from an earlier one alone", "UpgradePaaS", "version", "17")
	upgrades(p, "commit", "CommitUpgrade")
	saysOfUpgrade(p, "Committed")
	fails(p, "late", "there is no upgrade that could be rolled back", "RollBackUpgrade", "acceptDataLoss", "true")
	serves(p, "17", 2)
	p.WaitForAnswer(super, sum, goodsSum)
}

// TestPostgreSQLMajorUpgradeToTheNewest has a primary and a replica go from the version before the latest to that,
// back, and there again.
func TestPostgreSQLMajorUpgradeToTheNewest(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespace(t, "pgnewest")
	p := postgresqlToUpgrade(s, "17", 1)
	super := p.Pool(framework.Login{})
	sum := asked(p, super, goodsSum)
	const counted = "SELECT (count(*) > 0)::text FROM pg_statistic s JOIN pg_class c ON c.oid = starelid WHERE relname " +
		"= 'goods'"
	p.Exec(super, "ANALYZE goods")

	// A table can lack what the one has that it inherits from, in this version alone.
	p.Exec(super, "CREATE TABLE child () INHERITS (goods)", "ALTER TABLE child ALTER n DROP NOT NULL")
	fails(p, "refused", "SET NOT NULL for public.child.n", "UpgradePaaS", "version", postgresqlNewest)
	p.Exec(super, "DROP TABLE child")

	upgrades(p, "upgrade", "UpgradePaaS", "version", postgresqlNewest)
	serves(p, postgresqlNewest, 1)
	p.WaitForAnswer(super, sum, goodsSum)
	p.WaitForAnswer(super, "on", "SHOW data_checksums")
	p.WaitForAnswer(super, "true", counted)
	saysOfUpgrade(p, "AwaitsCommit")
	p.Exec(super, "CREATE TABLE since (n int)")
	upgrades(p, "back", "RollBackUpgrade", "acceptDataLoss", "true")
	serves(p, "17", 1)
	p.WaitForAnswer(super, sum, goodsSum)
	p.ExpectStatementRefused(super, `relation "since" does not exist`, "SELECT n::text FROM since")
	upgrades(p, "forget", "CommitUpgrade")
	upgrades(p, "again", "UpgradePaaS", "version", postgresqlNewest)
	serves(p, postgresqlNewest, 1)
	fails(p, "twice", "version 18 can be reached from an earlier one alone", "UpgradePaaS", "version", postgresqlNewest)
	upgrades(p, "commit", "CommitUpgrade")
	saysOfUpgrade(p, "Committed")
	p.WaitForAnswer(super, sum, goodsSum)
}

// TestPostgreSQLMajorUpgradeIsUndone has an upgrade fail before anything is touched, and in the middle: the data of
// before serves again, and nobody has to do anything for that.
func TestPostgreSQLMajorUpgradeIsUndone(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespace(t, "pgundone")
	p := postgresqlToUpgrade(s, "15", 1)
	super := p.Pool(framework.Login{})
	sum := asked(p, super, goodsSum)
	started := "SELECT pg_postmaster_start_time()::text"

	since := asked(p, super, started)
	p.Exec(super, "CREATE DATABASE closed ALLOW_CONNECTIONS false", "CREATE TABLE rights (r aclitem)")
	fails(p, "refused", "a database lets nobody in: closed", "UpgradePaaS", "version", "17")
	op := p.WaitForOperationEnd("refused", framework.SettleTimeout)
	if !strings.Contains(op.Status.Error, "public.rights.r (aclitem)") {
		t.Errorf("the Operation says %s", op.Status.Error)
	}
	p.WaitForAnswer(super, since, started)
	p.Exec(super, "DROP DATABASE closed", "DROP TABLE rights")

	// There is no such column in the next version, and nothing tells before the view is made.
	p.Exec(super, "CREATE VIEW gone AS SELECT buffers_backend FROM pg_stat_bgwriter")
	w := p.StartWriter(p.Pool(framework.Login{}))
	fails(p, "halfway", "pg_upgrade failed", "UpgradePaaS", "version", "17")
	serves(p, "15", 1)
	w.StopAndVerify("upgrade that fails", upgradedIn)
	p.WaitForAnswer(super, sum, goodsSum)
	if running := p.Object().Spec.Running; running != nil && !*running {
		t.Error("it is left stopped")
	}

	p.Exec(super, "DROP VIEW gone")
	upgrades(p, "mended", "UpgradePaaS", "version", "17")
	serves(p, "17", 1)
	p.WaitForAnswer(super, sum, goodsSum)
}

// TestOperatorKilledDuringMajorUpgrade ends the operator in each step of an upgrade: the next one goes on, and does
// nothing twice.
func TestOperatorKilledDuringMajorUpgrade(t *testing.T) {
	s := framework.NewNamespace(t, "pgkilled")
	// A spare replica, so that it takes as long as the Lease and not as a pod's start on top.
	s.RestoreOperatorAtEnd()
	s.MustInstall(framework.OperatorName, "replicas=2")
	p := postgresqlToUpgrade(s, "15", 1)
	super := p.Pool(framework.Login{})
	sum := asked(p, super, goodsSum)
	op := upgradeOperation(p, "upgrade", "UpgradePaaS", "version", "17")
	p.Create(op)
	for _, step := range []string{"check", "stop", "version", "convert", "start"} {
		p.Eventually(upgradedIn, "step "+step+" begins", func() error {
			if err := p.Get("upgrade", op); err != nil {
				return err
			}
			for _, status := range op.Status.Steps {
				if status.Name == step && status.Attempts > 0 {
					return nil
				}
			}
			return fmt.Errorf("it is %q at step %q: %s", op.Status.Phase, op.Status.Progress, op.Status.Error)
		})
		s.DeleteOperatorPods()
		s.MustLeader()
	}
	if ended := p.WaitForOperationEnd("upgrade", upgradedIn); ended.Status.Phase != platformv1.OperationSucceeded {
		t.Fatalf("the Operation is %s: %s", ended.Status.Phase, ended.Status.Error)
	}
	serves(p, "17", 1)
	p.WaitForAnswer(super, sum, goodsSum)
	for _, step := range p.WaitForOperationEnd("upgrade", framework.SettleTimeout).Status.Steps {
		if step.Name == "convert" && step.Attempts != 1 {
			t.Errorf("the data was converted in %d attempts", step.Attempts)
		}
	}
}
