// SPDX-License-Identifier: Apache-2.0

package database

import (
	"slices"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// TestMySQLClusterBackup has a replica be dumped while clients write, a drill find the dump good, and another group
// begin with it.
func TestMySQLClusterBackup(t *testing.T) {
	g := newMySQLGroup(t, "mysqlgroupbackup")
	g.waitReady()
	db := g.bound()
	g.exec(db, "CREATE TABLE numbers (n INT PRIMARY KEY)", "INSERT INTO numbers VALUES (1), (2), (3)")
	g.CreateRepository("store", g.application().Pods()[0].Spec.Containers[0].Image)
	w := g.startWriter(db, 10)
	g.Create(framework.NewBackupOperation("dump", "store", g.reference()))
	b := g.WaitForStoredBackup("dump")
	w.finish("dumped", db)
	if s := b.Status.Source; b.Spec.Method != "dump" || s == nil || s.Role != "replica" {
		t.Errorf("the Backup is by %s, of %+v", b.Spec.Method, s)
	}
	drill := framework.NewDrillOperation("drill", g.reference())
	drill.Spec.Parameters = platformv1.Parameters{"backup": platformv1.ParameterValue(b.Name)}
	g.Create(drill)
	g.WaitForOperation("drill")
	g.ExpectVerified(b.Name, "drill", platformv1.VerificationPassed, "found the data good")
	g.refusesInPlace(b.Name, "make another instance with restoreFrom")

	spec := g.object().Spec.InstanceSpec
	spec.RestoreFrom = &platformv1.RestoreFrom{Backup: b.Name}
	g.Delete(g.object())
	g.Create(&databasev1.MySQLCluster{ObjectMeta: framework.ObjectMeta("copy"),
		Spec: databasev1.MySQLClusterSpec{InstanceSpec: spec}})
	restored := &mysqlGroup{&mysqlInstance{Namespace: g.Namespace, name: "copy", ways: g.ways, kind: g.kind}}
	restored.waitReady()
	members := slices.DeleteFunc(restored.application().Pods(), func(pod corev1.Pod) bool {
		return pod.Labels[batchv1.JobNameLabel] != ""
	})
	if len(members) != 3 {
		g.Errorf("the group that was restored has %d members, want 3", len(members))
	}
	for _, pod := range members {
		restored.waitForPod(&pod, "3", "SELECT COUNT(*) FROM app.numbers WHERE n < 10")
	}
	restored.exec(restored.bound(), "INSERT INTO numbers VALUES (4)")
}
