// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

var (
	camelCase = regexp.MustCompile(`^[A-Z][A-Za-z0-9]*$`)
	// timestamps are dates and times of day. They make a message differ each time it is written.
	timestamps = regexp.MustCompile(`\d{4}-\d{2}-\d{2}|\d{2}:\d{2}:\d{2}`)
	// sentenceEnd is the end of one sentence and the beginning of another.
	sentenceEnd = regexp.MustCompile(`[a-z)"]\. [A-Z]`)
)

// StatusLint checks the status of an object that was reconciled against the rules
// of the suite (kstatus and our own) and returns all that are broken, by number:
//
//	1  Ready is there
//	2  Reconciling and Stalled are not both True
//	3  Ready is not True beside Reconciling or Stalled
//	4  Ready is True only when Accepted, if there, is True too
//	5  Reconciling and Stalled are True or absent
//	6  a reason is one CamelCase word
//	7  a message is one sentence on one line, without spaces around it
//	8  a message holds no date and no time of day, but that of the maintenance window that is waited for
//	9  the message of Ready is not empty unless Ready is True
//	10 Ready False goes with Reconciling or Stalled, which say why
//	11 observedGeneration, of the status and of conditions, is set and not above the generation
//	12 conditions are sorted by type, each type once
//	13 lastTransitionTime is set
func StatusLint(obj platformv1.Conditioned) error {
	l := linter{obj: obj, conditions: obj.GetConditions()}
	l.standing()
	for _, condition := range l.conditions {
		l.condition(condition)
	}
	l.order()
	l.generation()
	return errors.Join(l.broken...)
}

type linter struct {
	obj        platformv1.Conditioned
	conditions []metav1.Condition
	broken     []error
}

func (l *linter) rule(number int, kept bool, format string, args ...any) {
	if !kept {
		l.broken = append(l.broken, fmt.Errorf("rule %d: %s", number, fmt.Sprintf(format, args...)))
	}
}

// standing checks how the conditions go together.
func (l *linter) standing() {
	isTrue := func(conditionType string) bool { return meta.IsStatusConditionTrue(l.conditions, conditionType) }
	ready := meta.FindStatusCondition(l.conditions, platformv1.ReadyCondition)
	l.rule(1, ready != nil, "there is no condition Ready")
	reconciling, stalled := isTrue(platformv1.ReconcilingCondition), isTrue(platformv1.StalledCondition)
	l.rule(2, !reconciling || !stalled, "Reconciling and Stalled are both True")
	if ready == nil {
		return
	}
	l.rule(3, ready.Status != metav1.ConditionTrue || !reconciling && !stalled,
		"Ready is True beside Reconciling or Stalled")
	accepted := meta.FindStatusCondition(l.conditions, platformv1.AcceptedCondition)
	l.rule(4, ready.Status != metav1.ConditionTrue || accepted == nil || accepted.Status == metav1.ConditionTrue,
		"Ready is True and Accepted is not")
	l.rule(9, ready.Status == metav1.ConditionTrue || ready.Message != "", "Ready is %s and has no message", ready.Status)
	l.rule(10, ready.Status != metav1.ConditionFalse || reconciling || stalled,
		"Ready is False, and neither Reconciling nor Stalled is True")
}

// condition checks one condition by itself.
func (l *linter) condition(c metav1.Condition) {
	if c.Type == platformv1.ReconcilingCondition || c.Type == platformv1.StalledCondition {
		l.rule(5, c.Status == metav1.ConditionTrue, "%s is %s: remove it instead", c.Type, c.Status)
	}
	l.rule(6, camelCase.MatchString(c.Reason), "the reason %q of %s is not one CamelCase word", c.Reason, c.Type)
	sentence := !strings.ContainsAny(c.Message, "\n\r") && strings.TrimSpace(c.Message) == c.Message &&
		!sentenceEnd.MatchString(c.Message)
	l.rule(7, sentence, "the message %q of %s is not one sentence", c.Message, c.Type)
	l.rule(8, c.Reason == platformv1.ReasonWaitingForMaintenance || !timestamps.MatchString(c.Message),
		"the message %q of %s holds a date or a time", c.Message, c.Type)
	l.rule(11, c.ObservedGeneration > 0 && c.ObservedGeneration <= l.obj.GetGeneration(),
		"%s speaks of generation %d, the object has %d", c.Type, c.ObservedGeneration, l.obj.GetGeneration())
	l.rule(13, !c.LastTransitionTime.IsZero(), "%s has no lastTransitionTime", c.Type)
}

func (l *linter) order() {
	increasing := slices.IsSortedFunc(l.conditions, func(a, b metav1.Condition) int {
		if a.Type == b.Type {
			return -1 // An equal pair is as wrong as a reversed one.
		}
		return strings.Compare(a.Type, b.Type)
	})
	types := make([]string, 0, len(l.conditions))
	for _, c := range l.conditions {
		types = append(types, c.Type)
	}
	l.rule(12, increasing, "conditions are %s: sort them, each type once", strings.Join(types, ", "))
}

func (l *linter) generation() {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(l.obj)
	if err != nil {
		l.rule(11, false, "cannot read the status: %v", err)
		return
	}
	status, _ := content["status"].(map[string]any)
	observed, _ := status["observedGeneration"].(int64)
	l.rule(11, observed > 0 && observed <= l.obj.GetGeneration(),
		"the status speaks of generation %d, the object has %d", observed, l.obj.GetGeneration())
}
