// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

func TestActive(t *testing.T) {
	of := func(name string, phase platformv1.OperationPhase, second int64,
		changes ...func(*platformv1.Operation)) *platformv1.Operation {
		op := &platformv1.Operation{ObjectMeta: metav1.ObjectMeta{Name: name},
			Status: platformv1.OperationStatus{Phase: phase}}
		if second > 0 {
			op.Status.StartTime = ptr.To(metav1.NewTime(time.Unix(second, 0)))
		}
		for _, change := range changes {
			change(op)
		}
		return op
	}
	step := func(op *platformv1.Operation) {
		op.OwnerReferences = []metav1.OwnerReference{{Kind: "Operation", UID: "parent", Controller: ptr.To(true)}}
	}
	begun := func(op *platformv1.Operation) {
		op.Status.Steps = []platformv1.StepStatus{{Name: "a", Phase: platformv1.OperationSucceeded}}
	}
	record := func(op *platformv1.Operation) {
		*op = *SpecOperation(&platformv1.Application{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, Change{Generation: 2})
		op.Status.Phase, op.Name = platformv1.OperationRunning, "record"
	}
	const running, asks = platformv1.OperationRunning, platformv1.OperationAwaitingApproval
	for name, c := range map[string]struct {
		operations []*platformv1.Operation
		want       string
	}{
		"none": {nil, ""},
		"none that has begun": {
			[]*platformv1.Operation{of("a", platformv1.OperationPending, 0), of("b", "", 0),
				of("c", platformv1.OperationFailed, 1)}, ""},
		"one that waits for it": {
			[]*platformv1.Operation{of("a", platformv1.OperationPending, 0), of("b", running, 2)}, "b"},
		"its step":                         {[]*platformv1.Operation{of("a", running, 3, step), of("b", running, 2)}, "b"},
		"nothing but a step":               {[]*platformv1.Operation{of("a", running, 3, step)}, ""},
		"one that asks before it did much": {[]*platformv1.Operation{of("a", asks, 1), of("b", running, 2)}, "b"},
		"nothing but one that asks":        {[]*platformv1.Operation{of("a", asks, 1)}, "a"},
		"one that asks in the middle":      {[]*platformv1.Operation{of("a", asks, 1, begun)}, "a"},
		"beside a record": {[]*platformv1.Operation{of("record", running, 1, record), of("z", running, 2)},
			"z"},
		"nothing but a record":             {[]*platformv1.Operation{of("record", running, 1, record)}, "record"},
		"two that run":                     {[]*platformv1.Operation{of("a", running, 2), of("b", running, 1)}, "b"},
		"two of the same moment":           {[]*platformv1.Operation{of("b", running, 1), of("a", running, 1)}, "a"},
		"one that does not say since when": {[]*platformv1.Operation{of("a", running, 1), of("b", running, 0)}, "b"},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				got := ""
				if active := Active(c.operations); active != nil {
					got = active.Name
				}
				if got != c.want {
					t.Errorf("it is %q, want %q", got, c.want)
				}
				// The order in which they are listed does not matter.
				slices.Reverse(c.operations)
			}
		})
	}
}
