// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/placeholder"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
)

// ParameterError is one parameter that is refused.
type ParameterError struct {
	// Name of the parameter.
	Name string
	// Value that was given.
	Value string
	// Message is one sentence that names the parameter, its value and what is allowed.
	Message string
}

// Error returns the message.
func (e ParameterError) Error() string { return e.Message }

// CheckParameters checks what a user set for a component against the plugin's
// schema for a version of the middleware. It returns every error, in order of name.
func (b *Bundle) CheckParameters(component, version string, user platformv1.Parameters) []ParameterError {
	c, ok := b.Component(component)
	if !ok {
		c = &schema.Component{Name: component}
	}
	errs := b.checked(c, version, user)
	if c.Archive != nil && c.Archive.Parameters.Volume != "" {
		name := c.Archive.Parameters.Volume
		if _, set := user[name]; set {
			errs = append(errs, ParameterError{Name: name, Value: string(user[name]), Message: fmt.Sprintf(
				"parameter %q cannot be set: it is set by the engine, where archive.repositoryRef names a BackupRepository on a "+
					"volume", name)})
		}
	}
	return errs
}

// checked checks values for a component, whoever says them.
func (b *Bundle) checked(c *schema.Component, version string, values platformv1.Parameters) []ParameterError {
	var errs []ParameterError
	parameters := b.Parameters(c)
	for _, name := range slices.Sorted(maps.Keys(values)) {
		value := string(values[name])
		message := fmt.Sprintf("parameter %q cannot be set: component %q has no parameters", name, c.Name)
		if parameters != nil {
			message = parameters.check(version, name, value)
		}
		if message != "" {
			errs = append(errs, ParameterError{Name: name, Value: value, Message: message})
		}
	}
	return errs
}

// ParametersInForce returns the plugin's defaults, with placeholders filled in, and over
// them what the user set. Defaults that the version does not know are left out. The
// defaults are checked, since they may depend on what the user set elsewhere; the user's own
// values are taken as CheckParameters passed them.
func (b *Bundle) ParametersInForce(component *schema.Component, v placeholder.Values, user platformv1.Parameters) (
	map[string]string, error) {
	return inForce(b.parameters[component.Parameters], v, user)
}

// inForce does it for one parameter set, which is nil where there is none.
func inForce(file *parameterFile, v placeholder.Values, user platformv1.Parameters) (map[string]string, error) {
	inForce := map[string]string{}
	for name, value := range user {
		inForce[name] = string(value)
	}
	if file == nil {
		return inForce, nil
	}
	for _, name := range slices.Sorted(maps.Keys(file.defaults)) {
		if _, ok := inForce[name]; ok {
			continue
		}
		if _, ok := file.byVersion[v.App.Version][name]; !ok {
			continue
		}
		value, err := file.defaults[name].Eval(v)
		if err != nil {
			return nil, fmt.Errorf("cannot compute the default of parameter %q: %w", name, err)
		}
		text := placeholder.FormatValue(value)
		if text == "" && file.set.Defaults[name] != "" {
			// An expression that gives nothing: there is no default here, and the middleware's own holds.
			continue
		}
		if message := file.check(v.App.Version, name, text); message != "" {
			return nil, &defaultError{name: name, message: message}
		}
		inForce[name] = text
	}
	v.Params = inForce
	return inForce, file.checkRules(v)
}

// defaultError is a default of the plugin's that its own schema refuses.
type defaultError struct{ name, message string }

func (e *defaultError) Error() string { return "the plugin's default is not allowed: " + e.message }

// brokenRule is the message of a rule that the parameters in force do not keep.
type brokenRule string

func (r brokenRule) Error() string { return string(r) }

// checkRules checks what the parameters in force must be to each other.
func (f *parameterFile) checkRules(v placeholder.Values) error {
	for i, rule := range f.rules {
		holds, err := rule.Eval(v)
		if err != nil {
			return fmt.Errorf("cannot check a rule of the parameters: %w", err)
		}
		if holds != true {
			return brokenRule(f.set.Rules[i].Message)
		}
	}
	return nil
}

// Dynamic says whether a reload takes over a change of this parameter.
func (p *Parameters) Dynamic(name string) bool {
	_, resets := p.set.ResetValues[name]
	return resets || schema.MatchesAny(p.set.Dynamic, name)
}

// HasDynamic says whether there is any such parameter.
func (p *Parameters) HasDynamic() bool { return len(p.set.Dynamic)+len(p.set.ResetValues) > 0 }

// resetValues is what the middleware has for the dynamic parameters of a component that nobody sets; nil where the
// plugin does not say.
func (b *Bundle) resetValues(component *schema.Component, version string) map[string]string {
	parameters := b.Parameters(component)
	if parameters == nil || len(parameters.set.ResetValues) == 0 {
		return nil
	}
	values := map[string]string{}
	for name, value := range parameters.set.ResetValues {
		if _, known := parameters.byVersion[version][name]; known {
			values[name] = string(value)
		}
	}
	return values
}

// words splits the value of a parameter that is a list.
func (p *Parameters) words(name, value string) []string {
	if !slices.Contains(p.set.Lists, name) {
		return []string{value}
	}
	if words := strings.Fields(value); len(words) > 0 {
		return words
	}
	return []string{""}
}
