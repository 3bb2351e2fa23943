// SPDX-License-Identifier: Apache-2.0

package trim

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

func full(phase platformv1.OperationPhase) *platformv1.Operation {
	at := metav1.NewTime(time.Unix(1e9, 0))
	return &platformv1.Operation{
		ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "b", UID: "1", ResourceVersion: "5",
			Labels:        map[string]string{"l": "x"},
			Annotations:   map[string]string{platformv1.ScheduledForAnnotation: "x"},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}}},
		Spec: platformv1.OperationSpec{TemplateRef: "Stop", TargetRef: platformv1.TargetReference{Kind: "K", Name: "n"},
			TTLSecondsAfterFinished: new(int32(5)),
			Parameters:              platformv1.Parameters{"p": "1", "term": "7"}, TargetSpec: "{}"},
		Status: platformv1.OperationStatus{Phase: phase, Application: "app", Trigger: platformv1.TriggerSchedule,
			StartTime: &at, CompletionTime: &at,
			Conditions: []metav1.Condition{{Type: "Ready", Status: "True", Reason: "Ready", Message: "long"}},
			Error:      "long", Progress: "1/1", Plan: []string{"x"}, Changes: []platformv1.PlannedChange{{Name: "x"}},
			Steps: []platformv1.StepStatus{{Name: "wait", Outputs: map[string]string{"o": "x"}},
				{Name: "edit", Phase: "Succeeded", Message: "m",
					Outputs: map[string]string{"generation": "3", "changed": "long"},
					Targets: []platformv1.StepTarget{{Name: "pod"}}}}},
	}
}

func TestOperation(t *testing.T) {
	got, err := Operation(full(platformv1.OperationFailed))
	if err != nil {
		t.Fatal(err)
	}
	want := full(platformv1.OperationFailed)
	want.ManagedFields, want.Spec.Parameters, want.Spec.TargetSpec = nil, platformv1.Parameters{"term": "7"}, ""
	want.Status.Error, want.Status.Progress, want.Status.Plan, want.Status.Changes = "", "", nil, nil
	want.Status.Conditions[0].Message = ""
	want.Status.Steps = []platformv1.StepStatus{
		{Name: "edit", Phase: "Succeeded", Outputs: map[string]string{"generation": "3"}}}
	if !equality.Semantic.DeepEqual(got, want) {
		t.Errorf("got\n%+v\nwant\n%+v", got, want)
	}
	again, err := Operation(got)
	if err != nil || !reflect.DeepEqual(again, got) {
		t.Errorf("once more gives %+v, %v", again, err)
	}
}

func TestAnOperationThatRunsStaysWhole(t *testing.T) {
	want := full(platformv1.OperationRunning)
	want.ManagedFields = nil
	if got, err := Operation(full(platformv1.OperationRunning)); err != nil || !equality.Semantic.DeepEqual(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
	gone := cache.DeletedFinalStateUnknown{Key: "b/a", Obj: full(platformv1.OperationFailed)}
	if got, err := Operation(gone); err != nil ||
		!strings.Contains(reflect.TypeOf(got).String(), "DeletedFinalStateUnknown") {
		t.Errorf("a wrapper gives %T, %v", got, err)
	}
}
