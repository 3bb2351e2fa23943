// SPDX-License-Identifier: Apache-2.0

// Command manager is the message operator: the engine with the kinds of the group
// message.zeroinfra.github.com.
package main

import (
	"io/fs"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/zeroinfra/platform-core/sdk/operator"

	messagev1 "github.com/zeroinfra/message-operator/api/v1"
	"github.com/zeroinfra/message-operator/config/crd"
	"github.com/zeroinfra/message-operator/internal/kind"
)

// version is set at build time.
var version = "dev"

func main() {
	operator.Main(operator.Options{
		Domain:      "message",
		AddToScheme: []func(*runtime.Scheme) error{messagev1.AddToScheme},
		Kinds:       kind.All(),
		CRDs:        []fs.FS{crd.FS},
		Version:     version,
	})
}
