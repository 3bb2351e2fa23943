// SPDX-License-Identifier: Apache-2.0

//go:build integration

package admission

import (
	"io/fs"
	"testing"

	"github.com/zeroinfra/platform-core/config/rbac"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

var env *testkit.Env

// system is the namespace of the operator, and release the name that its rights are for.
const (
	system  = "zeroinfra-system"
	release = "webhook"
)

func TestMain(m *testing.M) {
	testkit.Main(m, &env, testkit.EnvOptions{Own: "they install a webhook for all namespaces", System: system,
		Roles: []fs.FS{rbac.Webhook()}})
}
