// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"net"
	"strconv"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
)

// Report implements typed.Kind.
func (Kind) Report(r *databasev1.Redis, app *platformv1.Application) {
	r.Status.Application = app.Name
	r.Status.Version = app.Status.Version
	r.Status.Ready = app.Status.Ready
	r.Status.Primary = app.Status.Primary
	r.Status.Schedules = app.DeepCopy().Status.Schedules
	r.Status.Endpoint = endpoint(app.Status.Endpoints)
	r.Status.BindingName = ""
	if app.Status.Binding != nil {
		r.Status.BindingName = app.Status.Binding.Name
	}
}

// endpoint returns the address of the one client Service of the topology.
func endpoint(all []platformv1.Endpoint) string {
	if len(all) == 0 {
		return ""
	}
	return net.JoinHostPort(all[0].Host, strconv.Itoa(int(all[0].Port)))
}
