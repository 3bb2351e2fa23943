// SPDX-License-Identifier: Apache-2.0

package framework

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// postgresqlSession is one session of a client that was cut off with the server.
const postgresqlSession = `IFS= read -r PGPASSWORD
export PGPASSWORD PGCONNECT_TIMEOUT=2 PATH="$PATH:$(echo /usr/lib/postgresql/*/bin)"
(
  {
    echo "SET synchronous_commit = local;"
    while [ ! -e "/tmp/$1.stop" ]; do
      echo "INSERT INTO probe VALUES (1) RETURNING 'p ' || floor(extract(epoch FROM clock_timestamp()))::bigint
        || ' ' || to_char(clock_timestamp(), 'US')::int || ' $3';"
      sleep 0.1
    done
  } | psql -XAtq -h "$2" -U app -d postgres 2>/dev/null | grep '^p ' >"/tmp/$1.session"
  : >"/tmp/$1.ended"
) </dev/null >/dev/null 2>&1 &
`

// PostgreSQLClient is the name of the pod that runs psql.
const PostgreSQLClient = "psql"

// ReplicatedPostgreSQLKind is PostgreSQL.
var ReplicatedPostgreSQLKind = &ReplicatedKind{title: "PostgreSQL", Component: PostgreSQLComponent, Process: "postgres",
	data: "/data/pgdata", port: "5432",
	connect: connectPostgreSQL, probe: probePostgreSQL, kept: keptInPostgreSQL, image: "zeroinfra/postgresql:" +
		PostgreSQLVersion, SessionScript: postgresqlSession}

// CreateReplicatedPostgreSQL creates an Application of the plugin postgresql with replicas.
func (s *Namespace) CreateReplicatedPostgreSQL(name string, changes ...func(*platformv1.ApplicationSpec)) *Replicated {
	s.Helper()
	spec := NewPostgreSQLApplication(PostgreSQLVersion)
	spec.Topology = "replication"
	spec.Components[0].Monitoring = nil
	spec.Components[0].Resources = corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("20m"),
			corev1.ResourceMemory: resource.MustParse("96Mi")},
		Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("384Mi")},
	}
	spec.Components[0].Parameters = platformv1.Parameters{"max_connections": "40", "max_wal_size": "64MB",
		"min_wal_size": "32MB", "wal_keep_size": "32MB", "max_slot_wal_keep_size": "64MB"}
	for _, change := range changes {
		change(&spec)
	}
	s.RunClient(PostgreSQLClient, "zeroinfra/postgresql:"+PostgreSQLVersion)
	return &Replicated{s.CreateApplication(name, spec), ReplicatedPostgreSQLKind}
}
