// SPDX-License-Identifier: Apache-2.0

package database

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// pgMetricsPort is where the plugin postgresql serves metrics.
const pgMetricsPort = 9187

// Names that the next versions give to what the shipped ones have under others.
const (
	nextCondition = "DataPersisted"
	nextRewrite   = "RewriteLog"
	nextVacuum    = "Tidy"
	nextMetric    = "locks_awaited"
)

// takesOver has a bundle be one that instances of the installed version can go to, and installs it.
func takesOver(b *framework.Bundle) {
	b.Helper()
	b.Parts["manifest"]["allowed-upgrade-from"] = framework.OriginalVersion
	b.Install()
	b.ExpectAccepted()
}

// lacks checks that a template which the next version has is not there yet.
func lacks(u *framework.PluginUpgrade, template string, parameters ...string) {
	u.Helper()
	u.ExpectOperationRefused(framework.NewOperation("early-"+u.Target.Name, template, u.Target, parameters...),
		fmt.Sprintf("version %q has no Operation template %q", u.From, template))
}

// begin notes what there is, and that there is no way to what is no version.
func begin(u *framework.PluginUpgrade) {
	u.Helper()
	u.Before = u.ProcessMarks()
	u.ExpectOperationRefused(framework.NewOperation("absent-"+u.Target.Name, "UpgradeApp", u.Target, "version", "1.99.0"),
		"has no version 1.99.0")
	u.ExpectOperationRefused(framework.NewOperation("never-"+u.Target.Name, "UpgradeApp", u.Target, "version", "latest"),
		`parameter "version"`)
}

// operationName is the Operation that brings it to the next version.
func operationName(u *framework.PluginUpgrade) string { return "next-" + u.Target.Name }

// pinned waits until the Application asks for the next version: its Operation has done that, and may have done no more.
func pinned(u *framework.PluginUpgrade) {
	u.Helper()
	u.Eventually(framework.ReadyTimeout, u.Name+" asks for version "+u.To, func() error {
		if got := u.Object().Spec.PluginVersion; got != u.To {
			return fmt.Errorf("it asks for %s", got)
		}
		return nil
	})
}

// expectUntouched has the test fail unless the same pods run the same processes as before.
func expectUntouched(u *framework.PluginUpgrade) {
	u.Helper()
	if now := u.ProcessMarks(); !maps.Equal(now, u.Before) {
		u.Errorf("what ran of %s were %v, and are %v now", u.Name, u.Before, now)
	}
}

// restarted has the test fail unless each process was started anew in the pod that it was in. From then on, what there
// is now counts as before.
func restarted(u *framework.PluginUpgrade) {
	u.Helper()
	now := u.ProcessMarks()
	for pod, was := range u.Before {
		samePod, process, _ := strings.Cut(was, ", process started")
		samePodNow, processNow, _ := strings.Cut(now[pod], ", process started")
		if samePod != samePodNow || process == processNow {
			u.Errorf("what ran in %s was %q, and is %q now: want another process in the same pod", pod, was, now[pod])
		}
	}
	if len(now) != len(u.Before) {
		u.Errorf("what ran of %s were %v, and are %v now", u.Name, u.Before, now)
	}
	u.Before = now
}

// othersTookOver has the test fail unless each pod is another one. From then on, what there is now counts as before.
func othersTookOver(u *framework.PluginUpgrade) {
	u.Helper()
	now := u.ProcessMarks()
	for pod, was := range u.Before {
		uid, _, _ := strings.Cut(was, ",")
		if uidNow, _, there := strings.Cut(now[pod], ","); !there || uidNow == uid {
			u.Errorf("pod %s was %q, and is %q now: want another one", pod, was, now[pod])
		}
	}
	if len(now) != len(u.Before) {
		u.Errorf("what ran of %s were %v, and are %v now", u.Name, u.Before, now)
	}
	u.Before = now
}

// arrived checks that it is made from the next version, all of it, and that there is no way back.
func arrived(u *framework.PluginUpgrade) {
	u.Helper()
	u.WaitForOperation(operationName(u))
	app := u.Object()
	if app.Spec.PluginVersion != u.To || app.Status.Plugin == nil || app.Status.Plugin.Version != u.To {
		u.Errorf("%s asks for version %s and is made from %+v, want %s", u.Name, app.Spec.PluginVersion, app.Status.Plugin,
			u.To)
	}
	var sets platformv1.WorkloadSetList
	if err := framework.Cluster.Client.List(u.Ctx, &sets, client.InNamespace(u.Namespace.Name),
		client.MatchingLabels{platformv1.ApplicationLabel: u.Name}); err != nil {
		u.Fatal(err)
	}
	for _, set := range sets.Items {
		if got := set.Spec.Plugin.Version; got != u.To {
			u.Errorf("set %s is made from version %s", set.Name, got)
		}
	}
	switch u.Effect {
	case inPlace:
		restarted(u)
	case newPod:
		othersTookOver(u)
	default:
		expectUntouched(u)
	}
	u.ExpectOperationRefused(framework.NewOperation("back-"+u.Target.Name, "UpgradeApp", u.Target, "version", u.From),
		"does not take over from version "+u.To)
}

