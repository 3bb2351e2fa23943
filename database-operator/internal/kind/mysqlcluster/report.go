// SPDX-License-Identifier: Apache-2.0

package mysqlcluster

import (
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/typed"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	"github.com/zeroinfra/database-operator/internal/kindparts"
	"github.com/zeroinfra/database-operator/internal/mysqlparts"
)

// Report implements typed.Reporter.
func (Kind) Report(m *databasev1.MySQLCluster, app *platformv1.Application) {
	s := &m.Status
	instance.Report(&s.InstanceStatus, app)
	kindparts.ReportReplicated(&s.ReplicatedStatus, app, mysqlparts.Component)
	s.Durability, s.LossWindowSeconds = "", nil
	for _, member := range s.Members {
		if member.Role == kindparts.Replica {
			// A write is acknowledged once most members have it, and a member has a role while it sees most of them.
			s.Durability, s.LossWindowSeconds = platformv1.DurabilitySynchronous, new(int64(0))
		}
	}
	s.Routers, s.RouterEndpoint = "", ""
	for _, c := range app.Status.Components {
		if c.Name == router {
			// Any of them will do.
			s.Routers, s.RouterEndpoint = typed.HealthyOf(&c), typed.EndpointOf(app, "")
		}
	}
}
