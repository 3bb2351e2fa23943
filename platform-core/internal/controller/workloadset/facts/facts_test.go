// SPDX-License-Identifier: Apache-2.0

package facts

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/rollout"
)

// server lists the pods and claims of one set.
type server struct {
	client.Reader
	pods   []corev1.Pod
	claims []corev1.PersistentVolumeClaim
}

func (s server) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	switch list := list.(type) {
	case *corev1.PodList:
		list.Items = s.pods
	case *corev1.PersistentVolumeClaimList:
		list.Items = s.claims
	}
	return nil
}

func claim(name, generation string) corev1.PersistentVolumeClaim {
	return corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name,
		Labels: map[string]string{platformv1.GenerationLabel: generation}}}
}

// TestReadingAnewGivesOtherFacts and leaves those that were read before as they are.
func TestReadingAnewGivesOtherFacts(t *testing.T) {
	set := &platformv1.WorkloadSet{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "u"},
		Spec: platformv1.WorkloadSetSpec{Data: &platformv1.SetData{Generation: "g2"},
			Volumes: []platformv1.SetVolume{{Name: "data"}}}}
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a-0", Labels: map[string]string{platformv1.OrdinalLabel: "0"},
		OwnerReferences: []metav1.OwnerReference{{UID: "u", Controller: new(true)}}}}
	foreign := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a-1",
		Labels: map[string]string{platformv1.OrdinalLabel: "1"}}}
	o := Observer{Live: server{pods: []corev1.Pod{pod, foreign},
		claims: []corev1.PersistentVolumeClaim{claim("data-a-0", "")}}, Now: time.Now}
	before := &Facts{Mode: rollout.Running, Claims: map[string]*corev1.PersistentVolumeClaim{},
		Primary: &platformv1.PrimaryRecord{Data: "g1"}}

	after, err := o.LivePods(t.Context(), set, before)
	if err != nil {
		t.Fatal(err)
	}
	if len(after.Pods) != 1 || after.Pods["a-0"] == nil || !after.Moves || after.Mode != rollout.Stopped {
		t.Errorf("a record of other volumes: pods %v, moves %t, mode %q", after.Pods, after.Moves, after.Mode)
	}
	if after, err = o.LiveClaims(t.Context(), set, after); err != nil {
		t.Fatal(err)
	}
	made := claim("data-a-1", "g2")
	last := after.WithClaim(&made).WithPrimary(nil).WithAsked("g3")
	if len(last.Claims) != 2 || len(after.Claims) != 1 || last.Primary != nil || last.Asked != "g3" {
		t.Errorf("a claim was made: %d claims, and %d before; primary %v, asked %q", len(last.Claims), len(after.Claims),
			last.Primary, last.Asked)
	}
	if before.Pods != nil || before.Moves || before.Mode != rollout.Running || len(before.Claims) != 0 ||
		before.Primary == nil || before.Asked != "" {
		t.Errorf("the facts of before are %+v", before)
	}
}
