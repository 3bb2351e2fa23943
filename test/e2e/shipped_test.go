// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// pgMetricsPort is where the plugin postgresql serves metrics.
const pgMetricsPort = 9187

// upgrading is an instance of a typed kind that is to go from one shipped version of its plugin to the newest.
type upgrading struct {
	*application
	// from is the version that it begins with, and to the newest.
	from, to string
	// kind and name of the object that declares it.
	target platformv1.TargetReference
	// processes says which one there is in each pod.
	processes func() map[string]string
	before    map[string]string
	// does is what the newest version does to it: untouched or inPlace.
	does effect
}

// marks is which pods and processes there are.
func (u *upgrading) marks() map[string]string {
	u.Helper()
	marks := u.runs()
	for pod, process := range u.processes() {
		marks[pod] += ", process " + process
	}
	return marks
}

// lacks checks that a template which the newest version has is not there yet.
func (u *upgrading) lacks(template string, parameters ...string) {
	u.Helper()
	u.refusedOperation(operation("early-"+u.target.Name, template, u.target, parameters...), fmt.Sprintf("version %q has no Operation template %q", u.from, template))
}

// begin notes what there is, and that there is no way to what is no version.
func (u *upgrading) begin() {
	u.Helper()
	u.before = u.marks()
	u.refusedOperation(operation("absent-"+u.target.Name, "UpgradeApp", u.target, "version", "1.99.0"), "has no version 1.99.0")
	u.refusedOperation(operation("never-"+u.target.Name, "UpgradeApp", u.target, "version", "latest"), `parameter "version"`)
}

// operationName is the Operation that brings it to the next version.
func (u *upgrading) operationName() string { return "next-" + u.target.Name }

// pinned waits until the Application asks for the next version: its Operation has done that, and may have done no more.
func (u *upgrading) pinned() {
	u.Helper()
	u.eventually(readyIn, u.name+" asks for version "+u.to, func() error {
		if got := u.object().Spec.PluginVersion; got != u.to {
			return fmt.Errorf("it asks for %s", got)
		}
		return nil
	})
}

// untouched has the test fail unless the same pods run the same processes as before.
func (u *upgrading) untouched() {
	u.Helper()
	if now := u.marks(); !maps.Equal(now, u.before) {
		u.Errorf("what ran of %s were %v, and are %v now", u.name, u.before, now)
	}
}

// restarted has the test fail unless each process was started anew in the pod that it was in. From then on, what there is now counts as before.
func (u *upgrading) restarted() {
	u.Helper()
	now := u.marks()
	for pod, was := range u.before {
		samePod, process, _ := strings.Cut(was, ", process started")
		samePodNow, processNow, _ := strings.Cut(now[pod], ", process started")
		if samePod != samePodNow || process == processNow {
			u.Errorf("what ran in %s was %q, and is %q now: want another process in the same pod", pod, was, now[pod])
		}
	}
	if len(now) != len(u.before) {
		u.Errorf("what ran of %s were %v, and are %v now", u.name, u.before, now)
	}
	u.before = now
}

// arrived checks that it is made from the next version, all of it, and that there is no way back.
func (u *upgrading) arrived() {
	u.Helper()
	u.passes(u.operationName())
	app := u.object()
	if app.Spec.PluginVersion != u.to || app.Status.Plugin == nil || app.Status.Plugin.Version != u.to {
		u.Errorf("%s asks for version %s and is made from %+v, want %s", u.name, app.Spec.PluginVersion, app.Status.Plugin, u.to)
	}
	var sets platformv1.WorkloadSetList
	if err := world.client.List(u.ctx, &sets, client.InNamespace(u.space.name), client.MatchingLabels{platformv1.ApplicationLabel: u.name}); err != nil {
		u.Fatal(err)
	}
	for _, set := range sets.Items {
		if got := set.Spec.Plugin.Version; got != u.to {
			u.Errorf("set %s is made from version %s", set.Name, got)
		}
	}
	if u.does == inPlace {
		u.restarted()
	} else {
		u.untouched()
	}
	u.refusedOperation(operation("back-"+u.target.Name, "UpgradeApp", u.target, "version", u.from), "does not take over from version "+u.to)
}

// upgradeUnderKills begins the Operations and ends the operator twice: when they are there, and when the versions are asked for.
func (s *space) upgradeUnderKills(all ...*upgrading) {
	s.Helper()
	for _, u := range all {
		s.create(operation(u.operationName(), "UpgradeApp", u.target, "version", u.to))
	}
	s.deleteOperator()
	for _, u := range all {
		u.pinned()
	}
	s.mustLeader()
	s.aimAtOperator()()
	for _, u := range all {
		u.arrived()
	}
}

// saysPersistence waits until the conditions of an object have what version 1.1.0 of the plugin redis tells. Pods get another probe with a delay.
func (s *space) saysPersistence(name string, obj interface {
	client.Object
	GetConditions() []metav1.Condition
}) {
	s.Helper()
	s.eventually(2*readyIn, name+" says whether data gets to its volumes", func() error {
		if err := s.get(name, obj); err != nil {
			return err
		}
		if c := meta.FindStatusCondition(obj.GetConditions(), "PersistenceHealthy"); c == nil || c.Status != metav1.ConditionTrue || c.Reason != "NothingFailed" {
			return fmt.Errorf("it says: %s", describe(obj.GetConditions()))
		}
		return nil
	})
}

