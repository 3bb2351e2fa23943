// SPDX-License-Identifier: Apache-2.0

//go:build integration

package kind_test

import (
	"fmt"
	"io/fs"
	"os"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/zeroinfra/platform-core/sdk/testkit"
	"github.com/zeroinfra/platform-core/sdk/testkit/kindtest"

	storagev1 "github.com/zeroinfra/storage-operator/api/v1"
	"github.com/zeroinfra/storage-operator/config/crd"
	"github.com/zeroinfra/storage-operator/internal/kind"
)

var env *testkit.Env

func TestMain(m *testing.M) {
	testkit.Main(m, &env, testkit.EnvOptions{
		Own:         "the controllers serve all namespaces",
		AddToScheme: []func(*runtime.Scheme) error{storagev1.AddToScheme},
		CRDs:        []fs.FS{os.DirFS("../../../platform-core/config/crd/bases"), crd.FS},
		System:      "zeroinfra-system", Roles: []fs.FS{os.DirFS("../../config/rbac")},
	})
}

// specs are those of objects, with something inside the storage where the kind declares such.
func specs() map[string]string {
	return map[string]string{
		"*v1.ObjectStorage": `{"backend":"Minio","version":"2026.2","buckets":[{"name":"pictures"}]}`,
	}
}

func TestDataProtection(t *testing.T) {
	for _, registered := range kind.All() {
		name := fmt.Sprintf("%T", registered.Object())
		t.Run(name, func(t *testing.T) {
			kindtest.DataProtection(t, env, kindtest.Kept{Kind: registered, Spec: specs()[name]})
		})
	}
}

func TestInstance(t *testing.T) {
	for _, registered := range kind.All() {
		name := fmt.Sprintf("%T", registered.Object())
		t.Run(name, func(t *testing.T) { kindtest.Instance(t, env, kindtest.Kept{Kind: registered, Spec: specs()[name]}) })
	}
}
