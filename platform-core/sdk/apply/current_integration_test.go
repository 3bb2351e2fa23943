// SPDX-License-Identifier: Apache-2.0

//go:build integration

package apply_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// What was changed or deleted since it was read is a conflict, of which frames write nothing.
func TestWhatChangedSinceItWasReadIsAConflict(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	read := &corev1.ConfigMap{ObjectMeta: b.meta("decided")}
	if err := env.Client.Create(t.Context(), read); err != nil {
		t.Fatal(err)
	}
	if err := b.Current(t.Context(), read); err != nil {
		t.Errorf("nobody changed it: %v", err)
	}
	changed := read.DeepCopy()
	changed.Data = map[string]string{"by": "somebody"}
	if err := env.Client.Update(t.Context(), changed); err != nil {
		t.Fatal(err)
	}
	if err := b.Current(t.Context(), read); !apierrors.IsConflict(err) {
		t.Errorf("it was changed: %v", err)
	}
	if err := env.Client.Delete(t.Context(), changed); err != nil {
		t.Fatal(err)
	}
	if err := b.Current(t.Context(), changed); !apierrors.IsConflict(err) {
		t.Errorf("it was deleted: %v", err)
	}
}
