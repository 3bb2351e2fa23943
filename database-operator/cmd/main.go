// SPDX-License-Identifier: Apache-2.0

// Command manager is the database operator: the engine with the kinds of the group
// database.zeroinfra.github.com.
package main

import (
	"io/fs"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/zeroinfra/platform-core/sdk/operator"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	"github.com/zeroinfra/database-operator/config/crd"
	"github.com/zeroinfra/database-operator/internal/kind"
)

// version is set at build time.
var version = "dev"

func main() {
	operator.Main(operator.Options{
		Domain:      "database",
		AddToScheme: []func(*runtime.Scheme) error{databasev1.AddToScheme},
		Kinds:       kind.All(),
		CRDs:        []fs.FS{crd.FS},
		Version:     version,
	})
}