// upgradeUnderKills begins the Operations and ends the operator twice: when they are there, and when the versions are
// asked for.
func upgradeUnderKills(s *framework.Namespace, all ...*framework.PluginUpgrade) {
	s.Helper()
	for _, u := range all {
		s.Create(framework.NewOperation(operationName(u), "UpgradeApp", u.Target, "version", u.To))
	}
	s.DeleteOperatorPods()
	for _, u := range all {
		pinned(u)
	}
	s.MustLeader()
	s.PrepareOperatorKill()()
	for _, u := range all {
		arrived(u)
	}
}

// saysPersistence waits until an object has the condition of the next version. Pods get another probe with a delay.
func saysPersistence(s *framework.Namespace, name string, obj interface {
	client.Object
	GetConditions() []metav1.Condition
}) {
	s.Helper()
	s.Eventually(2*framework.ReadyTimeout, name+" says whether data gets to its volumes", func() error {
		if err := s.Get(name, obj); err != nil {
			return err
		}
		if c := meta.FindStatusCondition(obj.GetConditions(), nextCondition); c == nil || c.Status != metav1.ConditionTrue ||
			c.Reason != "NothingFailed" {
			return fmt.Errorf("it says: %s", framework.Describe(obj.GetConditions()))
		}
		return nil
	})
}

// rewrites has each server write its log anew, by an Operation that the former version has not.
func rewrites(u *framework.PluginUpgrade) {
	u.Helper()
	name := "rewrite-" + u.Target.Name
	u.Create(framework.NewOperation(name, nextRewrite, u.Target))
	ended := u.WaitForOperationEnd(name, 2*framework.ReadyTimeout)
	if ended.Status.Phase != platformv1.OperationSucceeded {
		u.Fatalf("Operation %q is %s: %s", name, ended.Status.Phase, ended.Status.Error)
	}
	outputs := ended.Status.Steps[0].Outputs
	before, err := strconv.Atoi(outputs["before"])
	if err != nil {
		u.Errorf("it says %v: %v", outputs, err)
	}
	after, err := strconv.Atoi(outputs["after"])
	if err != nil || after <= 0 || before <= 0 {
		u.Errorf("it says %v: %v", outputs, err)
	}
	u.Logf("the log of the last server had %d bytes and has %d", before, after)
	expectUntouched(u)
}

// nextRedis is a version of the plugin redis that restarts servers which log in at each other, and brings a condition
// and an Operation.
func nextRedis(s *framework.Namespace) *framework.Bundle {
	s.Helper()
	next := s.NewBundleOf("redis")
	next.ReplaceAll(`"$@" - <<END`, `"$@"  - <<END`)
	next.ReplaceAll("type: PersistenceHealthy", "type: "+nextCondition)
	next.RenameOperation("RewriteAOF", nextRewrite)
	takesOver(next)
	return next
}

