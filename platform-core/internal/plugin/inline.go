// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"errors"
	"fmt"
	"strings"

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
	// maxInlineErrors is how many errors of an inline template are told at a time.
	maxInlineErrors = 5
)

// ParseInline reads the template that an Operation brings along. The error has one line for each of the first errors, with
// its line and its path.
func ParseInline(text string) (OperationTemplate, error) {
	template, errs := parseOperation(text, inline)
	errs = sortErrors(errs)
	if len(errs) == 0 {
		return template, nil
	}
	var lines []string
	for _, e := range errs[:min(len(errs), maxInlineErrors)] {
		lines = append(lines, fmt.Sprintf("line %d: %s", max(1, e.Line), e.Message))
	}
	if more := len(errs) - len(lines); more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	return template, errors.New(strings.Join(lines, "; "))
}

// inline refuses what only a template that acts on an instance can have.
func (c operationCheck) inline() {
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
