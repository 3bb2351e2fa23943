// SPDX-License-Identifier: Apache-2.0

// Command manager is the common operator: the engine with the kinds of the group
// common.zeroinfra.github.com.
package main

import (
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/zeroinfra/platform-core/sdk/operator"

	commonv1 "github.com/zeroinfra/common-operator/api/v1"
)

// version is set at build time.
var version = "dev"

func main() {
	operator.Main(operator.Options{
		Domain:      "common",
		AddToScheme: []func(*runtime.Scheme) error{commonv1.AddToScheme},
		Version:     version,
	})
}
