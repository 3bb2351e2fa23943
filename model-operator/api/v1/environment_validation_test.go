// SPDX-License-Identifier: Apache-2.0

//go:build integration

package v1_test

import (
	"io/fs"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/zeroinfra/platform-core/sdk/testkit"

	aiv1 "github.com/zeroinfra/model-operator/api/v1"
	"github.com/zeroinfra/model-operator/config/crd"
)

var env *testkit.Env

func TestMain(m *testing.M) {
	testkit.Main(m, &env, testkit.EnvOptions{
		AddToScheme: []func(*runtime.Scheme) error{aiv1.AddToScheme},
		CRDs:        []fs.FS{crd.FS},
	})
}
