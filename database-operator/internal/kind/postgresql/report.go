// SPDX-License-Identifier: Apache-2.0

package postgresql

import (
	"fmt"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	"github.com/zeroinfra/database-operator/internal/kindparts"
)

// Report implements typed.Reporter.
func (Kind) Report(p *databasev1.PostgreSQL, app *platformv1.Application) {
	s := &p.Status
	s.Application = app.Name
	s.Version = app.Status.Version
	s.Ready = app.Status.Ready
	s.Primary = app.Status.Primary
	s.Term = app.Status.Term
	s.Schedules = app.DeepCopy().Status.Schedules
	s.Endpoint = kindparts.Endpoint(app.Status.Endpoints, kindparts.Primary)
	s.ReadOnlyEndpoint = kindparts.Endpoint(app.Status.Endpoints, kindparts.Replica)
	s.BindingName = ""
	if app.Status.Binding != nil {
		s.BindingName = app.Status.Binding.Name
	}
	s.Durability, s.LossWindowSeconds = app.Status.Durability, app.DeepCopy().Status.LossWindowSeconds
	s.Members, s.Replicas, s.Poolers, s.PoolerEndpoint = kindparts.Members(app), "", "", ""
	s.Changes = nil
	for _, c := range app.Status.Components {
		switch c.Name {
		case pooler:
			s.Poolers = fmt.Sprintf("%d/%d", kindparts.HealthyIn(c.Pods, ""), c.Replicas)
			// Any of them will do.
			s.PoolerEndpoint = kindparts.Endpoint(app.Status.Endpoints, "")
		case component:
			s.Changes = kindparts.Changes(c)
			s.Replicas = fmt.Sprintf("%d/%d", kindparts.HealthyIn(c.Pods, kindparts.Replica), max(c.Replicas-1, 0))
		}
	}
}
