// SPDX-License-Identifier: Apache-2.0

package render

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/zeroinfra/platform-core/agentproto/plan"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// Where the plan asks for the zone of the node, each container with an agent has the file that tells it; elsewhere
// nothing is there.
func TestZoneIsMountedWhereThePlanAsksForIt(t *testing.T) {
	app := brokers(func(*platformv1.ApplicationComponent) {})
	plain := output(t, broker(t), app).WorkloadSets[0].Spec
	asking := output(t, broker(t, "INSIDE://${pod.fqdn}:9092\"]", "INSIDE://${pod.fqdn}:9092/${pod.zone}\"]"),
		app).WorkloadSets[0].Spec
	for name, test := range map[string]struct {
		spec platformv1.WorkloadSetSpec
		asks bool
	}{"a plan that does not ask": {plain, false}, "a plan that asks": {asking, true}} {
		pod, err := Pod(&platformv1.WorkloadSet{ObjectMeta: metav1.ObjectMeta{Name: "b-broker-main", Namespace: "shop"},
			Spec: test.spec}, 0)
		if err != nil {
			t.Fatal(err)
		}
		if AsksForZone(pod) != test.asks {
			t.Errorf("%s: the volumes are %+v", name, pod.Spec.Volumes)
		}
		for _, c := range pod.Spec.Containers {
			if has := slices.ContainsFunc(c.VolumeMounts,
				func(m corev1.VolumeMount) bool { return m.MountPath == plan.PodDir }); has != test.asks {
				t.Errorf("%s: container %q mounts %+v", name, c.Name, c.VolumeMounts)
			}
		}
	}
	if plain.Revision == asking.Revision {
		t.Error("a pod that has no such file is not replaced")
	}
}
