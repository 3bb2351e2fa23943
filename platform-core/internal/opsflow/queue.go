// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"cmp"
	"fmt"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// Ahead returns the Operation that has to end before op can start, out of those of the
// same Application; nil when it is op's turn. One that runs comes before all others,
// then it goes by creation time and by name.
func Ahead(op *platformv1.Operation, others []*platformv1.Operation) *platformv1.Operation {
	var first *platformv1.Operation
	for _, other := range others {
		if other.UID == op.UID || Finished(other) || !other.DeletionTimestamp.IsZero() || before(op, other) < 0 {
			continue
		}
		if first == nil || before(other, first) < 0 {
			first = other
		}
	}
	return first
}

// before compares two Operations by their turn.
func before(a, b *platformv1.Operation) int {
	return cmp.Or(
		cmp.Compare(waiting(a), waiting(b)),
		a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
		cmp.Compare(a.Name, b.Name),
	)
}

func waiting(op *platformv1.Operation) int {
	if op.Status.Phase == platformv1.OperationRunning {
		return 0
	}
	return 1
}

// Behind is the sentence of an Operation that waits for another.
func Behind(first *platformv1.Operation, application string) string {
	return fmt.Sprintf("waiting for Operation %q of Application %q to end: one Operation runs at a time", first.Name, application)
}
