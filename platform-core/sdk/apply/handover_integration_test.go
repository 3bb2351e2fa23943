// SPDX-License-Identifier: Apache-2.0

//go:build integration

package apply_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/zeroinfra/platform-core/sdk/apply"
)

// A field that is handed over stays as it is when it is left out, and belongs to whoever writes it from then on.
func TestHandover(t *testing.T) {
	b := newBench(t)
	config := &corev1.ConfigMap{ObjectMeta: b.meta("shared"), Data: map[string]string{"ours": "1", "theirs": "2"}}
	b.expect(config, apply.Created, 1)
	live := &corev1.ConfigMap{ObjectMeta: b.meta("shared")}
	b.read(live)
	stale := live.DeepCopy()
	leaveOut := func(change apply.Change) {
		t.Helper()
		if got, err := b.ApplyWithout(t.Context(), config, "data", "theirs"); got != change || err != nil {
			t.Errorf("%s, %v; want %s", got, err, change)
		}
		b.read(live)
	}
	if err := b.Handover(t.Context(), live, "someone", "data", "theirs"); err != nil {
		t.Fatal(err)
	}
	if err := b.Handover(t.Context(), stale, "someone", "data", "theirs"); !apierrors.IsConflict(err) {
		t.Errorf("a handover of what has changed since gave %v, want a conflict", err)
	}
	leaveOut(apply.Updated)
	if live.Data["theirs"] != "2" {
		t.Errorf("data is %v", live.Data)
	}
	live.Data["theirs"] = "3"
	b.mustUpdate(live)
	leaveOut(apply.Unchanged)
	config.Data["ours"] = "4"
	leaveOut(apply.Updated)
	if live.Data["theirs"] != "3" || live.Data["ours"] != "4" {
		t.Errorf("data is %v", live.Data)
	}
	// Whole again, it is ours again.
	b.expect(config, apply.Updated, 1)
	if b.read(live); live.Data["theirs"] != "2" {
		t.Errorf("data is %v", live.Data)
	}
	if err := b.Handover(t.Context(), live, "someone", "data", "nothing"); err == nil {
		t.Error("a field that is not there was handed over")
	}
}
