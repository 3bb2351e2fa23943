// SPDX-License-Identifier: Apache-2.0

package database

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// TestPostgreSQLInSyncMembersLost proves that nobody takes over by itself when the primary is lost together with a
// member that may have what the last one has not, and that a person can have that one take over, with the approval of
// another person.
func TestPostgreSQLInSyncMembersLost(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespace(t, "pgloss")
	r := s.CreateReplicatedPostgreSQL("db")
	r.WaitReady()
	r.WaitForPrimary()
	p := &framework.PostgreSQLApplication{Application: r.Application, Client: framework.PostgreSQLClient}
	p.WaitForAnswer("1", "SELECT 1")
	p.SQL("postgres", "CREATE TABLE ha (n int PRIMARY KEY); GRANT ALL ON ha TO app")
	for n := range framework.Config.FaultRounds {
		t.Run(fmt.Sprintf("round %d", n+1), func(t *testing.T) { losesInSync(r.In(s.In(t)), p.In(t), n+1) })
	}
}

// losesInSync is one round of that, which keeps another row.
func losesInSync(r *framework.Replicated, p *framework.PostgreSQLApplication, round int) {
	r.Helper()
	primary, term := r.WaitForPrimary()
	p.SQL("postgres", fmt.Sprintf("INSERT INTO ha VALUES (%d)", round))
	p.WaitForAnswer("2", "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming' AND sync_state = 'quorum' "+
		"AND flush_lsn = pg_current_wal_lsn()")
	lost := []string{primary, r.Follower()}
	var left string
	uids := r.UIDs()
	for name := range uids {
		if name != lost[0] && name != lost[1] {
			left = name
		}
	}
	for name, claim := range r.Claims() {
		if strings.HasSuffix(name, lost[0]) || strings.HasSuffix(name, lost[1]) {
			r.Delete(&claim)
		}
	}
	// In one request: were one gone for as long as the others wait, one of them might take over.
	var ordinals []string
	for _, name := range lost {
		ordinals = append(ordinals, name[strings.LastIndexByte(name, '-')+1:])
	}
	both, err := labels.Parse(fmt.Sprintf("%s=%s,%s in (%s)", platformv1.ApplicationLabel, r.Name, platformv1.OrdinalLabel,
		strings.Join(ordinals, ",")))
	if err != nil {
		r.Fatal(err)
	}
	if err := framework.Cluster.Client.DeleteAllOf(r.Ctx, &corev1.Pod{}, client.InNamespace(r.Namespace.Name),
		client.MatchingLabelsSelector{Selector: both}, framework.GraceZero); err != nil {
		r.Fatal(err)
	}

	r.Eventually(framework.ReadyTimeout, "it says that nobody takes over, and of whom something may be missing",
		func() error {
			c := meta.FindStatusCondition(r.Object().Status.Conditions, platformv1.ReadyCondition)
			if c == nil || c.Status != metav1.ConditionFalse || c.Reason != platformv1.ReasonFailoverPending ||
				!strings.Contains(c.Message, lost[0]) && !strings.Contains(c.Message, lost[1]) {
				return fmt.Errorf("it is %+v", c)
			}
			return nil
		})
	r.Eventually(framework.ReadyTimeout, "the pods that were lost are there again, without data", func() error {
		for _, name := range lost {
			pod := &corev1.Pod{}
			if err := r.Get(name, pod); err != nil {
				return err
			}
			if string(pod.UID) == string(uids[name]) || pod.Status.Phase != corev1.PodRunning {
				return fmt.Errorf("%s is %s", name, pod.Status.Phase)
			}
		}
		return nil
	})
	if w := r.WorkloadSet().Status.Primary; w.Member != nil && w.Member.Name != primary {
		r.Errorf("%s took over in term %d, and nobody had approved that", w.Member.Name, w.Term)
	}

	loss := fmt.Sprintf("loss-%d", round)
	r.CreateApproved(framework.NewOperation(loss, "Failover", framework.CoreReference("Application", r.Name), "to", left,
		"acceptDataLoss", "true"))
	r.WaitForOperation(loss)
	now, after := r.WaitForPrimary()
	if now != left || after <= term {
		r.Errorf("%s writes in term %d, want that %s does, in a later one than %d", now, after, left, term)
	}
	p.WaitForAnswer(fmt.Sprint(round), "SELECT count(*) FROM ha")
	p.WaitForAnswer("2", "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming' AND sync_state = 'quorum'")
}
