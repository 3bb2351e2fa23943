// SPDX-License-Identifier: Apache-2.0

package objectstorage

import (
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/typed"

	storagev1 "github.com/zeroinfra/storage-operator/api/v1"
)

// Report implements typed.Reporter. A single server is no pool.
func (Kind) Report(o *storagev1.ObjectStorage, app *platformv1.Application) {
	servers.Report(&o.Status.InstanceStatus, app)
	o.Status.Pools = nil
	for _, set := range typed.SetsOf(app) {
		if app.Spec.Topology == distributed {
			o.Status.Pools = append(o.Status.Pools, storagev1.ObjectStoragePoolStatus{Name: set.Name,
				Servers: set.Replicas, Ready: set.ReadyReplicas})
		}
	}
}
