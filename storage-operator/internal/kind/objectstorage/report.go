// SPDX-License-Identifier: Apache-2.0

package objectstorage

import (
	"net"
	"strconv"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"

	storagev1 "github.com/zeroinfra/storage-operator/api/v1"
)

// Report implements typed.Reporter.
func (Kind) Report(o *storagev1.ObjectStorage, app *platformv1.Application) {
	s := &o.Status
	s.Application = app.Name
	s.Version = app.Status.Version
	s.Ready = app.Status.Ready
	s.Schedules = app.DeepCopy().Status.Schedules
	s.Endpoint, s.BindingName, s.Pools = "", "", nil
	if len(app.Status.Endpoints) > 0 {
		// There is one Service.
		endpoint := app.Status.Endpoints[0]
		s.Endpoint = net.JoinHostPort(endpoint.Host, strconv.Itoa(int(endpoint.Port)))
	}
	if o.Spec.External != nil {
		s.Endpoint = externalEndpoint(o.Spec.External.Endpoint)
	}
	if app.Status.Binding != nil {
		s.BindingName = app.Status.Binding.Name
	}
	if app.Spec.Topology != distributed {
		return
	}
	for _, c := range app.Status.Components {
		for _, set := range c.Sets {
			s.Pools = append(s.Pools, storagev1.ObjectStoragePoolStatus{Name: set.Name, Servers: set.Replicas, Ready: set.ReadyReplicas})
		}
	}
}
