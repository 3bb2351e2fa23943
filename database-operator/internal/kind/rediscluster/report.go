// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"fmt"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/typed"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	"github.com/zeroinfra/database-operator/internal/kindparts"
)

// Report implements typed.Reporter.
func (Kind) Report(r *databasev1.RedisCluster, app *platformv1.Application) {
	s := &r.Status
	instance.Report(&s.InstanceStatus, app)
	// That is how a Redis Cluster replicates; a shard without replicas has nobody who could take over.
	s.Durability = ""
	if r.Spec.ReplicasPerShard == nil || *r.Spec.ReplicasPerShard > 0 {
		s.Durability = platformv1.DurabilityAsynchronous
	}
	s.Roles, s.Shards = "", ""
	primaries := 0
	for _, member := range s.Members {
		if member.Role == kindparts.Primary {
			primaries++
		}
	}
	if len(s.Members) > 0 {
		// A member is one or the other.
		s.Roles = counted(primaries, "primary", "primaries") + ", " + counted(len(s.Members)-primaries, "replica", "replicas")
	}
	if len(app.Status.Components) > 0 {
		s.Shards = served(app)
	}
}

// served counts the shards that are wanted and have a primary that answers.
func served(app *platformv1.Application) string {
	wanted, served := map[string]bool{}, map[string]bool{}
	for _, c := range app.Spec.Components {
		for _, set := range c.Sets {
			wanted[set.Name] = true
		}
	}
	for _, c := range app.Status.Components {
		for _, pod := range c.Pods {
			if pod.Role == kindparts.Primary && pod.Health == typed.Healthy && wanted[pod.Set] {
				served[pod.Set] = true
			}
		}
	}
	return fmt.Sprintf("%d/%d", len(served), len(wanted))
}

// counted is a number with a word for one and a word for any other number.
func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
