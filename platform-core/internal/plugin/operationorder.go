// SPDX-License-Identifier: Apache-2.0

package plugin

import "slices"

// Step returns the step of this name.
func (t *OperationTemplate) Step(name string) (*OperationStep, bool) {
	i := slices.IndexFunc(t.Steps, func(s OperationStep) bool { return s.Name == name })
	if i < 0 {
		return nil, false
	}
	return &t.Steps[i], true
}

// Compensates says whether a step undoes another one, and is taken for nothing else.
func (t *OperationTemplate) Compensates(name string) bool {
	return slices.ContainsFunc(t.Steps, func(s OperationStep) bool { return slices.Contains(s.Compensate, name) })
}

// Point returns the step that is the point of no return; nil for none.
func (t *OperationTemplate) Point() *OperationStep {
	i := slices.IndexFunc(t.Steps, func(s OperationStep) bool { return s.Commits != "" })
	if i < 0 {
		return nil
	}
	return &t.Steps[i]
}

// NeedsOf returns the steps that have to end before a step begins.
func (t *OperationTemplate) NeedsOf(name string) []string {
	before := ""
	for _, s := range t.Steps {
		switch {
		case s.Name == name && (s.Needs != nil || before == "" || t.Compensates(name)):
			return s.Needs
		case s.Name == name:
			return []string{before}
		case !t.Compensates(s.Name):
			before = s.Name
		}
	}
	return nil
}

// Before returns the steps that have ended for certain when a step begins: those that it needs, directly or not. For one that
// compensates these are all that do not.
func (t *OperationTemplate) Before(name string) []string {
	var before []string
	if t.Compensates(name) {
		for _, s := range t.Steps {
			if !t.Compensates(s.Name) {
				before = append(before, s.Name)
			}
		}
		return before
	}
	todo := slices.Clone(t.NeedsOf(name))
	for len(todo) > 0 {
		next := todo[0]
		todo = todo[1:]
		if !slices.Contains(before, next) {
			before = append(before, next)
			todo = append(todo, t.NeedsOf(next)...)
		}
	}
	return before
}

// Order returns the names of the steps so that each stands after those that it needs, as near to the template as that goes; those that
// compensate stand at the end. Steps that need each other in a circle are left out.
func (t *OperationTemplate) Order() []string {
	var order, compensating []string
	for _, s := range t.Steps {
		if t.Compensates(s.Name) {
			compensating = append(compensating, s.Name)
		}
	}
	for {
		i := slices.IndexFunc(t.Steps, func(s OperationStep) bool {
			return !t.Compensates(s.Name) && !slices.Contains(order, s.Name) &&
				!slices.ContainsFunc(t.NeedsOf(s.Name), func(need string) bool { return !slices.Contains(order, need) })
		})
		if i < 0 {
			return append(order, compensating...)
		}
		order = append(order, t.Steps[i].Name)
	}
}
