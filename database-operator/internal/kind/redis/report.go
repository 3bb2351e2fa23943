// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"fmt"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	"github.com/zeroinfra/database-operator/internal/kindparts"
)

// Report implements typed.Reporter.
func (Kind) Report(r *databasev1.Redis, app *platformv1.Application) {
	s := &r.Status
	s.Application = app.Name
	s.Version = app.Status.Version
	s.Ready = app.Status.Ready
	s.Primary = app.Status.Primary
	s.Term = app.Status.Term
	s.Durability, s.LossWindowSeconds = app.Status.Durability, app.DeepCopy().Status.LossWindowSeconds
	s.Schedules = app.DeepCopy().Status.Schedules
	s.Endpoint = kindparts.Endpoint(app.Status.Endpoints, kindparts.Primary)
	s.ReadOnlyEndpoint = kindparts.Endpoint(app.Status.Endpoints, kindparts.Replica)
	s.SentinelEndpoint = ""
	if app.Spec.Topology == elected {
		// Redis replicates in the same way, whoever elects.
		s.Durability = platformv1.DurabilityAsynchronous
		// Any Sentinel will do.
		s.SentinelEndpoint = kindparts.Endpoint(app.Status.Endpoints, "")
	}
	s.BindingName = ""
	if app.Status.Binding != nil {
		s.BindingName = app.Status.Binding.Name
	}
	reportMembers(s, app)
}

// reportMembers says who does what, who wrote before, and how many of the replicas that are wanted follow.
func reportMembers(s *databasev1.RedisStatus, app *platformv1.Application) {
	s.Members, s.Changes, s.Replicas, s.Sentinels = kindparts.Members(app), nil, "", ""
	for _, c := range app.Status.Components {
		switch {
		case c.Name == sentinels:
			s.Sentinels = fmt.Sprintf("%d/%d", kindparts.HealthyIn(c.Pods, ""), c.Replicas)
		case c.Name == component && app.Spec.Topology != standalone && app.Spec.Topology != "":
			s.Changes = kindparts.Changes(c)
			s.Replicas = fmt.Sprintf("%d/%d", kindparts.HealthyIn(c.Pods, kindparts.Replica), max(c.Replicas-1, 0))
		}
	}
}
