// SPDX-License-Identifier: Apache-2.0

// Command manager is the storage operator: the engine with the kinds of the group
// storage.zeroinfra.github.com.
package main

import (
	"io/fs"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/zeroinfra/platform-core/sdk/operator"

	storagev1 "github.com/zeroinfra/storage-operator/api/v1"
	"github.com/zeroinfra/storage-operator/config/crd"
	"github.com/zeroinfra/storage-operator/internal/backuppolicy"
	"github.com/zeroinfra/storage-operator/internal/kind"
)

// version is set at build time.
var version = "dev"

func main() {
	operator.Main(operator.Options{
		Domain:      "storage",
		AddToScheme: []func(*runtime.Scheme) error{storagev1.AddToScheme},
		Kinds:       kind.All(),
		Controllers: []operator.Controller{backuppolicy.Kind{}},
		CRDs:        []fs.FS{crd.FS},
		Version:     version,
	})
}
