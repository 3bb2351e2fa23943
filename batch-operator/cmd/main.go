// SPDX-License-Identifier: Apache-2.0

// Command manager is the batch operator: the engine with the kinds of the group
// batch.zeroinfra.github.com.
package main

import (
	"io/fs"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/zeroinfra/platform-core/sdk/operator"

	batchv1 "github.com/zeroinfra/batch-operator/api/v1"
	"github.com/zeroinfra/batch-operator/config/crd"
	"github.com/zeroinfra/batch-operator/internal/cronjob"
	"github.com/zeroinfra/batch-operator/internal/workflow"
)

// version is set at build time.
var version = "dev"

func main() { operator.Main(options()) }

// options say what the operator is made of.
func options() operator.Options {
	return operator.Options{
		Domain:      "batch",
		AddToScheme: []func(*runtime.Scheme) error{batchv1.AddToScheme},
		Controllers: []operator.Controller{cronjob.Kind{}, workflow.Kind{}},
		CRDs:        []fs.FS{crd.FS},
		Version:     version,
	}
}
