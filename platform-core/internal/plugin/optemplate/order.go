// SPDX-License-Identifier: Apache-2.0

package optemplate

import "slices"

// Step returns the step of this name.
func (t *Template) Step(name string) (*Step, bool) {
	i := slices.IndexFunc(t.Steps, func(s Step) bool { return s.Name == name })
	if i < 0 {
		return nil, false
	}
	return &t.Steps[i], true
}

// Compensates says whether a step undoes another one, and is taken for nothing else.
func (t *Template) Compensates(name string) bool {
	return slices.ContainsFunc(t.Steps, func(s Step) bool { return slices.Contains(s.Compensate, name) })
}

// Finally says whether a step is taken once all others have ended.
func (t *Template) Finally(name string) bool {
	step, ok := t.Step(name)
	return ok && step.Finally
}

// Plain says whether a step is taken on the way, neither to compensate nor finally.
func (t *Template) Plain(name string) bool { return !t.Compensates(name) && !t.Finally(name) }

// Point returns the step that is the point of no return; nil for none.
func (t *Template) Point() *Step {
	i := slices.IndexFunc(t.Steps, func(s Step) bool { return s.Commits != "" })
	if i < 0 {
		return nil
	}
	return &t.Steps[i]
}

// NeedsOf returns the steps that have to end before a step begins.
func (t *Template) NeedsOf(name string) []string {
	step, ok := t.Step(name)
	switch {
	case !ok:
		return nil
	case step.Finally:
		return append(t.OnTheWay(), step.Needs...)
	case step.Needs != nil:
		return step.Needs
	}
	before := ""
	for _, s := range t.Steps {
		switch {
		case s.Name == name && (before == "" || t.Compensates(name)):
			return nil
		case s.Name == name:
			return []string{before}
		case t.Plain(s.Name):
			before = s.Name
		}
	}
	return nil
}

// OnTheWay returns the steps that are taken neither to compensate nor finally.
func (t *Template) OnTheWay() []string {
	var names []string
	for _, s := range t.Steps {
		if t.Plain(s.Name) {
			names = append(names, s.Name)
		}
	}
	return names
}

// Before returns the steps that have ended for certain when a step begins: those that it needs, directly or not. For
// one that compensates these are all that are taken on the way.
func (t *Template) Before(name string) []string {
	var before []string
	if t.Compensates(name) {
		return t.OnTheWay()
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

// Order returns the names of the steps so that each stands after those that it needs, as near to the template as that
// goes; those that compensate stand at the end. Steps that need each other in a circle are left out.
func (t *Template) Order() []string {
	var order, compensating []string
	for _, s := range t.Steps {
		if t.Compensates(s.Name) {
			compensating = append(compensating, s.Name)
		}
	}
	for {
		i := slices.IndexFunc(t.Steps, func(s Step) bool {
			return !t.Compensates(s.Name) && !slices.Contains(order, s.Name) &&
				!slices.ContainsFunc(t.NeedsOf(s.Name), func(need string) bool { return !slices.Contains(order, need) })
		})
		if i < 0 {
			return append(order, compensating...)
		}
		order = append(order, t.Steps[i].Name)
	}
}
