// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// postgresqlSession is one session of a client that was cut off with the server.
const postgresqlSession = `IFS= read -r PGPASSWORD
export PGPASSWORD PGCONNECT_TIMEOUT=2 PATH="$PATH:$(echo /usr/lib/postgresql/*/bin)"
(
  {
    echo "SET synchronous_commit = local;"
    while [ ! -e "/tmp/$1.stop" ]; do
      echo "INSERT INTO probe VALUES (1) RETURNING 'p ' || floor(extract(epoch FROM clock_timestamp()))::bigint || ' ' || to_char(clock_timestamp(), 'US')::int || ' $3';"
      sleep 0.1
    done
  } | psql -XAtq -h "$2" -U postgres -d postgres 2>/dev/null | grep '^p ' >"/tmp/$1.session"
  : >"/tmp/$1.ended"
) </dev/null >/dev/null 2>&1 &
`

const postgresqlClient = "psql"

// postgresqlReplicated is PostgreSQL.
var postgresqlReplicated = &replicatedKind{title: "PostgreSQL", component: postgresqlComponent, process: "postgres", data: "/data/pgdata", port: "5432",
	connect: connectPostgreSQL, probe: probePostgreSQL, kept: keptInPostgreSQL, image: "zeroinfra/postgresql:" + postgresqlVersion, beside: postgresqlSession}

// patience is how long others wait for a process that has to be back by itself: on a busy machine a server may need longer to recover from a
// crash than the few seconds that they wait by default.
var patience = &platformv1.Failover{After: &metav1.Duration{Duration: inPlaceGap}}

// waits sets how long others wait before one takes over; as by default with nil.
func (r *replicated) waits(failover *platformv1.Failover) {
	r.Helper()
	r.update(func(spec *platformv1.ApplicationSpec) { spec.Failover = failover })
	r.whole()
}

func (s *space) replicatedPostgreSQL(name string, changes ...func(*platformv1.ApplicationSpec)) *replicated {
	s.Helper()
	spec := postgresqlApplication(postgresqlVersion)
	spec.Topology = "replication"
	spec.Components[0].Monitoring = nil
	spec.Components[0].Resources = corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("20m"), corev1.ResourceMemory: resource.MustParse("96Mi")},
		Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("384Mi")},
	}
	spec.Components[0].Parameters = platformv1.Parameters{"max_connections": "40", "max_wal_size": "64MB", "min_wal_size": "32MB", "wal_keep_size": "32MB", "max_slot_wal_keep_size": "64MB"}
	for _, change := range changes {
		change(&spec)
	}
	s.runClient(postgresqlClient, "zeroinfra/postgresql:"+postgresqlVersion)
	return &replicated{s.apply(name, spec), postgresqlReplicated}
}

// TestPostgreSQLReplication proves, for each fault of a primary, that another one takes over when it should, that never two take writes, and
// that no write is lost that was acknowledged: a replica has it. It runs alone because it measures.
func TestPostgreSQLReplication(t *testing.T) {
	s := newSpace(t, "pgreplication")
	r := s.replicatedPostgreSQL("db")
	t.Logf("apply to Ready: %s", seconds(r.ready()))
	r.whole()
	p := &postgresql{application: r.application, client: postgresqlClient}
	p.answers("1", "SELECT 1")
	p.sql("postgres", "CREATE TABLE ha (n int PRIMARY KEY); CREATE TABLE probe (n int)")
	if got := r.object().Status.Durability; got != platformv1.DurabilitySynchronous {
		t.Errorf("status.durability is %q", got)
	}
	matrix := slices.DeleteFunc(faultMatrix(), func(f fault) bool {
		return !slices.Contains([]string{"process killed", "process does not come back", "process stopped", "pod deleted", "pod and volume deleted", "switched over",
			"operator killed", "API server away"}, f.name) &&
			// One round has no time for it: TestOperationsOfEachPlugin makes a member anew.
			!(set.faultRounds > 1 && f.name == "member made anew")
	})
	for n := range set.faultRounds {
		for i := range matrix {
			p.answers("2", "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming' AND sync_state = 'quorum'")
			r.suffer(matrix[i:i+1], 1)
			t.Logf("round %d: %s is over", n+1, matrix[i].name)
		}
	}
	r.tellChanges()
}

// TestPostgreSQLFailoverOfANode proves that a primary that is cut off stops by itself before another one writes, for a session that
// stays open on its side, too.
func TestPostgreSQLFailoverOfANode(t *testing.T) {
	s := newSpace(t, "pgfencing")
	r := s.replicatedPostgreSQL("db")
	r.ready()
	r.whole()
	p := &postgresql{application: r.application, client: postgresqlClient}
	p.answers("1", "SELECT 1")
	p.sql("postgres", "CREATE TABLE ha (n int PRIMARY KEY); CREATE TABLE probe (n int)")
	for n := range set.faultRounds {
		t.Run(fmt.Sprintf("round %d", n+1), func(t *testing.T) {
			r, p := r.in(s.in(t)), p.in(t)
			p.answers("2", "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming' AND sync_state = 'quorum'")
			r.nodeIsCutOff("node cut off", operatorNamespace, "kube-system")
		})
	}
	r.tellChanges()
}
