// SPDX-License-Identifier: Apache-2.0

// Package conditions reads and writes the conditions of an object's status, and
// is the only place that turns an outcome into Ready, Reconciling and Stalled.
//
// Conditions are sorted by type, so that the same facts always give the same
// status and a status patch is sent only when something changes.
package conditions

import (
	"iter"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// maxMessage is the longest message that the schema of a condition allows, in bytes.
const maxMessage = 32768

// Get returns a copy of the condition of this type; nil when there is none.
func Get(obj platformv1.Conditioned, conditionType string) *metav1.Condition {
	found := meta.FindStatusCondition(obj.GetConditions(), conditionType)
	if found == nil {
		return nil
	}
	condition := *found
	return &condition
}

// IsTrue says whether the condition of this type is there and True.
func IsTrue(obj platformv1.Conditioned, conditionType string) bool {
	return meta.IsStatusConditionTrue(obj.GetConditions(), conditionType)
}

// Set puts a condition in its place. lastTransitionTime stays when the status
// does, else it is now, unless the condition brings one. An observedGeneration
// of 0 stands for that of the object. A longer message than a condition may hold
// is cut.
func Set(obj platformv1.Conditioned, condition metav1.Condition) {
	if condition.ObservedGeneration == 0 {
		condition.ObservedGeneration = obj.GetGeneration()
	}
	if len(condition.Message) > maxMessage {
		condition.Message = strings.ToValidUTF8(condition.Message[:maxMessage-3], "") + "..."
	}
	// The slice may be shared with the image that a status patch is compared with.
	all := slices.Clone(obj.GetConditions())
	meta.SetStatusCondition(&all, condition)
	slices.SortFunc(all, func(a, b metav1.Condition) int { return strings.Compare(a.Type, b.Type) })
	obj.SetConditions(all)
}

// Remove takes the condition of this type away, if it is there.
func Remove(obj platformv1.Conditioned, conditionType string) {
	all := slices.Clone(obj.GetConditions())
	if meta.RemoveStatusCondition(&all, conditionType) {
		obj.SetConditions(all)
	}
}

// Report writes an outcome into the status: Ready, Reconciling and Stalled, and
// the generation that they speak of. readyMessage is the sentence of Ready when
// the outcome is Done; it may be empty.
//
//	Done     Ready=True (reason Ready, or the outcome's own reason and message)
//	Held     Ready as it was, with the outcome's reason and message; Stalled=True when that is not True
//	Deferred Ready=False, Reconciling=True, with the outcome's reason and message
//	Waiting  Ready=False, Reconciling=True, with the outcome's reason and message
//	Stalled  Ready=False, Stalled=True, with the outcome's reason and message
//	Failed   Ready=False, Reconciling=True, with the error's reason and text
//
// Reconciling and Stalled are absent otherwise.
func Report(obj platformv1.Conditioned, o outcome.Outcome, readyMessage string) {
	obj.SetObservedGeneration(obj.GetGeneration())
	ready, reason, message := o.Kind() == outcome.KindDone, o.Reason(), o.Message()
	if ready && reason == "" {
		reason, message = platformv1.ReasonReady, readyMessage
	}
	if ready || o.Kind() == outcome.KindHeld && IsTrue(obj, platformv1.ReadyCondition) {
		set(obj, platformv1.ReadyCondition, metav1.ConditionTrue, reason, message)
		Remove(obj, platformv1.ReconcilingCondition)
		Remove(obj, platformv1.StalledCondition)
		return
	}
	set(obj, platformv1.ReadyCondition, metav1.ConditionFalse, o.Reason(), o.Message())
	if o.Kind() == outcome.KindStalled || o.Kind() == outcome.KindHeld {
		set(obj, platformv1.StalledCondition, metav1.ConditionTrue, o.Reason(), o.Message())
		Remove(obj, platformv1.ReconcilingCondition)
		return
	}
	set(obj, platformv1.ReconcilingCondition, metav1.ConditionTrue, o.Reason(), o.Message())
	Remove(obj, platformv1.StalledCondition)
}

// Sum gives an object a condition that its parts have: what is so of some part speaks for all, False before Unknown and
// Unknown before True. Where no part has it, it is removed. It holds nothing up.
func Sum(to platformv1.Conditioned, conditionType string, parts iter.Seq[platformv1.Conditioned]) {
	var all *metav1.Condition
	for part := range parts {
		has := Get(part, conditionType)
		switch {
		case has == nil:
		case all == nil || has.Status != metav1.ConditionTrue && all.Status == metav1.ConditionTrue:
			all = &metav1.Condition{Type: has.Type, Status: has.Status, Reason: has.Reason, Message: has.Message}
		case has.Status == metav1.ConditionTrue:
		case has.Status == metav1.ConditionFalse && all.Status == metav1.ConditionUnknown:
			all.Status, all.Reason, all.Message = has.Status, has.Reason, has.Message+"; "+all.Message
		default:
			all.Message += "; " + has.Message
		}
	}
	if all == nil {
		Remove(to, conditionType)
		return
	}
	Set(to, *all)
}

// SumDeclared is Sum for each type that a plugin declares, of those that the object and its parts have, but for types
// that the object has by itself.
func SumDeclared(to platformv1.Conditioned, parts iter.Seq[platformv1.Conditioned], own ...string) {
	types := Declared(to)
	for part := range parts {
		types = append(types, Declared(part)...)
	}
	for _, conditionType := range types {
		if !slices.Contains(own, conditionType) {
			Sum(to, conditionType, parts)
		}
	}
}

// Parts are the objects of a map in the order of their names.
func Parts[T platformv1.Conditioned](objects map[string]T) iter.Seq[platformv1.Conditioned] {
	return func(yield func(platformv1.Conditioned) bool) {
		for _, name := range slices.Sorted(maps.Keys(objects)) {
			if !yield(objects[name]) {
				return
			}
		}
	}
}

// Declared are the types of an object's conditions that a plugin declares, and not the engine.
func Declared(obj platformv1.Conditioned) []string {
	var types []string
	for _, c := range obj.GetConditions() {
		if !slices.Contains(platformv1.EngineConditions, c.Type) {
			types = append(types, c.Type)
		}
	}
	return types
}

// Mirror copies the conditions of these types from one object to another, which
// keeps its own lastTransitionTime and speaks of its own generation. What the
// source does not have is removed.
func Mirror(to, from platformv1.Conditioned, conditionTypes ...string) {
	for _, conditionType := range conditionTypes {
		condition := Get(from, conditionType)
		if condition == nil {
			Remove(to, conditionType)
			continue
		}
		set(to, conditionType, condition.Status, condition.Reason, condition.Message)
	}
}

func set(obj platformv1.Conditioned, conditionType string, status metav1.ConditionStatus, reason, message string) {
	Set(obj, metav1.Condition{Type: conditionType, Status: status, Reason: reason, Message: message})
}
