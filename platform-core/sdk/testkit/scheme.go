// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
)

// Scheme returns a scheme of the kinds that the functions add, which are the AddToScheme of API packages.
func Scheme(t *testing.T, add ...func(*runtime.Scheme) error) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, kinds := range add {
		if err := kinds(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return scheme
}
