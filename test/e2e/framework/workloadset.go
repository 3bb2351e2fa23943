// SPDX-License-Identifier: Apache-2.0

package framework

import (
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// ScaleWorkloadSet scales a WorkloadSet as "kubectl scale" and an autoscaler do.
func (s *Namespace) ScaleWorkloadSet(name string, number int32) {
	s.Helper()
	set := &platformv1.WorkloadSet{}
	s.MustGet(name, set)
	scale := &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: s.Name},
		Spec: autoscalingv1.ScaleSpec{Replicas: number}}
	if err := Cluster.Client.SubResource("scale").Update(s.Ctx, set, client.WithSubResourceBody(scale)); err != nil {
		s.Fatalf("cannot scale WorkloadSet %q: %v", name, err)
	}
}
