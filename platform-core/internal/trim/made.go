// SPDX-License-Identifier: Apache-2.0

package trim

import (
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/edits"
)

// Field owners of what the engine makes: the controllers that apply it.
const (
	ownerOfComponents = "application"
	ownerOfSets       = "component"
)

// Made is the transform of caches of Components and WorkloadSets. It leaves who wrote what where somebody else than the
// engine did, which is how an edit is told from what is rendered otherwise; of all others, which are nearly all, nobody
// asks.
func Made(obj any) (any, error) {
	switch made := obj.(type) {
	case *platformv1.Component:
		made.ManagedFields = edits.Kept(made.ManagedFields, ownerOfComponents)
	case *platformv1.WorkloadSet:
		made.ManagedFields = edits.Kept(made.ManagedFields, ownerOfSets)
	default:
		return withoutManagedFields(obj)
	}
	return obj, nil
}
