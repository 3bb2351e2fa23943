// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"cmp"
	"slices"
	"time"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// Expiry returns when a finished Operation is to be deleted; false when it is kept. history is that of its Application; nil for none.
func Expiry(op *platformv1.Operation, history *platformv1.OperationHistory) (time.Time, bool) {
	if !Finished(op) || op.Status.CompletionTime == nil {
		return time.Time{}, false
	}
	switch {
	case op.Spec.TTLSecondsAfterFinished != nil:
		return op.Status.CompletionTime.Add(time.Duration(*op.Spec.TTLSecondsAfterFinished) * time.Second), true
	case history != nil && history.TTL != nil:
		return op.Status.CompletionTime.Add(history.TTL.Duration), true
	}
	return time.Time{}, false
}

// Surplus returns the finished Operations of an Application that its history has no room for, the oldest first.
func Surplus(operations []*platformv1.Operation, history *platformv1.OperationHistory) []*platformv1.Operation {
	if history == nil || history.Limit == nil {
		return nil
	}
	var finished []*platformv1.Operation
	for _, op := range operations {
		if Finished(op) && op.Status.CompletionTime != nil && op.DeletionTimestamp.IsZero() {
			finished = append(finished, op)
		}
	}
	slices.SortFunc(finished, func(a, b *platformv1.Operation) int {
		return cmp.Or(a.Status.CompletionTime.Compare(b.Status.CompletionTime.Time), cmp.Compare(a.Name, b.Name))
	})
	return finished[:max(0, len(finished)-int(*history.Limit))]
}
