// SPDX-License-Identifier: Apache-2.0

package patch

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

func TestStatusPatch(t *testing.T) {
	set := func(status platformv1.WorkloadSetStatus) *platformv1.WorkloadSet {
		return &platformv1.WorkloadSet{Status: status}
	}
	touched := set(platformv1.WorkloadSetStatus{Replicas: 3})
	touched.Spec.Replicas = 7
	touched.Labels = map[string]string{"a": "b"}
	tests := map[string]struct {
		before, after *platformv1.WorkloadSet
		want          string
	}{
		"equal": {set(platformv1.WorkloadSetStatus{Replicas: 3}),
			set(platformv1.WorkloadSetStatus{Replicas: 3}), ""},
		"only the spec and metadata": {set(platformv1.WorkloadSetStatus{Replicas: 3}), touched, ""},
		"a value": {set(platformv1.WorkloadSetStatus{Replicas: 3, Version: "7"}),
			set(platformv1.WorkloadSetStatus{Version: "7"}),
			`[{"op":"add","path":"/status","value":{"readyReplicas":0,"replicas":0,"updatedReplicas":0,"version":"7"}}]`},
		"a value that goes": {set(platformv1.WorkloadSetStatus{Replicas: 3, Version: "7"}),
			set(platformv1.WorkloadSetStatus{Replicas: 3}),
			`[{"op":"add","path":"/status","value":{"readyReplicas":0,"replicas":3,"updatedReplicas":0}}]`},
		"everything goes": {set(platformv1.WorkloadSetStatus{Version: "7"}), set(platformv1.WorkloadSetStatus{}),
			`[{"op":"remove","path":"/status"}]`},
		"the very object": {
			&platformv1.WorkloadSet{ObjectMeta: metav1.ObjectMeta{UID: "u"}}, set(platformv1.WorkloadSetStatus{Version: "7"}),
			`[{"op":"test","path":"/metadata/uid","value":"u"},{"op":"add","path":"/status","value":{"readyReplicas":0,` +
				`"replicas":0,"updatedReplicas":0,"version":"7"}}]`,
		},
		"empty lists are none": {set(platformv1.WorkloadSetStatus{Replicas: 3, Conditions: []metav1.Condition{}}),
			set(platformv1.WorkloadSetStatus{Replicas: 3}), ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := statusPatch(test.before, test.after)
			if err != nil || string(got) != test.want {
				t.Errorf("got %s, %v; want %s", got, err, test.want)
			}
		})
	}
}

// A status with a part that is written by itself is written only on what was read last.
func TestGuardedStatus(t *testing.T) {
	before := &platformv1.WorkloadSet{}
	before.UID, before.ResourceVersion = "u", "7"
	after := before.DeepCopy()
	after.Status.Replicas = 1
	body, err := statusPatch(before, after)
	if err != nil || strings.Contains(string(body), versionPath) {
		t.Errorf("without a failover: %s, %v", body, err)
	}
	before.Spec.Failover = &platformv1.SetFailover{}
	body, err = statusPatch(before, after)
	if err != nil || !strings.Contains(string(body), `{"op":"test","path":"/metadata/resourceVersion","value":"7"}`) {
		t.Errorf("with a failover: %s, %v", body, err)
	}
}
