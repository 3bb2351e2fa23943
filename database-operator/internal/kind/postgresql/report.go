// SPDX-License-Identifier: Apache-2.0

package postgresql

import (
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/typed"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	"github.com/zeroinfra/database-operator/internal/kindparts"
)

// Report implements typed.Reporter.
func (Kind) Report(p *databasev1.PostgreSQL, app *platformv1.Application) {
	s := &p.Status
	instance.Report(&s.InstanceStatus, app)
	kindparts.ReportReplicated(&s.ReplicatedStatus, app, component)
	s.Poolers, s.PoolerEndpoint = "", ""
	for _, c := range app.Status.Components {
		if c.Name == pooler {
			// Any of them will do.
			s.Poolers, s.PoolerEndpoint = typed.HealthyOf(&c), typed.EndpointOf(app, "")
		}
	}
}