// TestShippedPluginUpgrade takes a Redis with replicas and a RedisCluster, both of which are written to, from the
// shipped version of the plugin to another one, and one more Redis that this changes nothing of, while the operator is
// killed twice: no pod is touched, the servers that log in at each other are restarted in place, no acknowledged write
// is lost, and what the version brings is there.
func TestShippedPluginUpgrade(t *testing.T) {
	s := framework.NewNamespace(t, "shipped")
	s.RestoreOperatorAtEnd()
	beginsWith(s, framework.OriginalVersion, framework.NewRedis("fresh"), func(obj client.Object) string {
		return string(obj.(*databasev1.Redis).Spec.PluginVersion)
	})
	next := nextRedis(s)
	db := s.CreateRedis("db", framework.WithFsyncAlways(), framework.WithReplicas(2))
	wide := createRedisCluster(s, "wide", func(*databasev1.RedisClusterSpec) {})
	near := s.CreateRedis("near")
	db.WaitForReplicas(2)
	wide.whole(3)
	near.WaitReady()
	one := &framework.PluginUpgrade{Application: &framework.Application{Namespace: s, Name: db.Application()},
		From: framework.OriginalVersion, To: next.Version, Target: db.Reference(), Processes: db.Processes, Effect: inPlace}
	many := &framework.PluginUpgrade{Application: &framework.Application{Namespace: s, Name: wide.application()},
		From: framework.OriginalVersion, To: next.Version, Target: wide.reference(),
		Processes: func() map[string]string { return wide.said("server", "run_id") }, Effect: inPlace}
	late := &framework.PluginUpgrade{Application: &framework.Application{Namespace: s, Name: near.Application()},
		From: framework.OriginalVersion, To: next.Version, Target: near.Reference(), Processes: near.Processes,
		Effect: untouched}
	lacks(one, nextRewrite)
	lacks(many, nextRewrite)
	for _, u := range []*framework.PluginUpgrade{one, many, late} {
		begin(u)
	}

	w, l := db.StartWriter(), wide.load()
	upgradeUnderKills(s, one, many, late)
	saysPersistence(s, db.Name, &databasev1.Redis{})
	saysPersistence(s, wide.name, &databasev1.RedisCluster{})
	rewrites(one)
	rewrites(many)
	w.Stop()
	w.StopAndVerify("another version of the plugin", framework.InPlaceGapLimit)
	l.judge(clusterFault{Fault: framework.Fault{Name: "another version of the plugin", Limit: framework.InPlaceGapLimit},
		shards: 3})
	db.WaitForReplicas(2)
	wide.whole(3)
	expectUntouched(one)
	expectUntouched(many)
	expectUntouched(late)
	if got := db.Object().Spec.PluginVersion; string(got) != next.Version {
		t.Errorf("the Redis declares version %s", got)
	}
	if got := wide.object().Spec.PluginVersion; string(got) != next.Version {
		t.Errorf("the RedisCluster declares version %s", got)
	}
}

// beginsWith asks what an object that says nothing of the plugin would be stored with.
func beginsWith(s *framework.Namespace, version string, obj client.Object, versionOf func(client.Object) string) {
	s.Helper()
	obj.SetNamespace(s.Name)
	if err := framework.Cluster.Client.Create(s.Ctx, obj, client.DryRunAll); err != nil {
		s.Fatal(err)
	}
	if got := versionOf(obj); got != version {
		s.Errorf("what says nothing of the plugin begins with version %s, want %s", got, version)
	}
}

// nextPostgreSQL is a version of the plugin postgresql that brings a credential, for which pods are replaced, a metric
// and an Operation.
func nextPostgreSQL(s *framework.Namespace) *framework.Bundle {
	s.Helper()
	next := s.NewBundleOf("postgresql")
	next.Replace("credentials: [pooler, archive, archive-ca, app]",
		"credentials: [pooler, archive, archive-ca, app, extra]")
	next.Replace("archive-account, app]", "archive-account, app, extra]")
	next.Replace("\ncredentials:\n", "\ncredentials:\n  - name: extra\n    username: extra\n    length: 32\n")
	next.ReplaceAll("lock_waits", nextMetric)
	next.RenameOperation("Vacuum", nextVacuum)
	takesOver(next)
	return next
}

