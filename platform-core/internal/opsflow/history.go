// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"cmp"
	"slices"
	"time"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// Due returns the Operations whose records are to go now, the oldest first, and after how long the next ones are; 0 for
// never. operations are those of one Application, in any order; those that have not ended stay. history is what is kept
// where an Operation says nothing of itself; nil for all.
func Due(operations []*platformv1.Operation, history *platformv1.OperationHistory, now time.Time) (
	due []*platformv1.Operation, next time.Duration) {
	var kept []*platformv1.Operation
	for _, op := range operations {
		if !Finished(op) || op.Status.CompletionTime == nil || !op.DeletionTimestamp.IsZero() {
			continue
		}
		at, expires := Expiry(op, history)
		left := at.Sub(now)
		switch {
		case expires && left <= 0:
			due = append(due, op)
			continue
		case expires && (next == 0 || left < next):
			next = left
		}
		kept = append(kept, op)
	}
	if history != nil && history.Limit != nil && len(kept) > int(*history.Limit) {
		slices.SortFunc(kept, oldestFirst)
		due = append(due, kept[:len(kept)-int(*history.Limit)]...)
	}
	slices.SortFunc(due, oldestFirst)
	return due, next
}

func oldestFirst(a, b *platformv1.Operation) int {
	return cmp.Or(a.Status.CompletionTime.Compare(b.Status.CompletionTime.Time), cmp.Compare(a.Name, b.Name))
}

// Expiry returns when a finished Operation is to be deleted; false when it is kept. history may be nil.
func Expiry(op *platformv1.Operation, history *platformv1.OperationHistory) (time.Time, bool) {
	switch {
	case !Finished(op) || op.Status.CompletionTime == nil:
		return time.Time{}, false
	case op.Spec.TTLSecondsAfterFinished != nil:
		return op.Status.CompletionTime.Add(time.Duration(*op.Spec.TTLSecondsAfterFinished) * time.Second), true
	case history != nil && history.TTL != nil:
		return op.Status.CompletionTime.Add(history.TTL.Duration), true
	}
	return time.Time{}, false
}