// rewrites has each server write its log anew, by an Operation that the former version has not.
func (u *upgrading) rewrites() {
	u.Helper()
	name := "rewrite-" + u.target.Name
	u.create(operation(name, "RewriteAOF", u.target))
	ended := u.finished(name, 2*readyIn)
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
	u.untouched()
}

// TestShippedPluginUpgrade takes a Redis with replicas and a RedisCluster, both of which are written to, from the first version of the plugin to the
// newest, and one more Redis from the version before that, while the operator is killed twice: no pod is touched, the servers that log in at each other are
// restarted in place, no acknowledged write is lost, and what the versions bring is there.
func TestShippedPluginUpgrade(t *testing.T) {
	s := newSpace(t, "shipped")
	s.restoreOperator()
	s.beginsWith(newestRedis, redisObject("fresh"), func(obj client.Object) string { return obj.(*databasev1.Redis).Spec.PluginVersion })
	db := s.redis("db", safe(), withReplicas(2), ofPlugin(originalVersion))
	wide := s.redisCluster("wide", func(spec *databasev1.RedisClusterSpec) { spec.PluginVersion = originalVersion })
	near := s.redis("near", ofPlugin(formerRedis))
	db.following(2)
	wide.whole(3)
	near.ready()
	one := &upgrading{application: &application{space: s, name: db.application()}, from: originalVersion, to: newestRedis, target: db.reference(), processes: db.processes, does: inPlace}
	many := &upgrading{application: &application{space: s, name: wide.application()}, from: originalVersion, to: newestRedis, target: wide.reference(),
		processes: func() map[string]string { return wide.said("server", "run_id") }, does: inPlace}
	late := &upgrading{application: &application{space: s, name: near.application()}, from: formerRedis, to: newestRedis, target: near.reference(), processes: near.processes, does: untouched}
	one.lacks("RewriteAOF")
	many.lacks("RewriteAOF")
	for _, u := range []*upgrading{one, many, late} {
		u.begin()
	}

	w, l := db.startWriter(), wide.load()
	s.upgradeUnderKills(one, many, late)
	s.saysPersistence(db.name, &databasev1.Redis{})
	s.saysPersistence(wide.name, &databasev1.RedisCluster{})
	one.rewrites()
	many.rewrites()
	w.stop()
	w.judge("another version of the plugin", inPlaceGap)
	l.judge(clusterFault{fault: fault{name: "another version of the plugin", limit: inPlaceGap}, shards: 3})
	db.following(2)
	wide.whole(3)
	one.untouched()
	many.untouched()
	late.untouched()
	if got := db.object().Spec.PluginVersion; got != newestRedis {
		t.Errorf("the Redis declares version %s", got)
	}
	if got := wide.object().Spec.PluginVersion; got != newestRedis {
		t.Errorf("the RedisCluster declares version %s", got)
	}
}

// processes is what each server calls its present run.
func (i *instance) processes() map[string]string {
	i.Helper()
	all := map[string]string{}
	for _, m := range i.object().Status.Members {
		info, err := i.redisCLI(i.at(m.Name), "INFO", "server")
		if err != nil {
			i.Fatal(err)
		}
		all[m.Name] = infoField(info, "run_id")
	}
	return all
}

// beginsWith asks what an object that says nothing of the plugin would be stored with.
func (s *space) beginsWith(version string, obj client.Object, versionOf func(client.Object) string) {
	s.Helper()
	obj.SetNamespace(s.name)
	if err := world.client.Create(s.ctx, obj, client.DryRunAll); err != nil {
		s.Fatal(err)
	}
	if got := versionOf(obj); got != version {
		s.Errorf("what says nothing of the plugin begins with version %s, want %s", got, version)
	}
}

// upgradablePostgreSQL asks for a primary and a replica whose copy is waited for, for metrics, and for the first version of the plugin.
func upgradablePostgreSQL(name string) *databasev1.PostgreSQL {
	return &databasev1.PostgreSQL{ObjectMeta: named(name), Spec: databasev1.PostgreSQLSpec{
		Version: postgresqlVersion, PluginVersion: originalVersion, Replicas: 1,
		Synchronous: &databasev1.PostgreSQLSynchronous{Replicas: new(int32(1)), Method: databasev1.SynchronousFirst, Shortage: platformv1.ShortageContinue},
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("20m"), corev1.ResourceMemory: resource.MustParse("96Mi")},
			Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("384Mi")},
		},
		Storage:        databasev1.PostgreSQLStorage{Size: resource.MustParse("512Mi")},
		Parameters:     platformv1.Parameters{"max_connections": "40", "max_wal_size": "64MB", "min_wal_size": "32MB", "wal_keep_size": "32MB", "max_slot_wal_keep_size": "64MB"},
		Monitoring:     &platformv1.Monitoring{Enabled: true},
		DeletionPolicy: platformv1.DeletionPolicyDelete,
	}}
}

