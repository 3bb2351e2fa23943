// SPDX-License-Identifier: Apache-2.0

package objectstorage

import (
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/typed"

	storagev1 "github.com/zeroinfra/storage-operator/api/v1"
)

// entities are what is inside the storage, in the words of the plugins; of an external one there are buckets alone.
//
// Policies and replications are adopted where they are there: their names are this object's to give, and they hold
// nothing. A bucket that a Backup has becomes what the object says: nobody else could have made it.
func entities(o *storagev1.ObjectStorage, referents typed.Referents) []platformv1.EntitySpec {
	var specs []platformv1.EntitySpec
	for _, b := range o.Spec.Buckets {
		bucket := typed.WithoutEmpty(typed.EntityOf("bucket", &b))
		bucket.Adopt = b.Adopt || o.Spec.RestoreFrom != nil
		specs = append(specs, bucket)
		for _, r := range b.Replication {
			rule := typed.EntityOf(replicationType, &r)
			rule.Name, rule.Adopt = b.Name+"/"+r.Name, true
			if r.ObjectStorageRef != nil {
				target, _ := referents[targetOf(&r)].(*storagev1.ObjectStorage)
				rule.Parameters["endpoint"] = endpointFor(target)
			}
			specs = append(specs, rule)
		}
	}
	for _, p := range o.Spec.Policies {
		policy := typed.EntityOf("policy", &p)
		policy.Adopt = true
		specs = append(specs, policy)
	}
	return append(specs, typed.EntitiesOf("user", o.Spec.Users)...)
}
