// SPDX-License-Identifier: Apache-2.0

// Command manager is the batch operator: the engine with the kinds of the group
// batch.zeroinfra.github.com.
package main

import (
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/zeroinfra/platform-core/sdk/operator"

	batchv1 "github.com/zeroinfra/batch-operator/api/v1"
)

// version is set at build time.
var version = "dev"

func main() {
	operator.Main(operator.Options{
		Domain:      "batch",
		AddToScheme: []func(*runtime.Scheme) error{batchv1.AddToScheme},
		Version:     version,
	})
}
