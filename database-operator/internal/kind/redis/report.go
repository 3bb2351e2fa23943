// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"fmt"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	"github.com/zeroinfra/database-operator/internal/redisparts"
)

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
	s.Endpoint = redisparts.Endpoint(app.Status.Endpoints, redisparts.Primary)
	s.ReadOnlyEndpoint = redisparts.Endpoint(app.Status.Endpoints, redisparts.Replica)
	s.SentinelEndpoint = ""
	if app.Spec.Topology == elected {
		// Redis replicates in the same way, whoever elects.
		s.Durability = platformv1.DurabilityAsynchronous
		// Any Sentinel will do.
		s.SentinelEndpoint = redisparts.Endpoint(app.Status.Endpoints, "")
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
			if pod.Role == redisparts.Replica && pod.Health == redisparts.Healthy {
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
		if pod.Health == redisparts.Healthy {
			n++
		}
	}
	return n
}
