// SPDX-License-Identifier: Apache-2.0

package optemplate

import (
	"cmp"
	"slices"
	"strings"

	"github.com/zeroinfra/platform-core/internal/plugin/document"
)

// stepKind is one type of step of a template.
type stepKind struct {
	// name of the field that holds it.
	name string
	// given says whether a step is of this type.
	given func(*Step) bool
	// once is why a step of this type takes no forEach; empty for one that does.
	once string
	// origins of the templates that can have steps of this type; all when empty.
	origins []templateOrigin
	// check looks at what the step says; nil for nothing beyond the schema.
	check func(c checker, path document.Path, step *Step)
}

// stepKinds are all types of steps, in the order in which messages name them.
func stepKinds() []stepKind {
	instance := []templateOrigin{ofPlugin, ofEngine}
	return []stepKind{
		{name: "agent", given: func(s *Step) bool { return s.Agent != nil }, origins: instance,
			once:  "an agent step goes from pod to pod",
			check: func(c checker, path document.Path, s *Step) { c.agent(path, s.Agent) }},
		{name: "engine", given: func(s *Step) bool { return s.Engine != nil }, origins: instance,
			once:  "an engine step is taken once",
			check: func(c checker, path document.Path, s *Step) { c.engine(path, s.Engine) }},
		{name: "wait", given: func(s *Step) bool { return s.Wait != nil }},
		{name: "operation", given: func(s *Step) bool { return s.Operation != nil },
			check: func(c checker, path document.Path, s *Step) { c.nested(path, s.Operation) }},
		{name: "approval", given: func(s *Step) bool { return s.Approval != nil }, once: "an approval is given once",
			check: func(c checker, path document.Path, s *Step) { c.approval(path, s.Approval) }},
		{name: "job", given: func(s *Step) bool { return s.Job != nil }, origins: instance,
			check: func(c checker, path document.Path, s *Step) { c.job(path, s.Job) }},
		{name: "container", given: func(s *Step) bool { return s.Container != nil },
			origins: []templateOrigin{inline},
			check:   func(c checker, path document.Path, s *Step) { c.task(path, &s.Container.PodStep) }},
		{name: "script", given: func(s *Step) bool { return s.Script != nil }, origins: []templateOrigin{inline},
			check: func(c checker, path document.Path, s *Step) { c.script(path, s.Script) }},
		{name: "http", given: func(s *Step) bool { return s.HTTP != nil },
			check: func(c checker, path document.Path, s *Step) { c.http(path, s.HTTP) }},
		{name: "apply", given: func(s *Step) bool { return s.Apply != nil }},
		{name: "patch", given: func(s *Step) bool { return s.Patch != nil }},
		{name: "delete", given: func(s *Step) bool { return s.Delete != nil }},
	}
}

// kind checks that a step has one type, and what that says.
func (c checker) kind(path document.Path, step *Step) {
	var given []stepKind
	var known, items []string
	for _, kind := range stepKinds() {
		if len(kind.origins) > 0 && !slices.Contains(kind.origins, c.origin) {
			if kind.given(step) {
				c.fail(path.With(kind.name), "is not allowed in %s",
					cmp.Or(c.origin, "a template of a plugin, whose jobs are like its pods"))
				return
			}
			continue
		}
		known = append(known, kind.name)
		if kind.once == "" {
			items = append(items, kind.name)
		}
		if kind.given(step) {
			given = append(given, kind)
		}
	}
	if len(given) != 1 {
		c.fail(path, "must have exactly one of %s", listed(known))
		return
	}
	kind := given[0]
	if step.ForEach != "" && kind.once != "" {
		c.fail(path.With("forEach"), "is for %s: %s", listed(items), kind.once)
	}
	if step.ForEach != "" && step.Task() != nil && len(step.Task().Outputs) > 0 {
		c.fail(path.With(kind.name).With("outputs"), "are those of one pod: a forEach has one for each item")
	}
	if step.Parallelism > 0 && (step.ForEach == "" || kind.name == "job" || step.Operation != nil &&
		step.Operation.Template == "") {
		c.fail(path.With("parallelism"), "is for a forEach of steps other than job and operation with templateRef")
	}
	c.exitCodes(path.With("retry"), step, kind.name)
	if kind.check != nil {
		kind.check(c, path.With(kind.name), step)
	}
}

// exitCodes checks that those by which a step is tried again are of a container.
func (c checker) exitCodes(path document.Path, step *Step, kind string) {
	if step.Retry == nil {
		return
	}
	listed, except := len(step.Retry.ExitCodes) > 0, len(step.Retry.ExceptExitCodes) > 0
	if listed && except {
		c.fail(path.With("exceptExitCodes"), "is not for a retry that has exitCodes: set one of the two")
	}
	if step.Task() != nil || step.Job != nil {
		return
	}
	if listed {
		c.fail(path.With("exitCodes"), "is for a step with a container, and %s has none", kind)
	}
	if except {
		c.fail(path.With("exceptExitCodes"), "is for a step with a container, and %s has none", kind)
	}
}

// approval checks how many users have to approve.
func (c checker) approval(path document.Path, step *ApprovalStep) {
	if step.Count > 1 && c.origin != inline {
		c.fail(path.With("count"), "is %d: more than one is for an inline template", step.Count)
	}
}

// listed joins names as a sentence has them: a, b and c.
func listed(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}
