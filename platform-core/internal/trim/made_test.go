// SPDX-License-Identifier: Apache-2.0

package trim

import (
	"reflect"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

func entry(manager string, operation metav1.ManagedFieldsOperationType, fields string) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{Manager: manager, Operation: operation, FieldsV1: metav1.NewFieldsV1(fields)}
}

// Who wrote what stays only where somebody edited.
func TestMade(t *testing.T) {
	ours := entry(ownerOfSets, metav1.ManagedFieldsOperationApply, `{"f:spec":{"f:replicas":{}}}`)
	theirs := entry("hpa", metav1.ManagedFieldsOperationUpdate, `{"f:spec":{"f:replicas":{}}}`)
	finalizers := entry("workloadset", metav1.ManagedFieldsOperationUpdate, `{"f:metadata":{"f:finalizers":{}}}`)
	status := entry("kubectl", metav1.ManagedFieldsOperationUpdate, `{"f:spec":{}}`)
	status.Subresource = "status"
	for name, test := range map[string]struct{ has, want []metav1.ManagedFieldsEntry }{
		"at rest": {[]metav1.ManagedFieldsEntry{ours, finalizers, status}, nil},
		"edited":  {[]metav1.ManagedFieldsEntry{ours, finalizers, theirs}, []metav1.ManagedFieldsEntry{ours, theirs}},
	} {
		set := &platformv1.WorkloadSet{ObjectMeta: metav1.ObjectMeta{ManagedFields: test.has}}
		for range 2 {
			if _, err := Made(set); err != nil || !reflect.DeepEqual(set.ManagedFields, test.want) {
				t.Errorf("%s: got %v, %v", name, set.ManagedFields, err)
			}
		}
	}
	other := &platformv1.Application{ObjectMeta: metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{theirs}}}
	if _, err := Made(other); err != nil || other.ManagedFields != nil {
		t.Errorf("an Application keeps %v, %v", other.ManagedFields, err)
	}
	gone := cache.DeletedFinalStateUnknown{Key: "b/a", Obj: &platformv1.WorkloadSet{}}
	if got, err := Made(gone); err != nil || !strings.Contains(reflect.TypeOf(got).String(), "DeletedFinalStateUnknown") {
		t.Errorf("a wrapper gives %T, %v", got, err)
	}
}
