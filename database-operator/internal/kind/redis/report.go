// SPDX-License-Identifier: Apache-2.0

package redis

import (
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/typed"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	"github.com/zeroinfra/database-operator/internal/kindparts"
)

// Report implements typed.Reporter.
func (Kind) Report(r *databasev1.Redis, app *platformv1.Application) {
	s := &r.Status
	instance.Report(&s.InstanceStatus, app)
	kindparts.ReportReplicated(&s.ReplicatedStatus, app, component)
	s.Sentinels, s.SentinelEndpoint = "", ""
	switch app.Spec.Topology {
	case standalone, "":
		s.Replicas, s.Changes = "", nil
	case elected:
		// Redis replicates in the same way, whoever elects.
		s.Durability = platformv1.DurabilityAsynchronous
		// Any Sentinel will do.
		s.SentinelEndpoint = typed.EndpointOf(app, "")
		for _, c := range app.Status.Components {
			if c.Name == sentinels {
				s.Sentinels = typed.HealthyOf(&c)
			}
		}
	}
}
