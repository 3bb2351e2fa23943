// SPDX-License-Identifier: Apache-2.0

package database

import (
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// patience is how long others wait for a process that has to be back by itself: on a busy machine a server may need
// longer to recover from a crash than the few seconds that they wait by default.
var patience = &platformv1.Failover{After: &metav1.Duration{Duration: framework.InPlaceGapLimit}}

// waits sets how long others wait before one takes over; as by default with nil.
func waits(r *framework.Replicated, failover *platformv1.Failover) {
	r.Helper()
	r.Update(func(spec *platformv1.ApplicationSpec) { spec.Failover = failover })
	r.WaitForPrimary()
}

// TestPostgreSQLReplication proves, for each fault of a primary, that another one takes over when it should, that never
// two take writes, and that no write is lost that was acknowledged: a replica has it. It runs alone because it
// measures.
func TestPostgreSQLReplication(t *testing.T) {
	s := framework.NewNamespace(t, "pgreplication")
	r := s.CreateReplicatedPostgreSQL("db")
	t.Logf("apply to Ready: %s", framework.FormatSeconds(r.WaitReady()))
	r.WaitForPrimary()
	p := &framework.PostgreSQLApplication{Application: r.Application, Client: framework.PostgreSQLClient}
	p.WaitForAnswer("1", "SELECT 1")
	p.SQL("postgres", "CREATE TABLE ha (n int PRIMARY KEY); CREATE TABLE probe (n int); GRANT ALL ON ha, probe TO app")
	if got := r.Object().Status.Durability; got != platformv1.DurabilitySynchronous {
		t.Errorf("status.durability is %q", got)
	}
	matrix := slices.DeleteFunc(faultMatrix(), func(f framework.Fault) bool {
		return !slices.Contains([]string{"process killed", "process does not come back", "process stopped", "pod deleted",
			"pod and volume deleted", "switched over",
			"operator killed", "API server away"}, f.Name) &&
			// One round has no time for it: TestOperationsOfEachPlugin makes a member anew.
			!(framework.Config.FaultRounds > 1 && f.Name == "member made anew")
	})
	for n := range framework.Config.FaultRounds {
		for i := range matrix {
			p.WaitForAnswer("2", "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming' AND sync_state = 'quorum'")
			suffer(r, matrix[i:i+1], 1)
			t.Logf("round %d: %s is over", n+1, matrix[i].Name)
		}
	}
	r.LogChanges()
}

// TestPostgreSQLFailoverOfANode proves that a primary that is cut off stops by itself before another one writes, for a
// session that stays open on its side, too.
func TestPostgreSQLFailoverOfANode(t *testing.T) {
	s := framework.NewNamespace(t, "pgfencing")
	r := s.CreateReplicatedPostgreSQL("db")
	r.WaitReady()
	r.WaitForPrimary()
	p := &framework.PostgreSQLApplication{Application: r.Application, Client: framework.PostgreSQLClient}
	p.WaitForAnswer("1", "SELECT 1")
	p.SQL("postgres", "CREATE TABLE ha (n int PRIMARY KEY); CREATE TABLE probe (n int); GRANT ALL ON ha, probe TO app")
	for n := range framework.Config.FaultRounds {
		t.Run(fmt.Sprintf("round %d", n+1), func(t *testing.T) {
			r, p := r.In(s.In(t)), p.In(t)
			p.WaitForAnswer("2", "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming' AND sync_state = 'quorum'")
			nodeIsCutOff(r, "node cut off", framework.OperatorNamespace, "kube-system")
		})
	}
	r.LogChanges()
}
