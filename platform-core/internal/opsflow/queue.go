// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"cmp"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// Ahead returns the Operation that has to end before op can start, out of those of the
// same Application; nil when it is op's turn. One that runs comes before all others,
// then it goes by creation time and by name. One that stands aside keeps nobody waiting. What a step of another Operation runs waits neither for that one nor for those
// that wait for it. A record of what the engine does anyhow waits for nobody, and nobody for it.
func Ahead(op *platformv1.Operation, others []*platformv1.Operation) *platformv1.Operation {
	if IsRecord(op) {
		return nil
	}
	var first *platformv1.Operation
	above := ancestors(op, others)
	for _, other := range others {
		if other.UID == op.UID || IsRecord(other) || Finished(other) || StandsAside(other) && !decided(other) || !other.DeletionTimestamp.IsZero() || before(op, other) < 0 {
			continue
		}
		if slices.Contains(above, other.UID) || len(above) > 0 && waiting(other) > 0 {
			continue
		}
		if first == nil || before(other, first) < 0 {
			first = other
		}
	}
	return first
}

// IsRecord says whether an Operation does nothing but to record a failover that the engine decided on.
func IsRecord(op *platformv1.Operation) bool { return TriggerOf(op) == platformv1.TriggerFailover }

// ancestors are the Operations whose steps run this one, directly or not.
func ancestors(op *platformv1.Operation, others []*platformv1.Operation) []types.UID {
	var above []types.UID
	for parent := ParentOf(op); parent != ""; {
		if slices.Contains(above, parent) {
			break
		}
		above = append(above, parent)
		next := types.UID("")
		for _, other := range others {
			if other.UID == parent {
				next = ParentOf(other)
			}
		}
		parent = next
	}
	return above
}

// ParentOf returns the UID of the Operation whose step runs this one; empty for none.
func ParentOf(op *platformv1.Operation) types.UID {
	if owner := metav1.GetControllerOf(op); owner != nil && owner.Kind == "Operation" {
		return owner.UID
	}
	return ""
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
	if Running(op) && !StandsAside(op) {
		return 0
	}
	return 1
}

// StandsAside says whether an Operation has done nothing yet and waits for an approval, which may take days: others run in the meantime.
func StandsAside(op *platformv1.Operation) bool {
	return op.Status.Phase == platformv1.OperationAwaitingApproval && op.Status.Ending == "" &&
		!slices.ContainsFunc(op.Status.Steps, func(step platformv1.StepStatus) bool {
			return step.Phase == platformv1.OperationSucceeded || step.Phase == platformv1.OperationFailed
		})
}

// TakesTurn says whether an Operation has to wait for its turn before it goes on: it has yet to begin, or stood aside and no longer does.
func TakesTurn(op *platformv1.Operation, facts Facts) bool {
	return !Running(op) || StandsAside(op) && (decided(op) || facts.ParentEnded)
}

func decided(op *platformv1.Operation) bool { return op.Spec.Approval != nil }

// Behind is the sentence of an Operation that waits for another.
func Behind(first *platformv1.Operation, application string) string {
	return fmt.Sprintf("waiting for Operation %q of Application %q to end: one Operation runs at a time", first.Name, application)
}