// TestShippedPluginUpgradeOfPostgreSQL is TestShippedPluginUpgrade for a PostgreSQL of two members, and for one that is
// alone: there are other metrics than before, an Operation that vacuums, and a credential more, for which pods are
// replaced.
func TestShippedPluginUpgradeOfPostgreSQL(t *testing.T) {
	s := framework.NewNamespace(t, "shippedpg")
	s.RestoreOperatorAtEnd()
	fresh := framework.NewUpgradablePostgreSQL("fresh")
	fresh.Spec.PluginVersion = ""
	beginsWith(s, framework.OriginalVersion, fresh,
		func(obj client.Object) string { return string(obj.(*databasev1.PostgreSQL).Spec.PluginVersion) })
	next := nextPostgreSQL(s)
	s.Create(framework.NewUpgradablePostgreSQL("db"))
	near := framework.NewUpgradablePostgreSQL("near")
	near.Spec.Replicas, near.Spec.Synchronous, near.Spec.Monitoring = 0, nil, nil
	s.Create(near)
	p, alone := &framework.PostgreSQLInstance{Namespace: s, Name: "db", PortForwards: s.NewPortForwards()},
		&framework.PostgreSQLInstance{Namespace: s, Name: "near", PortForwards: s.NewPortForwards()}
	p.WaitForReplicas(1)
	alone.WaitReady()
	u := &framework.PluginUpgrade{Application: p.Application(), From: framework.OriginalVersion, To: next.Version,
		Target: p.Reference(), Processes: p.ProcessStarts, Effect: newPod}
	late := &framework.PluginUpgrade{Application: alone.Application(), From: framework.OriginalVersion, To: next.Version,
		Target: alone.Reference(), Processes: alone.ProcessStarts, Effect: newPod}
	super := p.Pool(framework.Login{})
	p.Exec(super, "CREATE TABLE numbers (n int PRIMARY KEY)", "CREATE TABLE goods AS SELECT generate_series(1, 1000) AS n",
		"DELETE FROM goods")
	lacks(u, nextVacuum, "database", "postgres")
	begin(u)
	begin(late)
	primary := &corev1.Pod{}
	p.MustGet(role(p, "primary"), primary)
	page, err := u.MetricsOf(primary, pgMetricsPort)
	if _, found := framework.Sample(page, "postgresql_"+nextMetric); err != nil || found {
		t.Errorf("the former version tells of locks (%t): %v", found, err)
	}

	w := p.StartWriter(super)
	upgradeUnderKills(s, u, late)
	for _, upgraded := range []*framework.PostgreSQLInstance{p, alone} {
		upgraded.WaitReady()
		bound := upgraded.Pool(framework.Login{Bound: true})
		upgraded.WaitForAnswer(bound, "app app", "SELECT current_user || ' ' || current_database()")
		upgraded.Exec(bound, "CREATE TABLE own (n int)")
	}
	vacuums(p)
	primary = &corev1.Pod{}
	p.MustGet(role(p, "primary"), primary)
	tellsOfLocks(p, u, primary)
	w.StopAndVerify("another version of the plugin", framework.FailoverGapLimit)
	p.WaitForReplicas(1)
	expectUntouched(u)
	expectUntouched(late)
	if got := p.Object().Spec.PluginVersion; string(got) != next.Version {
		t.Errorf("the PostgreSQL declares version %s", got)
	}
}

// vacuums has a database vacuumed, and reads back that it was. What is no name of a database, or of none that is there,
// is refused.
func vacuums(p *framework.PostgreSQLInstance) {
	p.Helper()
	p.Create(framework.NewOperation("vacuum", nextVacuum, p.Reference(), "database", "postgres"))
	p.WaitForOperation("vacuum")
	p.WaitForAnswer(p.Pool(framework.Login{}), "true",
		"SELECT (last_vacuum IS NOT NULL AND last_analyze IS NOT NULL)::text "+
			"FROM pg_stat_user_tables WHERE relname = 'goods'")
	p.ExpectOperationRefused(framework.NewOperation("address", nextVacuum, p.Reference(), "database",
		"dbname=postgres host=elsewhere"), "the name of a database")
	p.ExpectOperationRefused(framework.NewOperation("nowhere", nextVacuum, p.Reference(), "database", "nowhere"),
		`database "nowhere" does not exist`)
}

// tellsOfLocks has one session wait for another one, and reads that among the metrics. Pods get another plan with a
// delay.
func tellsOfLocks(p *framework.PostgreSQLInstance, u *framework.PluginUpgrade, primary *corev1.Pod) {
	p.Helper()
	told := func(want float64, metric string) {
		p.Helper()
		p.Eventually(2*framework.ReadyTimeout, fmt.Sprintf("%s is %v", metric, want), func() error {
			page, err := u.MetricsOf(primary, pgMetricsPort)
			if err != nil {
				return err
			}
			if got, found := framework.Sample(page, metric); !found || got != want {
				return fmt.Errorf("it is %v (there: %t)", got, found)
			}
			return nil
		})
	}
	told(0, "postgresql_"+nextMetric)
	told(0, "postgresql_prepared_transactions")
	holder, err := p.Pool(framework.Login{}).Acquire(p.Ctx)
	if err != nil {
		p.Fatal(err)
	}
	defer holder.Release()
	const lock = "SELECT pg_advisory_lock(4711)"
	if _, err := holder.Exec(p.Ctx, lock); err != nil {
		p.Fatal(err)
	}
	waiter, ended := p.Pool(framework.Login{}), make(chan error, 1)
	go func() {
		_, err := waiter.Exec(p.Ctx, lock)
		ended <- err
	}()
	told(1, "postgresql_"+nextMetric)
	// A client that goes away is not noticed by a session that waits.
	if _, err := holder.Exec(p.Ctx, "SELECT pg_cancel_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND NOT "+
		"granted"); err != nil {
		p.Fatal(err)
	}
	if err := <-ended; err == nil {
		p.Error("a lock that another session holds was got")
	}
	told(0, "postgresql_"+nextMetric)
}
