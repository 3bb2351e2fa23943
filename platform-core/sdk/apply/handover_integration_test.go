// SPDX-License-Identifier: Apache-2.0

//go:build integration

package apply_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
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

// What somebody else changed is drift, what is to be applied otherwise is none; a claim makes what he wrote and is as
// wanted ours as well.
func TestDriftAndClaim(t *testing.T) {
	b := newBench(t)
	config := &corev1.ConfigMap{ObjectMeta: b.meta("edited"), Data: map[string]string{"a": "1", "b": "1"}}
	b.expect(config, apply.Created, 1)
	var live *corev1.ConfigMap
	drifted := func(what string, want bool) {
		t.Helper()
		live = &corev1.ConfigMap{ObjectMeta: b.meta("edited")}
		b.read(live)
		if got, err := b.Drifted(live, config); got != want || err != nil {
			t.Errorf("%s: drifted is %v, %v", what, got, err)
		}
	}
	drifted("as it was made", false)
	config.Data["a"] = "2"
	drifted("yet to be applied", false)
	config.Data["a"] = "1"
	delete(live.Data, "b")
	b.mustUpdate(live)
	drifted("a key less", true)
	live.Data["b"] = "1"
	b.mustUpdate(live)
	drifted("put back by hand", false)
	b.expect(config, apply.Unchanged, 0)
	stale := live.DeepCopy()
	for _, want := range []apply.Change{apply.Updated, apply.Unchanged} {
		b.read(live)
		if change, err := b.Claim(t.Context(), live, config); change != want || err != nil {
			t.Errorf("a claim gave %s, %v; want %s", change, err, want)
		}
	}
	if _, err := b.Claim(t.Context(), stale, config); !apierrors.IsConflict(err) {
		t.Errorf("a claim of what has changed since gave %v", err)
	}
	b.read(live)
	for _, entry := range live.ManagedFields {
		if entry.Manager == "test" && entry.Operation == metav1.ManagedFieldsOperationApply &&
			!strings.Contains(entry.FieldsV1.GetRawString(), `"f:b"`) {
			t.Errorf("ours is %s", entry.FieldsV1.GetRawString())
		}
	}
}

// What somebody else writes after an object was read is not overwritten: the apply is refused, as often as it is tried
// with what was read before. Once it is seen, and where it is the status alone, it holds up nobody.
func TestApplyToYields(t *testing.T) {
	b := newBench(t)
	pod := corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "redis", Image: "redis"}}}}
	set := b.workloadSet("yields", pod)
	b.expect(set, apply.Created, 1)
	read := func() *platformv1.WorkloadSet {
		t.Helper()
		live := &platformv1.WorkloadSet{ObjectMeta: b.meta("yields")}
		b.read(live)
		return live
	}
	ready := func(pods int32) {
		t.Helper()
		live := read()
		live.Status.ReadyReplicas = pods
		if err := env.Client.Status().Update(t.Context(), live); err != nil {
			t.Fatal(err)
		}
	}
	to := func(live *platformv1.WorkloadSet, want apply.Change, writes int) {
		t.Helper()
		b.writes.Count()
		if change, err := b.ApplyTo(t.Context(), live, set); change != want || err != nil {
			t.Errorf("got %s, %v; want %s", change, err, want)
		}
		if n := b.writes.Count(); n != writes {
			t.Errorf("%d writes, want %d", n, writes)
		}
	}
	seen := read()
	to(seen, apply.Unchanged, 0)
	scaled := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":5}}`))
	if err := env.Client.Patch(t.Context(), read(), scaled, client.FieldOwner("autoscaler")); err != nil {
		t.Fatal(err)
	}
	set.Spec.Version = "7.2"
	for range 2 {
		if change, err := b.ApplyTo(t.Context(), seen, set); change != apply.Unchanged || !apierrors.IsConflict(err) {
			t.Errorf("got %s, %v; want a conflict", change, err)
		}
	}
	if live := read(); live.Spec.Replicas != 5 || live.Spec.Version != "7.0" {
		t.Errorf("%d replicas of version %s are left", live.Spec.Replicas, live.Spec.Version)
	}
	// It is seen now: that it was his does not matter any more.
	seen = read()
	ready(1)
	to(seen, apply.Updated, 2)
	if live := read(); live.Spec.Replicas != 1 || live.Spec.Version != "7.2" {
		t.Errorf("%d replicas of version %s", live.Spec.Replicas, live.Spec.Version)
	}
	// Of what is nobody else's the status may change meanwhile.
	seen = read()
	ready(0)
	set.Spec.Version = "7.4"
	to(seen, apply.Updated, 1)
	to(read(), apply.Unchanged, 0)
}
