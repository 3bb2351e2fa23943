// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Outdated changes an object of a server, and returns it as it was before, with its resourceVersion: what a cache shows
// that is behind. The object itself is as the server has it then.
func Outdated[T client.Object](t *testing.T, server client.Client, object T, change func()) T {
	t.Helper()
	if err := server.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
		t.Fatal(err)
	}
	before := object.DeepCopyObject().(T)
	change()
	if err := server.Patch(t.Context(), object, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	return before
}
