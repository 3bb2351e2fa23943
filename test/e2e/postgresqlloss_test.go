// SPDX-License-Identifier: Apache-2.0

package e2e

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
)

// TestPostgreSQLInSyncMembersLost proves that nobody takes over by itself when the primary is lost together with a member that may have what the last one
// has not, and that a person can have that one take over, with the approval of another person.
func TestPostgreSQLInSyncMembersLost(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "pgloss")
	r := s.replicatedPostgreSQL("db")
	r.ready()
	r.whole()
	p := &postgresql{application: r.application, client: postgresqlClient}
	p.answers("1", "SELECT 1")
	p.sql("postgres", "CREATE TABLE ha (n int PRIMARY KEY)")
	for n := range set.faultRounds {
		t.Run(fmt.Sprintf("round %d", n+1), func(t *testing.T) { r.in(s.in(t)).losesInSync(p.in(t), n+1) })
	}
}

// losesInSync is one round of that, which keeps another row.
func (r *replicated) losesInSync(p *postgresql, round int) {
	r.Helper()
	primary, term := r.whole()
	p.sql("postgres", fmt.Sprintf("INSERT INTO ha VALUES (%d)", round))
	p.answers("2", "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming' AND sync_state = 'quorum' AND flush_lsn = pg_current_wal_lsn()")
	lost := []string{primary, r.follower()}
	var left string
	uids := r.uids()
	for name := range uids {
		if name != lost[0] && name != lost[1] {
			left = name
		}
	}
	for name, claim := range r.claims() {
		if strings.HasSuffix(name, lost[0]) || strings.HasSuffix(name, lost[1]) {
			r.delete(&claim)
		}
	}
	// In one request: were one gone for as long as the others wait, one of them might take over.
	var ordinals []string
	for _, name := range lost {
		ordinals = append(ordinals, name[strings.LastIndexByte(name, '-')+1:])
	}
	both, err := labels.Parse(fmt.Sprintf("%s=%s,%s in (%s)", platformv1.ApplicationLabel, r.name, platformv1.OrdinalLabel, strings.Join(ordinals, ",")))
	if err != nil {
		r.Fatal(err)
	}
	if err := world.client.DeleteAllOf(r.ctx, &corev1.Pod{}, client.InNamespace(r.space.name), client.MatchingLabelsSelector{Selector: both}, graceZero); err != nil {
		r.Fatal(err)
	}

	r.eventually(readyIn, "it says that nobody takes over, and of whom something may be missing", func() error {
		c := meta.FindStatusCondition(r.object().Status.Conditions, platformv1.ReadyCondition)
		if c == nil || c.Status != metav1.ConditionFalse || c.Reason != platformv1.ReasonFailoverPending || !strings.Contains(c.Message, lost[0]) && !strings.Contains(c.Message, lost[1]) {
			return fmt.Errorf("it is %+v", c)
		}
		return nil
	})
	r.eventually(readyIn, "the pods that were lost are there again, without data", func() error {
		for _, name := range lost {
			pod := &corev1.Pod{}
			if err := r.get(name, pod); err != nil {
				return err
			}
			if string(pod.UID) == string(uids[name]) || pod.Status.Phase != corev1.PodRunning {
				return fmt.Errorf("%s is %s", name, pod.Status.Phase)
			}
		}
		return nil
	})
	if w := r.set().Status.Writer; w.Primary != nil && w.Primary.Name != primary {
		r.Errorf("%s took over in term %d, and nobody had approved that", w.Primary.Name, w.Term)
	}

	loss := fmt.Sprintf("loss-%d", round)
	r.approved(operation(loss, "Failover", coreReference("Application", r.name), "to", left, "acceptDataLoss", "true"))
	r.passes(loss)
	now, after := r.whole()
	if now != left || after <= term {
		r.Errorf("%s writes in term %d, want that %s does, in a later one than %d", now, after, left, term)
	}
	p.answers(fmt.Sprint(round), "SELECT count(*) FROM ha")
	p.answers("2", "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming' AND sync_state = 'quorum'")
}
