// SPDX-License-Identifier: Apache-2.0

package database

import (
	"fmt"
	"maps"
	"slices"
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

// mysqlComponent is the component of the servers, and the container of each.
const mysqlComponent = "mysql"

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
func (m *mysqlInstance) members() []corev1.Pod {
	m.Helper()
	return slices.DeleteFunc(m.application().Pods(), func(pod corev1.Pod) bool {
		return pod.Labels[platformv1.ComponentLabel] != mysqlComponent
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

// askPod runs a statement in the server of a pod, over its socket.
func (m *mysqlInstance) askPod(pod, statement string) (string, error) {
	return framework.Run(m.Ctx, m.Namespace.Name, pod, mysqlComponent, "", "mysql",
		"--defaults-file=/zeroinfra/run/mysql.cnf", "--batch", "--skip-column-names", "--execute="+statement)
}

// waitForPod waits until a statement gives what is wanted in one member.
func (m *mysqlInstance) waitForPod(pod *corev1.Pod, want, statement string) {
	m.Helper()
	m.Eventually(framework.SettleTimeout, pod.Name+": "+statement+" gives "+want, func() error {
		got, err := m.askPod(pod.Name, statement)
		if err == nil && got != want {
			err = fmt.Errorf("it gives %q", got)
		}
		return err
	})
}

// waitForSameTransactions waits until all members have executed the same transactions. Nobody may write meanwhile.
func (g *mysqlGroup) waitForSameTransactions() {
	g.Helper()
	g.Eventually(framework.SettleTimeout, "all members have the same transactions", func() error {
		have := map[string]string{}
		for _, pod := range g.members() {
			set, err := g.askPod(pod.Name, "SELECT REPLACE(@@global.gtid_executed, '\\n', '')")
			if err != nil {
				return fmt.Errorf("%s: %w", pod.Name, err)
			}
			have[pod.Name] = set
		}
		if sets := slices.Compact(slices.Sorted(maps.Values(have))); len(sets) != 1 || sets[0] == "" {
			return fmt.Errorf("they have %v", have)
		}
		return nil
	})
}

// waitForTables waits until the condition of the tables has a status, and names a table.
func (m *mysqlInstance) waitForTables(status metav1.ConditionStatus, table string) {
	m.Helper()
	m.Eventually(framework.ReadyTimeout, fmt.Sprintf("%s is %s", tablesReplicable, status), func() error {
		obj, _, err := m.read()
		if err != nil {
			return err
		}
		all := obj.GetConditions()
		c := meta.FindStatusCondition(all, tablesReplicable)
		if c == nil || c.Status != status || !strings.Contains(c.Message, table) {
			return fmt.Errorf("it says: %s", framework.Describe(all))
		}
		return nil
	})
}
