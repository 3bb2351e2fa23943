// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

func TestRenderedFollowsTheGeneration(t *testing.T) {
	set := &platformv1.WorkloadSet{
		ObjectMeta: metav1.ObjectMeta{Name: "a-b-main", UID: "u", Generation: 1},
		Spec: platformv1.WorkloadSetSpec{
			Revision: "r1", Template: runtime.RawExtension{Raw: []byte(`{"spec":{"containers":[{"name":"a","image":"a:1"}]}}`)},
		},
	}
	r := newRendered()
	first, err := r.pod(set, 0)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := r.pod(set, 0); err != nil || again != first {
		t.Errorf("it is rendered anew: %v", err)
	}
	if other, err := r.pod(set, 1); err != nil || other.Name == first.Name {
		t.Errorf("ordinal 1 gives pod %s, %v", other.Name, err)
	}
	changed := set.DeepCopy()
	changed.Generation, changed.Spec.Template.Raw = 2, []byte(`{"spec":{"containers":[{"name":"a","image":"a:2"}]}}`)
	if pod, err := r.pod(changed, 0); err != nil || pod.Spec.Containers[0].Image != "a:2" {
		t.Errorf("after a change: %+v, %v", pod, err)
	}
	anew := set.DeepCopy()
	anew.UID, anew.Spec.Revision = "v", "r2"
	if pod, err := r.pod(anew, 0); err != nil || pod.Labels[platformv1.RevisionLabel] != "r2" {
		t.Errorf("of another set under the name: %+v, %v", pod, err)
	}
	changed.Spec.Template.Raw, changed.Generation = []byte(`{`), 3
	if _, err := r.pod(changed, 0); err == nil {
		t.Error("a template that cannot be read is rendered")
	}
}
