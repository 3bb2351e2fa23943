// SPDX-License-Identifier: Apache-2.0

// Package kind lists the typed kinds of the model operator. Each has a folder
// of its own; none knows of another.
package kind

import (
	"github.com/zeroinfra/platform-core/sdk/typed"

	aiv1 "github.com/zeroinfra/model-operator/api/v1"
	"github.com/zeroinfra/model-operator/internal/kind/inference"
	"github.com/zeroinfra/model-operator/internal/kind/model"
)

// All returns every kind that the operator serves.
func All() []typed.Registration {
	return []typed.Registration{
		typed.Register[*aiv1.Inference](inference.Kind{}),
		typed.Register[*aiv1.Model](model.Kind{}),
	}
}
