// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"fmt"
	"net"
	"strconv"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
)

// healthy is what the engine says of a pod whose server answers.
const healthy = "Healthy"

// Report implements typed.Kind.
func (Kind) Report(r *databasev1.Redis, app *platformv1.Application) {
	s := &r.Status
	s.Application = app.Name
	s.Version = app.Status.Version
	s.Ready = app.Status.Ready
	s.Primary = app.Status.Primary
	s.Term = app.Status.Term
	s.Durability = app.Status.Durability
	s.Schedules = app.DeepCopy().Status.Schedules
	s.Endpoint = endpoint(app.Status.Endpoints, primaryRole)
	s.ReadOnlyEndpoint = endpoint(app.Status.Endpoints, replicaRole)
	s.SentinelEndpoint = ""
	if app.Spec.Topology == elected {
		// Redis replicates in the same way, whoever elects.
		s.Durability = platformv1.DurabilityAsynchronous
		// Any Sentinel will do.
		s.SentinelEndpoint = endpoint(app.Status.Endpoints, "")
	}
	s.BindingName = ""
	if app.Status.Binding != nil {
		s.BindingName = app.Status.Binding.Name
	}
	reportMembers(s, app)
}

// reportMembers says who does what, and how many of the replicas that are wanted follow.
func reportMembers(s *databasev1.RedisStatus, app *platformv1.Application) {
	s.Members, s.Replicas, s.Sentinels = nil, "", ""
	for _, c := range app.Status.Components {
		if c.Name == sentinels {
			s.Sentinels = fmt.Sprintf("%d/%d", watching(c.Pods), c.Replicas)
		}
		follow := 0
		for _, pod := range c.Pods {
			if pod.Role == "" {
				continue
			}
			s.Members = append(s.Members, databasev1.RedisMember{Name: pod.Name, Role: pod.Role})
			if pod.Role == replicaRole && pod.Health == healthy {
				follow++
			}
		}
		if app.Spec.Topology != standalone && app.Spec.Topology != "" && c.Name == component {
			s.Replicas = fmt.Sprintf("%d/%d", follow, max(c.Replicas-1, 0))
		}
	}
}

// watching are the Sentinels that watch the primary.
func watching(pods []platformv1.PodState) int {
	n := 0
	for _, pod := range pods {
		if pod.Health == healthy {
			n++
		}
	}
	return n
}

// endpoint returns the address of the Service for pods of a role; empty when there is none.
func endpoint(all []platformv1.Endpoint, role string) string {
	for _, e := range all {
		if e.Role == role {
			return net.JoinHostPort(e.Host, strconv.Itoa(int(e.Port)))
		}
	}
	return ""
}
