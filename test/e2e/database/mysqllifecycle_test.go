// SPDX-License-Identifier: Apache-2.0

package database

import (
	"cmp"
	"database/sql"
	"fmt"
	"maps"
	"strconv"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

const (
	// mysqlLargerMemory is a limit beyond that of mysqlSpec.
	mysqlLargerMemory = "1280Mi"
	// mysqlLargerVolume is a size beyond that of mysqlSpec. A file system takes something for itself.
	mysqlLargerVolume, mysqlGrownBy = "1280Mi", 128 << 20
)

// mysqlLife is an instance that goes through Operations while a client writes to it.
type mysqlLife struct {
	*mysqlInstance
	db *sql.DB
	// whole waits until all servers serve as one instance, with nothing that one has and another has not.
	whole func()
	// operations that were run so far.
	operations int
}

// TestMySQLLifecycle has a MySQL and a MySQLCluster of three members be stopped and started, resized, and the latter
// scaled, while a client writes: no write is lost that was acknowledged, and pods, processes and volumes stay where the
// Operation does not say otherwise.
func TestMySQLLifecycle(t *testing.T) {
	t.Parallel()
	t.Run("MySQL", func(t *testing.T) {
		s := framework.NewNamespace(t, "mysqllife")
		s.Create(&databasev1.MySQL{ObjectMeta: framework.ObjectMeta("db"), Spec: mysqlSpec(mysqlVersion)})
		m := &mysqlInstance{Namespace: s, name: "db", ways: s.NewPortForwards()}
		m.waitReady()
		l := newMySQLLife(m, func() { m.waitReady() })
		l.isResized()
		l.grows()
		l.stopsAndStarts()
	})
	t.Run("MySQLCluster", func(t *testing.T) {
		g := newMySQLGroup(t, "mysqlgrouplife")
		g.waitReady()
		l := newMySQLLife(g.mysqlInstance, func() {
			g.waitReady()
			g.wholeGroup(int(g.object().Spec.Members))
			g.primaryPod()
			g.waitForSameTransactions()
		})
		l.isResized()
		l.scales(g)
		l.grows()
		l.stopsAndStarts()
	})
}

func newMySQLLife(m *mysqlInstance, whole func()) *mysqlLife {
	l := &mysqlLife{mysqlInstance: m, db: m.pool(2), whole: whole}
	l.exec(l.db, "CREATE TABLE numbers (n INT PRIMARY KEY)")
	return l
}

// operates runs an Operation, and waits until it has succeeded.
func (l *mysqlLife) operates(template string, parameters ...string) {
	l.Helper()
	l.operations++
	op := framework.NewOperation(fmt.Sprintf("operation-%d", l.operations), template, l.reference(), parameters...)
	l.Create(op)
	l.WaitForOperation(op.Name)
}

// underLoad has a client write while something is done, until all is whole again. What it was acknowledged is there.
func (l *mysqlLife) underLoad(what string, does func()) {
	l.Helper()
	w := l.startWriter(l.db, int(framework.Written.Add(mysqlRound)))
	w.waitForAll("before: " + what)
	does()
	w.waitForAll("after: " + what)
	w.finish(what, l.db)
	l.whole()
}

// isResized asks for more memory. The control groups tell of it and the buffer pools follow, while the servers run.
func (l *mysqlLife) isResized() {
	l.Helper()
	before := l.application().ProcessStarts()
	l.underLoad("more memory", func() { l.operates("VerticalScaleResource", "memoryLimit", mysqlLargerMemory) })
	want := resource.MustParse(mysqlLargerMemory)
	for _, pod := range l.members() {
		l.Eventually(framework.SettleTimeout, "the kernel gives pod "+pod.Name+" "+mysqlLargerMemory+" of memory",
			func() error {
				got, err := framework.Run(l.Ctx, l.Namespace.Name, pod.Name, mysqlComponent, "", "sh", "-c",
					"cat /sys/fs/cgroup/memory.max 2>/dev/null || cat /sys/fs/cgroup/memory/memory.limit_in_bytes")
				if err == nil && got != strconv.FormatInt(want.Value(), 10) {
					err = fmt.Errorf("it gives %q", got)
				}
				return err
			})
		l.waitForPod(&pod, strconv.FormatInt(l.poolWith(want.Value()), 10), "SELECT @@innodb_buffer_pool_size")
	}
	if now := l.application().ProcessStarts(); !maps.Equal(before, now) {
		l.Errorf("for more memory processes were started: since %v, and since %v", before, now)
	}
}

// poolWith is the size of the buffer pool that follows from a memory limit, in bytes: what docs/kinds/mysql.md and
// docs/kinds/mysqlcluster.md say.
func (l *mysqlLife) poolWith(limit int64) int64 {
	besides := map[string]map[string]int64{"MySQL": {"8.0": 384, "9.7": 512},
		"MySQLCluster": {"8.0": 544 + 160, "9.7": 736 + 160}}
	return (limit - besides[cmp.Or(l.kind, "MySQL")][mysqlVersion]<<20) / 4 * 3
}

// grows asks for larger volumes. The file systems grow while the servers run.
func (l *mysqlLife) grows() {
	l.Helper()
	before, sizes := l.application().ProcessStarts(), map[string]int64{}
	for _, pod := range l.members() {
		sizes[pod.Name] = l.room(pod.Name)
	}
	l.underLoad("larger volumes", func() { l.operates("VerticalScaleVolume", "size", mysqlLargerVolume) })
	for pod, size := range sizes {
		l.Eventually(framework.VolumeGrowthTimeout, "the file system of "+pod+" has grown", func() error {
			if now := l.room(pod); now < size+mysqlGrownBy {
				return fmt.Errorf("it had %d MiB and has %d MiB", size>>20, now>>20)
			}
			return nil
		})
	}
	if now := l.application().ProcessStarts(); !maps.Equal(before, now) {
		l.Errorf("for larger volumes processes were started: since %v, and since %v", before, now)
	}
}

func (l *mysqlLife) room(pod string) int64 {
	l.Helper()
	size, err := l.application().FileSystem(pod, mysqlComponent, "/data")
	if err != nil {
		l.Fatal(err)
	}
	return size
}

// scales has a group have five members, of which one that is to go becomes the primary, and three again.
func (l *mysqlLife) scales(g *mysqlGroup) {
	l.Helper()
	l.underLoad("five members", func() { l.operates("HorizontalScale", "replicas", "5") })
	if n := len(g.members()); n != 5 {
		l.Errorf("there are %d members, want 5", n)
	}
	last := g.application().Name + "-mysql-main-4"
	l.underLoad("the last member is the primary", func() { l.operates("Switchover", "to", last) })
	if primary := g.primaryPod().Name; primary != last {
		l.Errorf("%s is the primary, want %s", primary, last)
	}
	l.underLoad("three members, of which the primary is none", func() {
		l.operates("HorizontalScale", "replicas", "3")
	})
	if n := len(g.members()); n != 3 {
		l.Errorf("there are %d members, want 3", n)
	}
}

// stopsAndStarts has all pods end at once while a client writes, and begin again with the volumes that they had.
func (l *mysqlLife) stopsAndStarts() {
	l.Helper()
	claims, pods := l.claims(), len(l.members())
	l.underLoad("stopped and started", func() {
		l.operates("Stop")
		l.waitForNoPods()
		if now := l.claims(); !maps.Equal(claims, now) {
			l.Errorf("the claims were %v, and are %v while it is stopped", claims, now)
		}
		l.operates("Start")
	})
	if now := l.claims(); !maps.Equal(claims, now) {
		l.Errorf("the claims were %v and are %v", claims, now)
	}
	labelled := 0
	for _, pod := range l.members() {
		if pod.Labels[platformv1.RoleLabel] == "primary" {
			labelled++
		}
	}
	if n := len(l.members()); n != pods || labelled != 1 {
		l.Errorf("of %d pods %d are called the primary; there were %d", n, labelled, pods)
	}
}

// claims are those of the instance, by name.
func (l *mysqlLife) claims() map[string]types.UID {
	l.Helper()
	all := map[string]types.UID{}
	for name, claim := range l.application().Claims() {
		all[name] = claim.UID
	}
	return all
}
