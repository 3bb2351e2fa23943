// SPDX-License-Identifier: Apache-2.0

//go:build integration

package workloadset

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/podtemplate"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// asksForZone has the pods of a set ask for the zone of their node, as those do whose plan has it.
func asksForZone(t *testing.T) func(*platformv1.WorkloadSet) {
	return func(set *platformv1.WorkloadSet) {
		var template corev1.PodTemplateSpec
		if err := json.Unmarshal(set.Spec.Template.Raw, &template); err != nil {
			t.Fatal(err)
		}
		template.Spec.Volumes = []corev1.Volume{{Name: podtemplate.VolumePrefix + "pod", VolumeSource: corev1.VolumeSource{
			DownwardAPI: &corev1.DownwardAPIVolumeSource{},
		}}}
		data, err := json.Marshal(template)
		if err != nil {
			t.Fatal(err)
		}
		set.Spec.Template.Raw = data
	}
}

// A pod is told the zone of its node, and the status says so; one on a node that is not there is told nothing, and once
// the node is in no zone, that.
func TestPodIsToldTheZoneOfItsNode(t *testing.T) {
	t.Parallel()
	for name, labels := range map[string]map[string]string{
		"eu-1a": {corev1.LabelTopologyZone: "eu-1a"}, "": {"a": "b"},
	} {
		t.Run("zone "+name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: h.namespace, Labels: labels}}
			if err := env.Client.Create(t.Context(), node); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := env.Client.Delete(context.Background(), node); client.IgnoreNotFound(err) != nil {
					t.Error(err)
				}
			})
			h.start(-1)
			set := h.create(2, asksForZone(t))
			testkit.WaitForReady(t, env.Client, set)
			for ordinal, pod := range h.pods() {
				if got := pod.Annotations[platformv1.ZoneAnnotation]; got != fmt.Sprintf("%q", name) {
					t.Errorf("pod %s is told %s", ordinal, got)
				}
			}
			testkit.WaitFor(t, env.Client, set, "the zone in the status", func() error {
				for _, pod := range set.Status.Pods {
					if pod.Zone != name {
						return fmt.Errorf("pod %s is in zone %q", pod.Name, pod.Zone)
					}
				}
				return nil
			})
		})
	}
}

// What asks for no zone is told none: no pod costs a write for it.
func TestPodThatDoesNotAskIsToldNoZone(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.start(-1)
	set := h.create(1)
	testkit.WaitForReady(t, env.Client, set)
	if told, is := h.pods()["0"].Annotations[platformv1.ZoneAnnotation]; is {
		t.Errorf("the pod is told the zone %s", told)
	}
}
