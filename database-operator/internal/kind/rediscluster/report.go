// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"fmt"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	"github.com/zeroinfra/database-operator/internal/kindparts"
)

// Report implements typed.Reporter.
func (Kind) Report(r *databasev1.RedisCluster, app *platformv1.Application) {
	s := &r.Status
	s.Application = app.Name
	s.Version = app.Status.Version
	s.Ready = app.Status.Ready
	s.Schedules = app.DeepCopy().Status.Schedules
	s.Endpoint = kindparts.Endpoint(app.Status.Endpoints, "")
	// That is how a Redis Cluster replicates; a shard without replicas has nobody who could take over.
	s.Durability = ""
	if r.Spec.ReplicasPerShard == nil || *r.Spec.ReplicasPerShard > 0 {
		s.Durability = platformv1.DurabilityAsynchronous
	}
	s.BindingName = ""
	if app.Status.Binding != nil {
		s.BindingName = app.Status.Binding.Name
	}
	reportMembers(s, app)
}

// reportMembers says who does what in which shard, and how many of the shards that are wanted have a primary that answers.
func reportMembers(s *databasev1.RedisClusterStatus, app *platformv1.Application) {
	s.Members, s.Shards, s.Roles = nil, "", ""
	wanted := map[string]bool{}
	for _, c := range app.Spec.Components {
		for _, set := range c.Sets {
			wanted[set.Name] = true
		}
	}
	served, primaries := map[string]bool{}, 0
	for _, c := range app.Status.Components {
		for _, pod := range c.Pods {
			if pod.Role == "" {
				continue
			}
			s.Members = append(s.Members, databasev1.RedisClusterMember{Name: pod.Name, Shard: pod.Set, Role: pod.Role})
			if pod.Role == kindparts.Primary {
				primaries++
			}
			if pod.Role == kindparts.Primary && pod.Health == kindparts.Healthy && wanted[pod.Set] {
				served[pod.Set] = true
			}
		}
	}
	if len(s.Members) > 0 {
		// A member is one or the other.
		s.Roles = counted(primaries, "primary", "primaries") + ", " + counted(len(s.Members)-primaries, "replica", "replicas")
	}
	if len(app.Status.Components) > 0 {
		s.Shards = fmt.Sprintf("%d/%d", len(served), len(wanted))
	}
}

// counted is a number with a word for one and a word for any other number.
func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
