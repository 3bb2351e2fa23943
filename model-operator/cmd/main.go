// SPDX-License-Identifier: Apache-2.0

// Command manager is the model operator: the engine with the kinds of the group
// ai.zeroinfra.github.com.
package main

import (
	"io/fs"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/zeroinfra/platform-core/sdk/operator"

	aiv1 "github.com/zeroinfra/model-operator/api/v1"
	"github.com/zeroinfra/model-operator/config/crd"
	"github.com/zeroinfra/model-operator/internal/canary"
	"github.com/zeroinfra/model-operator/internal/dataset"
	"github.com/zeroinfra/model-operator/internal/idle"
	"github.com/zeroinfra/model-operator/internal/kind"
)

// version is set at build time.
var version = "dev"

func main() {
	operator.Main(operator.Options{
		Domain:      "model",
		AddToScheme: []func(*runtime.Scheme) error{aiv1.AddToScheme},
		Kinds:       kind.All(),
		Controllers: []operator.Controller{dataset.Kind{}, canary.Steps{}, idle.Servers{}},
		CRDs:        []fs.FS{crd.FS},
		Version:     version,
	})
}