// TestShippedPluginUpgradeOfPostgreSQL is TestShippedPluginUpgrade for a PostgreSQL of two members, and for one that is alone and of the version before the
// newest: there are more metrics than in the first version, and an Operation that vacuums.
func TestShippedPluginUpgradeOfPostgreSQL(t *testing.T) {
	s := newSpace(t, "shippedpg")
	s.restoreOperator()
	fresh := upgradablePostgreSQL("fresh")
	fresh.Spec.PluginVersion = ""
	s.beginsWith(newestPostgreSQL, fresh, func(obj client.Object) string { return obj.(*databasev1.PostgreSQL).Spec.PluginVersion })
	s.create(upgradablePostgreSQL("db"))
	near := upgradablePostgreSQL("near")
	near.Spec.PluginVersion, near.Spec.Replicas, near.Spec.Synchronous, near.Spec.Monitoring = formerPostgreSQL, 0, nil, nil
	s.create(near)
	p, alone := &pgInstance{space: s, name: "db", ways: s.ways()}, &pgInstance{space: s, name: "near", ways: s.ways()}
	p.following(1)
	alone.ready()
	u := &upgrading{application: p.application(), from: originalVersion, to: newestPostgreSQL, target: p.reference(), processes: p.starts, does: untouched}
	late := &upgrading{application: alone.application(), from: formerPostgreSQL, to: newestPostgreSQL, target: alone.reference(), processes: alone.starts, does: untouched}
	super := p.pool(login{})
	p.exec(super, "CREATE TABLE numbers (n int PRIMARY KEY)", "CREATE TABLE goods AS SELECT generate_series(1, 1000) AS n", "DELETE FROM goods")
	u.lacks("Vacuum", "database", "postgres")
	u.begin()
	late.begin()
	primary := &corev1.Pod{}
	p.mustGet(p.role("primary"), primary)
	page, err := u.metricsOf(primary, pgMetricsPort)
	if _, found := sample(page, "postgresql_lock_waits"); err != nil || found {
		t.Errorf("the former version tells of locks (%t): %v", found, err)
	}

	w := p.startWriter(super)
	s.upgradeUnderKills(u, late)
	p.vacuums()
	p.tellsOfLocks(u, primary)
	w.judge("another version of the plugin", inPlaceGap)
	p.following(1)
	u.untouched()
	late.untouched()
	if got := p.object().Spec.PluginVersion; got != newestPostgreSQL {
		t.Errorf("the PostgreSQL declares version %s", got)
	}
}

// vacuums has a database vacuumed, and reads back that it was. What is no name of a database, or of none that is there, is refused.
func (p *pgInstance) vacuums() {
	p.Helper()
	p.create(operation("vacuum", "Vacuum", p.reference(), "database", "postgres"))
	p.passes("vacuum")
	p.answers(p.pool(login{}), "true", "SELECT (last_vacuum IS NOT NULL AND last_analyze IS NOT NULL)::text FROM pg_stat_user_tables WHERE relname = 'goods'")
	p.refusedOperation(operation("address", "Vacuum", p.reference(), "database", "dbname=postgres host=elsewhere"), "the name of a database")
	p.refusedOperation(operation("nowhere", "Vacuum", p.reference(), "database", "nowhere"), `database "nowhere" does not exist`)
}

// tellsOfLocks has one session wait for another one, and reads that among the metrics. Pods get another plan with a delay.
func (p *pgInstance) tellsOfLocks(u *upgrading, primary *corev1.Pod) {
	p.Helper()
	told := func(want float64, metric string) {
		p.Helper()
		p.eventually(2*readyIn, fmt.Sprintf("%s is %v", metric, want), func() error {
			page, err := u.metricsOf(primary, pgMetricsPort)
			if err != nil {
				return err
			}
			if got, found := sample(page, metric); !found || got != want {
				return fmt.Errorf("it is %v (there: %t)", got, found)
			}
			return nil
		})
	}
	told(0, "postgresql_lock_waits")
	told(0, "postgresql_prepared_transactions")
	holder, err := p.pool(login{}).Acquire(p.ctx)
	if err != nil {
		p.Fatal(err)
	}
	defer holder.Release()
	const lock = "SELECT pg_advisory_lock(4711)"
	if _, err := holder.Exec(p.ctx, lock); err != nil {
		p.Fatal(err)
	}
	waiter, ended := p.pool(login{}), make(chan error, 1)
	go func() {
		_, err := waiter.Exec(p.ctx, lock)
		ended <- err
	}()
	told(1, "postgresql_lock_waits")
	// A client that goes away is not noticed by a session that waits.
	if _, err := holder.Exec(p.ctx, "SELECT pg_cancel_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"); err != nil {
		p.Fatal(err)
	}
	if err := <-ended; err == nil {
		p.Error("a lock that another session holds was got")
	}
	told(0, "postgresql_lock_waits")
}
