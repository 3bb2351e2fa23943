// SPDX-License-Identifier: Apache-2.0

//go:build integration

package operation

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/opsflow"
)

// The volumes of a pod are those that it has, and they are deleted only where they are those that its set asks for.
func TestRebuildLeavesOtherVolumesAlone(t *testing.T) {
	f := newDataFixture(t)
	name := f.set.FirstPod()
	former := f.claim("")
	mounts := corev1.Volume{VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: former.Name}}}
	f.patch(f.claim("g2"), `{"metadata":{"labels":{"`+platformv1.ApplicationLabel+`":"redis-a"}}}`)
	f.patch(former, `{"metadata":{"labels":{"`+platformv1.ApplicationLabel+`":"redis-a"}}}`)
	app := &platformv1.Application{ObjectMeta: metav1.ObjectMeta{Namespace: f.set.Namespace, Name: "redis-a"}}
	observed := func(pods map[string]*corev1.Pod) []opsflow.Claim {
		t.Helper()
		seen := &observation{pods: pods, generations: map[string]string{setName: f.set.Spec.Generation()}}
		seen.facts.Template, seen.facts.Pods = opsflow.Defaults()["RebuildMember"], []opsflow.Pod{{Name: name}}
		f.must(f.c.observeClaims(t.Context(), app, seen))
		return seen.facts.Pods[0].Claims
	}
	// The set asks for others, to which its pods have not gone, or cannot.
	f.point(`{"generation":"g2"}`)
	f.must(env.Client.Get(t.Context(), client.ObjectKeyFromObject(f.set), f.set))
	found := observed(map[string]*corev1.Pod{name: {Spec: corev1.PodSpec{Volumes: []corev1.Volume{mounts}}}})
	if len(found) != 1 || found[0].UID != former.UID {
		t.Errorf("the pod has %+v", found)
	}
	if made := observed(nil); len(made) != 1 || made[0].UID != f.claim("g2").UID {
		t.Errorf("a pod that is to be made has %+v", made)
	}
	op := &platformv1.Operation{ObjectMeta: metav1.ObjectMeta{Namespace: f.set.Namespace, Name: "anew", UID: "op"}}
	refuses := func(generation, want string) {
		t.Helper()
		claim := f.claim(generation)
		answer, err := f.c.rebuild(t.Context(), op,
			&opsflow.Rebuild{Pod: name, Claims: []opsflow.Claim{{Name: claim.Name, UID: claim.UID}}})
		if f.must(err); !strings.Contains(answer.Problem, want) || answer.Failure == "" {
			t.Errorf("it says %q, want %q", answer.Problem, want)
		}
		if f.claim(generation).DeletionTimestamp != nil {
			t.Errorf("claim %s goes", claim.Name)
		}
	}
	refuses("", "is not of the volumes")
	record := func(data string) {
		f.must(env.Client.Status().Patch(t.Context(), f.set.DeepCopy(),
			client.RawPatch(types.MergePatchType,
				[]byte(`{"status":{"primary":{"term":2,"list":{"version":1},"data":"`+data+`"}}}`))))
	}
	record("")
	refuses("g2", "are not on the volumes")
	record("g2")
	claim := f.claim("g2")
	answer, err := f.c.rebuild(t.Context(), op,
		&opsflow.Rebuild{Pod: name, Claims: []opsflow.Claim{{Name: claim.Name, UID: claim.UID}}})
	if f.must(err); answer.Failure != "" || f.claim("g2").DeletionTimestamp == nil {
		t.Errorf("it says %q", answer.Problem)
	}
}
