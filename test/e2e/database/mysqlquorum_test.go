// SPDX-License-Identifier: Apache-2.0

package database

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// TestMySQLQuorum has a member that has diverged stay out until somebody approves that its data is given up, and a
// group that has lost two of three members go on once those are declared lost.
func TestMySQLQuorum(t *testing.T) {
	g := newMySQLGroup(t, "mysqlquorum")
	g.waitReady()
	db := g.bound()
	g.exec(db, "CREATE TABLE numbers (n INT PRIMARY KEY)")
	quarantined(g)
	g.exec(db, "INSERT INTO numbers VALUES (1)")
	for _, pod := range g.application().Pods() {
		g.waitForPod(&pod, "1", "SELECT COUNT(*) FROM app.numbers")
	}
	quorumLost(g)
	g.exec(db, "INSERT INTO numbers VALUES (2)")
	for _, pod := range g.application().Pods() {
		g.waitForPod(&pod, "2", "SELECT COUNT(*) FROM app.numbers")
	}
}

// replica is the first member that is not the primary.
func (g *mysqlGroup) replica() *corev1.Pod {
	g.Helper()
	primary, all := g.primaryPod().Name, g.members()
	i := slices.IndexFunc(all, func(pod corev1.Pod) bool { return pod.Name != primary })
	return &all[i]
}

// waitForWord waits until a condition of the membership has a text in its message; an empty one is for no such
// condition.
func (g *mysqlGroup) waitForWord(condition, word string) {
	g.Helper()
	g.Eventually(framework.ReadyTimeout, fmt.Sprintf("%s says %q", condition, word), func() error {
		all := g.object().Status.Conditions
		c := meta.FindStatusCondition(all, condition)
		if (c == nil) != (word == "") || c != nil && !strings.Contains(c.Message, word) {
			return fmt.Errorf("it says: %s", framework.Describe(all))
		}
		return nil
	})
}

func quarantined(g *mysqlGroup) {
	g.Helper()
	pod := g.replica()
	const leave = "STOP GROUP_REPLICATION; SET GLOBAL super_read_only = OFF; INSERT INTO app.numbers VALUES (7)"
	if _, err := framework.Run(g.Ctx, g.Namespace.Name, pod.Name, "mysql", "", "mysql",
		"--defaults-file=/zeroinfra/run/mysql.cnf", "--execute="+leave); err != nil {
		g.Fatal(err)
	}
	g.waitForWord(platformv1.QuarantinedCondition, pod.Name+" has transactions that the group has not")
	// It keeps its label while it does not answer, and Services lead to pods that are ready.
	g.Eventually(framework.SettleTimeout, "no Service leads to it", func() error {
		now := &corev1.Pod{}
		if err := g.Get(pod.Name, now); err != nil {
			return err
		}
		if framework.PodIsReady(now) {
			return errors.New("it is ready")
		}
		return nil
	})
	g.waitForPod(pod, "7", "SELECT n FROM app.numbers")
	rebuild := framework.NewOperation("rebuild", "RebuildMember", g.reference())
	rebuild.Spec.Parameters = platformv1.Parameters{"pod": platformv1.ParameterValue(pod.Name)}
	g.CreateApproved(rebuild)
	g.WaitForOperation(rebuild.Name)
	g.waitForWord(platformv1.QuarantinedCondition, "")
	g.waitReady()
}

// quorumLost deletes the primary and another member, which find no node to come back on. Their servers are stopped
// first, since one that ends by itself leaves the group, and the others go on without it.
func quorumLost(g *mysqlGroup) {
	g.Helper()
	from, uncordon := g.replica(), g.Cordon()
	var lost []string
	for _, pod := range g.application().Pods() {
		if pod.Name != from.Name {
			lost = append(lost, pod.Name)
			if _, err := framework.Run(g.Ctx, g.Namespace.Name, pod.Name, "mysql", "", "sh", "-c", framework.SignalScript+
				"exit 0", "signal", "STOP", "mysqld"); err != nil {
				g.Fatal(err)
			}
		}
	}
	for _, name := range lost {
		g.Delete(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: g.Namespace.Name, Name: name}}, framework.GraceZero)
	}
	slices.Sort(lost)
	g.waitForWord(platformv1.QuorumCondition,
		fmt.Sprintf("run ForceQuorum with from=%s and lost=%s,", from.Name, strings.Join(lost, ",")))
	force := framework.NewOperation("force", "ForceQuorum", g.reference())
	force.Spec.Parameters = platformv1.Parameters{"from": platformv1.ParameterValue(from.Name),
		"lost": platformv1.ParameterValue(strings.Join(lost, ","))}
	g.CreateApproved(force)
	g.Eventually(framework.ReadyTimeout, "the group has begun anew", func() error {
		if err := g.Get(force.Name, force); err != nil {
			return err
		}
		i := slices.IndexFunc(force.Status.Steps, func(s platformv1.StepStatus) bool { return s.Name == "begin" })
		if i < 0 || force.Status.Steps[i].Phase != platformv1.OperationSucceeded {
			return fmt.Errorf("it is %s: %s", force.Status.Phase, force.Status.Error)
		}
		return nil
	})
	uncordon()
	g.WaitForOperation(force.Name)
	g.waitForWord(platformv1.QuorumCondition, "")
	g.waitReady()
}
