// SPDX-License-Identifier: Apache-2.0

package objectstorage

import (
	platformv1 "github.com/zeroinfra/platform-core/api/v1"

	storagev1 "github.com/zeroinfra/storage-operator/api/v1"
)

// Report implements typed.Reporter.
func (Kind) Report(o *storagev1.ObjectStorage, app *platformv1.Application) {
	s := &o.Status
	instance.Report(&s.InstanceStatus, app)
	s.Pools = nil
	if o.Spec.External != nil {
		s.Endpoint = externalEndpoint(o.Spec.External.Endpoint)
	}
	if app.Spec.Topology != distributed {
		return
	}
	for _, c := range app.Status.Components {
		for _, set := range c.Sets {
			s.Pools = append(s.Pools, storagev1.ObjectStoragePoolStatus{Name: set.Name, Servers: set.Replicas,
				Ready: set.ReadyReplicas})
		}
	}
}
