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
	namespace := env.Namespace(t)
	testkit.SizeTakenBack(t, env.Client, func(name, spec string) *unstructured.Unstructured {
		return storage(t, namespace, name, spec)
	})
}
