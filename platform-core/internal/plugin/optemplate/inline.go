// SPDX-License-Identifier: Apache-2.0

package optemplate

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/zeroinfra/platform-core/internal/lrucache"
	"github.com/zeroinfra/platform-core/internal/plugin/document"
)

// templateOrigin says who wrote a template. It is the end of a sentence as well.
type templateOrigin string

// Origins of templates. The zero value is a plugin.
const (
	ofPlugin templateOrigin = ""
	// ofEngine: the template is part of the engine and acts on instances of every plugin.
	ofEngine templateOrigin = "a template of the engine"
	// inline: the template is part of an Operation. It acts on no instance, and its author is not trusted.
	inline templateOrigin = "an inline template, which acts on no instance"
)

const (
	// maxInlineSteps is how many steps an inline template can have: their record is one object.
	maxInlineSteps = 100
	// maxInlineDepth is how many inline templates run each other, the first one included.
	maxInlineDepth = 4
	// maxInlineErrors is how many errors of an inline template are told at a time.
	maxInlineErrors = 5
	// keptInline is how many compiled inline templates are kept while Operations are at work.
	keptInline = 128
)

// keptTemplates has the inline templates that are in use, by the digest of their text. The templates are shared: nobody
// changes them.
var keptTemplates = lrucache.New[[sha256.Size]byte, Template](keptInline)

// ParseInline reads the template that an Operation brings along. The error has one line for each of the first errors,
// with its line and its path. A text that was read not long ago is not compiled again: callers must not change the
// template.
func ParseInline(text string) (Template, error) {
	key := sha256.Sum256([]byte(text))
	return keptTemplates.Get(key, func() (Template, error) { return parseInline(text, 1) })
}

// parseInline reads an inline template at a depth, which is 1 for that of the Operation.
func parseInline(text string, depth int) (Template, error) {
	template, problems := parse(text, inline, depth)
	if len(problems) == 0 {
		return template, nil
	}
	slices.SortStableFunc(problems, func(a, b document.Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Message, b.Message))
	})
	problems = slices.Compact(problems)
	var lines []string
	for _, p := range problems[:min(len(problems), maxInlineErrors)] {
		lines = append(lines, fmt.Sprintf("line %d: %s", max(1, p.Line), p.Message))
	}
	if more := len(problems) - len(lines); more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	return template, errors.New(strings.Join(lines, "; "))
}

// inline refuses what only a template that acts on an instance can have.
func (c checker) inline() {
	const acts = "is not allowed in " + string(inline)
	if len(c.template.Targets) > 0 {
		c.fail(document.Path{"targets"}, acts)
	}
	if len(c.template.Topologies) > 0 {
		c.fail(document.Path{"topologies"}, acts)
	}
	if c.template.Preempts {
		c.fail(document.Path{"preempts"}, acts)
	}
	if n := len(c.template.Steps); n > maxInlineSteps {
		c.fail(document.Path{"steps"}, "has %d steps: at most %d are allowed", n, maxInlineSteps)
	}
}

// nested checks the template that a step runs.
func (c checker) nested(path document.Path, step *NestedStep) {
	switch {
	case c.origin != inline && step.Template != "":
		c.fail(path.With("template"), "is for an inline template: name a template of the plugin or of the engine in "+
			"templateRef")
		return
	case c.origin != inline && step.TemplateRef == "":
		c.fail(path.With("templateRef"), "is missing: it must be the name of a template, for example Restart")
		return
	case c.origin != inline:
		return
	case step.TemplateRef != "" || step.Template == "":
		c.fail(path, "must have template, and no templateRef, in %s", inline)
		return
	case c.depth >= maxInlineDepth:
		c.fail(path.With("template"), "is nested too deep: at most %d templates run each other", maxInlineDepth)
		return
	}
	template, err := parseInline(step.Template, c.depth+1)
	if err != nil {
		c.fail(path.With("template"), "is not valid: %v", err)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(step.Parameters)) {
		if _, ok := template.Parameters[name]; !ok {
			c.fail(path.With("parameters").With(name), "is no parameter of the template: it takes %s",
				cmp.Or(strings.Join(slices.Sorted(maps.Keys(template.Parameters)), ", "), "none"))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(template.Parameters)) {
		if _, given := step.Parameters[name]; !given && template.Parameters[name].Default == nil {
			c.fail(path.With("parameters"), "lacks the parameter %q of the template, which has no default: add it", name)
		}
	}
	step.inline = &template
}

// results checks the names of the outputs of the template.
func (c checker) results() {
	if c.origin != inline && len(c.template.Outputs) > 0 {
		c.fail(document.Path{"outputs"}, "are for an inline template: those of a template of a plugin are the outputs of "+
			"its steps")
	}
	if _, taken := c.template.Outputs[outputOperation]; taken {
		c.fail(document.Path{"outputs"}.With(outputOperation),
			"is the name of the Operation for the template that runs this one: choose another name")
	}
}
