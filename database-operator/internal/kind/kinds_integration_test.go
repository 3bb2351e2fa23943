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

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	"github.com/zeroinfra/database-operator/config/crd"
	"github.com/zeroinfra/database-operator/internal/kind"
)

var env *testkit.Env

func TestMain(m *testing.M) {
	testkit.Main(m, &env, testkit.EnvOptions{
		Own:         "the controllers serve all namespaces",
		AddToScheme: []func(*runtime.Scheme) error{databasev1.AddToScheme},
		CRDs:        []fs.FS{os.DirFS("../../../platform-core/config/crd/bases"), crd.FS},
		System:      "zeroinfra-system", Roles: []fs.FS{os.DirFS("../../config/rbac")},
	})
}

// specs are those of objects, with something inside the middleware where the kind declares such.
func specs() map[string]string {
	const users = `{"version":"7.0","users":[{"name":"app","passwordFrom":{"name":"users"}}]}`
	return map[string]string{
		"*v1.Redis":        users,
		"*v1.RedisCluster": users,
		"*v1.PostgreSQL":   `{"version":"17","roles":[{"name":"app","login":false}]}`,
		"*v1.MySQL":        `{"version":"9.7","users":[{"name":"clerk","passwordFrom":{"name":"users"}}]}`,
		"*v1.MySQLCluster": `{"version":"9.7","users":[{"name":"clerk","passwordFrom":{"name":"users"}}]}`,
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
