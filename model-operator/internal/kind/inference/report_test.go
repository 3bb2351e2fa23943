// SPDX-License-Identifier: Apache-2.0

package inference

import (
	"reflect"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"

	aiv1 "github.com/zeroinfra/model-operator/api/v1"
)

func TestReport(t *testing.T) {
	named := metav1.ObjectMeta{Name: "inference-a"}
	of := metav1.ObjectMeta{Name: "inference-a",
		Annotations: map[string]string{modelAnnotation: "chat", versionAnnotation: "2.0",
			adaptersAnnotation: `[{"id":0,"name":"poet","version":"2.0","digest":"sha256:44"}]`,
			datasetsAnnotation: `[{"name":"points","version":"2.0","digest":"sha256:33"}]`}}
	spec := platformv1.ApplicationSpec{
		Components: []platformv1.ApplicationComponent{{Parameters: platformv1.Parameters{digestParameter: "22"}}}}
	pods := []platformv1.ComponentState{{Name: "server", Pods: []platformv1.PodState{{Name: "a"}, {Name: "b"}}}}
	before := aiv1.InferenceModelStatus{Name: "chat", Version: "1.0", Digest: "sha256:11"}
	adapters := []aiv1.InferenceAdapterStatus{{InferenceModelStatus: aiv1.InferenceModelStatus{Name: "poet",
		Version: "1.0", Digest: "sha256:11"}}}
	mounted := []aiv1.InferenceDatasetStatus{{Name: "points", Version: "1.0", Digest: "sha256:11"}}
	updating := &platformv1.Application{ObjectMeta: of, Spec: spec, Status: platformv1.ApplicationStatus{Components: pods}}
	running := &platformv1.Application{ObjectMeta: of, Spec: spec, Status: platformv1.ApplicationStatus{
		Version: "0.7", Components: pods,
		Conditions: []metav1.Condition{{Type: platformv1.ReadyCondition, Status: metav1.ConditionTrue}},
		Ready:      "1/1",
		Endpoints:  []platformv1.Endpoint{{Host: "inference-a.shop.svc", Port: 1234, Role: ""}},
		Binding:    &platformv1.Binding{Name: "inference-a-binding"},
	}}
	for name, c := range map[string]struct {
		app  *platformv1.Application
		want aiv1.InferenceStatus
	}{
		"running": {running, aiv1.InferenceStatus{
			InstanceStatus: platformv1.InstanceStatus{
				Application: "inference-a", Version: "0.7", Ready: "1/1",
				Endpoint: "inference-a.shop.svc:1234", BindingName: "inference-a-binding",
			},
			Replicas: 2, Model: &aiv1.InferenceModelStatus{Name: "chat", Version: "2.0", Digest: "sha256:22"},
			Adapters: []aiv1.InferenceAdapterStatus{{InferenceModelStatus: aiv1.InferenceModelStatus{Name: "poet",
				Version: "2.0", Digest: "sha256:44"}}},
			Datasets: []aiv1.InferenceDatasetStatus{{Name: "points", Version: "2.0", Digest: "sha256:33"}},
		}},
		// Some pods may still serve the version before.
		"updating": {updating, aiv1.InferenceStatus{
			InstanceStatus: platformv1.InstanceStatus{Application: "inference-a"}, Replicas: 2, Model: &before,
			Adapters: adapters, Datasets: mounted,
		}},
		// What is no longer so does not stay in the status.
		"nothing known": {&platformv1.Application{ObjectMeta: named}, aiv1.InferenceStatus{
			InstanceStatus: platformv1.InstanceStatus{Application: "inference-a"}, Model: &before,
			Adapters: adapters, Datasets: mounted,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			obj := &aiv1.Inference{}
			obj.Status.InstanceStatus = platformv1.InstanceStatus{
				Version: "0", Ready: "0/1", Endpoint: "old:1", BindingName: "old",
				Members: []platformv1.InstanceMember{{Name: "old", Role: "old"}},
			}
			obj.Status.Model, obj.Status.Datasets, obj.Status.Replicas = before.DeepCopy(), mounted, 7
			obj.Status.Adapters = adapters
			Kind{}.Report(obj, c.app)
			if !reflect.DeepEqual(obj.Status, c.want) {
				t.Errorf("got %+v, want %+v", obj.Status, c.want)
			}
		})
	}
}
