// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// The run of a Workflow or a CronJob that is deleted before its owner has read how it ended counts as failed, so that
// only the owner deletes it.
func TestRecordsOfRunsAreKeptByTheirOwners(t *testing.T) {
	workflow := []metav1.OwnerReference{{APIVersion: "batch.zeroinfra.github.com/v1", Kind: "Workflow", Name: "bill",
		UID: "1", Controller: new(true)}}
	for title, c := range map[string]struct {
		change func(*platformv1.Operation)
		want   []string
	}{
		"of nobody":         {func(*platformv1.Operation) {}, []string{nobody}},
		"of an Application": {func(op *platformv1.Operation) { op.Status.Application = "redis-a" }, []string{"redis-a"}},
		"under way":         {func(op *platformv1.Operation) { op.Status.Phase = platformv1.OperationRunning }, nil},
		"of a Workflow":     {func(op *platformv1.Operation) { op.OwnerReferences = workflow }, nil},
		"that is only owned": {func(op *platformv1.Operation) {
			op.OwnerReferences = []metav1.OwnerReference{{Kind: "Workflow", Name: "bill", UID: "1"}}
		}, []string{nobody}},
		"with a time of its own": {func(op *platformv1.Operation) {
			op.OwnerReferences, op.Spec.TTLSecondsAfterFinished = workflow, new(int32(60))
		}, []string{nobody}},
		"of an Application with a controller": {func(op *platformv1.Operation) {
			op.OwnerReferences, op.Status.Application = workflow, "redis-a"
		}, []string{"redis-a"}},
	} {
		t.Run(title, func(t *testing.T) {
			op := &platformv1.Operation{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "bill"}}
			op.Status.Phase = platformv1.OperationSucceeded
			c.change(op)
			if got := finishedOf(op); !slices.Equal(got, c.want) {
				t.Errorf("it is kept by %v, want %v", got, c.want)
			}
		})
	}
}
