// SPDX-License-Identifier: Apache-2.0

package database

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// tablesReplicable is the condition that says whether the group takes writes to all tables.
const tablesReplicable = "TablesReplicable"

// mysqlGroup is the one MySQLCluster of a test.
type mysqlGroup struct{ *mysqlInstance }

// newMySQLGroup makes a MySQLCluster of three small members.
func newMySQLGroup(t *testing.T, namespace string) *mysqlGroup {
	t.Helper()
	return makeMySQLGroup(framework.NewNamespace(t, namespace), "db")
}

// makeMySQLGroup makes one beside others.
func makeMySQLGroup(s *framework.Namespace, name string) *mysqlGroup {
	s.Helper()
	instance := mysqlSpec(mysqlVersion).InstanceSpec
	instance.Parameters = platformv1.Parameters{"innodb_redo_log_capacity": "32M"}
	s.Create(&databasev1.MySQLCluster{ObjectMeta: framework.ObjectMeta(name),
		Spec: databasev1.MySQLClusterSpec{InstanceSpec: instance}})
	return &mysqlGroup{&mysqlInstance{Namespace: s, name: name, ways: s.NewPortForwards(), kind: "MySQLCluster"}}
}

// in returns the same group for a subtest.
func (g *mysqlGroup) in(t *testing.T) *mysqlGroup { return &mysqlGroup{g.mysqlInstance.in(t)} }

// members are the pods of the servers; routers have others.
func (g *mysqlGroup) members() []corev1.Pod {
	g.Helper()
	return slices.DeleteFunc(g.application().Pods(), func(pod corev1.Pod) bool {
		return pod.Labels[platformv1.ComponentLabel] != "mysql"
	})
}

// deletePod deletes a pod by name.
func (g *mysqlGroup) deletePod(name string, options ...client.DeleteOption) {
	g.Helper()
	g.Delete(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: g.Namespace.Name, Name: name}}, options...)
}

func (g *mysqlGroup) object() *databasev1.MySQLCluster {
	g.Helper()
	obj := &databasev1.MySQLCluster{}
	g.MustGet(g.name, obj)
	return obj
}

// tryUpdate changes the spec as "kubectl patch" does.
func (g *mysqlGroup) tryUpdate(change func(*databasev1.MySQLClusterSpec)) error {
	g.Helper()
	obj := g.object()
	before := obj.DeepCopy()
	change(&obj.Spec)
	return framework.Cluster.Client.Patch(g.Ctx, obj, client.MergeFrom(before))
}

// update is tryUpdate for what has to be accepted. It waits until the group is ready with that.
func (g *mysqlGroup) update(change func(*databasev1.MySQLClusterSpec)) {
	g.Helper()
	if err := g.tryUpdate(change); err != nil {
		g.Fatalf("cannot change MySQLCluster %q: %v", g.name, err)
	}
	g.waitReady()
}

// waitReady waits until the group is ready at its present generation. It returns how long that took.
func (g *mysqlGroup) waitReady() time.Duration {
	g.Helper()
	return g.Eventually(framework.ReadyTimeout, fmt.Sprintf("MySQLCluster %q becomes ready", g.name), func() error {
		obj := &databasev1.MySQLCluster{}
		if err := g.Get(g.name, obj); err != nil {
			return err
		}
		return framework.ReadyNow(obj, obj.Status.ObservedGeneration)
	})
}

// waitForPod waits until a statement gives what is wanted in one member.
func (g *mysqlGroup) waitForPod(pod *corev1.Pod, want, statement string) {
	g.Helper()
	g.Eventually(framework.SettleTimeout, pod.Name+": "+statement+" gives "+want, func() error {
		got, err := framework.Run(g.Ctx, g.Namespace.Name, pod.Name, "mysql", "", "mysql",
			"--defaults-file=/zeroinfra/run/mysql.cnf", "--batch", "--skip-column-names", "--execute="+statement)
		if err == nil && got != want {
			err = fmt.Errorf("it gives %q", got)
		}
		return err
	})
}

// waitForTables waits until the condition of the tables has a status, and names a table.
func (m *mysqlInstance) waitForTables(status metav1.ConditionStatus, table string) {
	m.Helper()
	m.Eventually(framework.ReadyTimeout, fmt.Sprintf("%s is %s", tablesReplicable, status), func() error {
		all := m.conditions()
		c := meta.FindStatusCondition(all, tablesReplicable)
		if c == nil || c.Status != status || !strings.Contains(c.Message, table) {
			return fmt.Errorf("it says: %s", framework.Describe(all))
		}
		return nil
	})
}

// conditions of the object, of either kind.
func (m *mysqlInstance) conditions() []metav1.Condition {
	m.Helper()
	if m.kind == "" {
		return m.object().Status.Conditions
	}
	return (&mysqlGroup{m}).object().Status.Conditions
}
