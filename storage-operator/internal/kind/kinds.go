// SPDX-License-Identifier: Apache-2.0

// Package kind lists the typed kinds of the storage operator. Each has a folder
// of its own; none knows of another.
package kind

import (
	"github.com/zeroinfra/platform-core/sdk/typed"

	storagev1 "github.com/zeroinfra/storage-operator/api/v1"
	"github.com/zeroinfra/storage-operator/internal/kind/objectstorage"
)

// All returns every kind that the operator serves.
func All() []typed.Registration {
	return []typed.Registration{
		typed.Register[*storagev1.ObjectStorage](objectstorage.Kind{}),
	}
}
