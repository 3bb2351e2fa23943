// SPDX-License-Identifier: Apache-2.0

//go:build integration

package v1_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// A size that the volumes have not got yet can be taken back, whatever the object waits for.
func TestASizeThatIsNotThereYetIsTakenBack(t *testing.T) {
	for kind, version := range map[string]string{"Redis": "7.0", "RedisCluster": "7.0", "PostgreSQL": "17"} {
		t.Run(kind, func(t *testing.T) {
			namespace := env.Namespace(t)
			testkit.SizeTakenBack(t, env.Client, func(name, spec string) *unstructured.Unstructured {
				return versioned(t, kind, version, namespace, name, spec)
			})
		})
	}
}
