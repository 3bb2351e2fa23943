// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"cuelang.org/go/cue"

	"github.com/zeroinfra/platform-core/internal/plugin/constraint"
	"github.com/zeroinfra/platform-core/internal/plugin/document"
	"github.com/zeroinfra/platform-core/internal/plugin/lineform"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
)

// Parameters is a compiled set of parameters: what a user may set, for each version of the middleware.
type Parameters struct {
	set       schema.ParameterSet
	plugin    string
	mu        sync.Mutex
	ctx       *cue.Context
	byVersion map[string]map[string]parameter
	// forms of the values that become lines of a file, by parameter.
	forms map[string]lineform.Form
}

// parameter is one field of the schema. A value is parsed from text as the kinds ask
// and must meet every constraint.
type parameter struct {
	constraint cue.Value
	allowed    string
}

// maxValueLength is the longest value of a parameter.
const maxValueLength = 4096

// Names returns the parameters of a version in order.
func (p *Parameters) Names(version string) []string {
	return slices.Sorted(maps.Keys(p.byVersion[version]))
}

// Allowed says in words what values a parameter takes; "" when it is not known.
func (p *Parameters) Allowed(version, name string) string {
	return p.byVersion[version][name].allowed
}

// check returns what is wrong with a value that a user, or the plugin's defaults, set: "" when nothing is.
func (p *Parameters) check(version, name, value string) string {
	if reason := p.reserved(name); reason != "" {
		return fmt.Sprintf("parameter %q cannot be set: it %s", name, reason)
	}
	field, ok := p.byVersion[version][name]
	if !ok {
		return p.unknown(version, name)
	}
	switch {
	case strings.ContainsAny(value, "\n\r\x00"):
		return fmt.Sprintf("parameter %q has a line break or a NUL in its value %q: a value is one line of text", name,
			shorten(value))
	case len(value) > maxValueLength:
		return fmt.Sprintf("parameter %q has a value of %d characters: at most %d are allowed", name, len(value),
			maxValueLength)
	case !p.allows(field.constraint, value):
		return fmt.Sprintf("parameter %q has value %q: it must be %s", name, shorten(value), field.allowed)
	}
	if form, ok := p.forms[name]; ok {
		if _, err := form.Line(value); err != nil {
			return fmt.Sprintf("parameter %q %v", name, err)
		}
	}
	return ""
}

// reserved returns why a parameter cannot be set, or "".
func (p *Parameters) reserved(name string) string {
	if reason, ok := p.set.Reserved[name]; ok {
		return reason
	}
	for _, pattern := range slices.Sorted(maps.Keys(p.set.Reserved)) {
		if schema.Matches(pattern, name) {
			return p.set.Reserved[pattern]
		}
	}
	return ""
}

func (p *Parameters) unknown(version, name string) string {
	text := fmt.Sprintf("parameter %q is not known to %s %s", name, p.plugin, version)
	var others []string
	for _, other := range slices.Sorted(maps.Keys(p.byVersion)) {
		if _, ok := p.byVersion[other][name]; ok {
			others = append(others, other)
		}
	}
	if len(others) > 0 {
		return text + ": only to " + strings.Join(others, ", ")
	}
	if nearest := document.Nearest(name, p.Names(version)); nearest != "" {
		return text + fmt.Sprintf(": did you mean %q?", nearest)
	}
	return text + ": leave it out"
}

// allows says whether a text, read as any kind that the constraint takes, meets it.
func (p *Parameters) allows(constraint cue.Value, value string) bool {
	// Values of one cue.Context are evaluated lazily, and so one at a time.
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, candidate := range candidates(constraint.IncompleteKind(), value) {
		if constraint.Unify(p.ctx.Encode(candidate)).Validate(cue.Concrete(true)) == nil {
			return true
		}
	}
	return false
}

func candidates(kinds cue.Kind, value string) []any {
	var list []any
	if kinds&cue.StringKind != 0 {
		list = append(list, value)
	}
	if kinds&cue.IntKind != 0 {
		if n, err := strconv.ParseInt(value, 10, 64); err == nil && value[0] != '+' {
			list = append(list, n)
		}
	}
	if kinds&cue.FloatKind != 0 {
		if f, err := strconv.ParseFloat(value, 64); err == nil && !math.IsInf(f, 0) && !math.IsNaN(f) && decimal(value) {
			list = append(list, f)
		}
	}
	if kinds&cue.BoolKind != 0 && (value == "true" || value == "false") {
		list = append(list, value == "true")
	}
	return list
}

// decimal refuses the notations that Go reads and a middleware may not: hexadecimal, underscores, a plus sign.
func decimal(value string) bool {
	return strings.Trim(value, "0123456789.-eE") == ""
}

func shorten(value string) string {
	const limit = 80
	if len(value) <= limit {
		return value
	}
	return strings.ToValidUTF8(value[:limit], "") + "…"
}

// newParameter combines the constraints of one parameter.
func newParameter(constraints ...cue.Value) parameter {
	whole := constraints[0]
	allowed := []string{constraint.Describe(constraints[0])}
	for _, c := range constraints[1:] {
		whole = whole.Unify(c)
		allowed = append(allowed, constraint.Describe(c))
	}
	return parameter{constraint: whole, allowed: strings.Join(slices.Compact(allowed), ", and ")}
}
