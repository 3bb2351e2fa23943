// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/cuecontext"
	"cuelang.org/go/cue/errors"

	"github.com/zeroinfra/platform-core/internal/plugin/document"
	"github.com/zeroinfra/platform-core/internal/plugin/lineform"
	"github.com/zeroinfra/platform-core/internal/plugin/placeholder"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
)

// Definitions in the schema of a parameter set: one for all versions, and optionally
// one for each version with what only that version has, or has narrower.
const commonDefinition = "#Parameters"

// versionDefinition is the name of the definition for one version: #Parameters_7_0 for 7.0.
func versionDefinition(version string) string {
	return commonDefinition + "_" + strings.NewReplacer(".", "_", "-", "_", "+", "_").Replace(version)
}

// parameterFile is a "<set>.yaml" as it was read.
type parameterFile struct {
	*Parameters
	file     string
	document *document.Document
	defaults map[string]*placeholder.Template
	rules    []*placeholder.Template
}

func (l *loader) loadParameters() {
	data := l.part(PartParams)
	for _, key := range slices.Sorted(maps.Keys(data)) {
		name, isYAML := strings.CutSuffix(key, ".yaml")
		schemaName, isCUE := strings.CutSuffix(key, ".cue")
		switch {
		case isYAML:
			if _, ok := data[name+".cue"]; !ok {
				l.fail(PartParams, key, 0, "its schema %q is missing: add it", name+".cue")
				continue
			}
			l.loadParameterSet(name, data[key], data[name+".cue"])
		case isCUE:
			if _, ok := data[schemaName+".yaml"]; !ok {
				l.fail(PartParams, key, 0, "its parameter set %q is missing: add it", schemaName+".yaml")
			}
		default:
			l.fail(PartParams, key, 0, "the key is not known: this part has keys <set>.yaml and <set>.cue")
		}
	}
}

func (l *loader) loadParameterSet(name, text, constraints string) {
	key := name + ".yaml"
	doc := l.parse(PartParams, key, text)
	parameters := l.compileSchema(name+".cue", constraints)
	if doc == nil {
		return
	}
	file := &parameterFile{
		Parameters: parameters, file: key, document: doc, defaults: map[string]*placeholder.Template{},
	}
	leaf := func(path document.Path, text string, _ reflect.Kind) (bool, error) {
		if len(path) == 3 && path[0] == "rules" && path[2] == "rule" {
			return false, file.addRule(text)
		}
		if len(path) != 2 || path[0] != "defaults" {
			return false, placeholder.Refuse(text)
		}
		template, err := placeholder.Compile(text, placeholder.Defaults)
		if err != nil {
			return false, err
		}
		file.defaults[path[1]] = template
		return false, nil
	}
	var set schema.ParameterSet
	if !l.decode(PartParams, key, doc, "#ParameterSet", &set, leaf) || parameters == nil {
		return
	}
	for parameter, value := range set.Defaults {
		if file.defaults[parameter] == nil {
			// A whole number needs no expression.
			file.defaults[parameter], _ = placeholder.Compile(string(value), placeholder.Defaults)
		}
	}
	parameters.set = set
	l.checkParameterNames(file)
	l.parameters[name] = file
}

// addRule compiles the next rule.
func (f *parameterFile) addRule(text string) error {
	rule, err := placeholder.CompileExpression(text, placeholder.Rules)
	if err != nil {
		return err
	}
	if rule.Kind() != placeholder.Bool {
		return fmt.Errorf("it gives %s: a rule gives true or false", rule.Kind())
	}
	f.rules = append(f.rules, rule)
	return nil
}

// checkParameterNames checks the names that a set uses against its schema.
func (l *loader) checkParameterNames(file *parameterFile) {
	names := l.parameterNames(file)
	check := func(name string, path document.Path) {
		if !slices.Contains(names, name) {
			l.fail(PartParams, file.file, file.document.Line(path), "parameter %q is not in the schema%s", name,
				nearest(name, names))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(file.set.Defaults)) {
		check(name, document.Path{"defaults", name})
	}
	for i, name := range file.set.Lists {
		check(name, document.Path{"lists"}.Index(i))
	}
	for i, pattern := range file.set.Dynamic {
		if !slices.ContainsFunc(names, func(name string) bool { return schema.Matches(pattern, name) }) {
			l.fail(PartParams, file.file, file.document.Line(document.Path{"dynamic"}.Index(i)),
				"parameter %q is not in the schema%s", pattern, nearest(pattern, names))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(file.set.ResetValues)) {
		check(name, document.Path{"resetValues", name})
		l.checkInitial(file, name)
	}
	for i, rule := range file.rules {
		used, _ := rule.Parameters()
		for _, name := range used {
			check(name, document.Path{"rules"}.Index(i).With("rule"))
		}
	}
	for _, name := range names {
		if reason := file.reserved(name); reason != "" {
			l.fail(PartParams, file.file, file.document.Line(document.Path{"reserved", name}),
				"parameter %q is reserved and in the schema too: take it out of one", name)
		}
	}
}

// checkInitial: what a parameter goes back to is a value that it can have.
func (l *loader) checkInitial(file *parameterFile, name string) {
	line := file.document.Line(document.Path{"resetValues", name})
	if schema.MatchesAny(file.set.Dynamic, name) {
		l.fail(PartParams, file.file, line, "parameter %q is in \"dynamic\" too: take it out of one", name)
	}
	for _, version := range l.manifest.SupportedVersions {
		if _, known := file.byVersion[version][name]; !known {
			continue
		}
		if message := file.check(version, name, string(file.set.ResetValues[name])); message != "" {
			l.fail(PartParams, file.file, line, "the reset value is not allowed: %s", message)
			return
		}
	}
}

// compileSchema reads the CUE schema of a set. It returns nil when it is wrong.
func (l *loader) compileSchema(key, source string) *Parameters {
	ctx := cuecontext.New()
	root := ctx.CompileString(source, cue.Filename(key))
	if err := root.Validate(); err != nil {
		for _, one := range errors.Errors(err) {
			format, args := one.Msg()
			l.fail(PartParams, key, one.Position().Line(), "the schema is not valid CUE: %s", fmt.Sprintf(format, args...))
		}
		return nil
	}
	l.checkPatterns(key, source)
	parameters := &Parameters{plugin: l.manifest.Name, ctx: ctx, byVersion: map[string]map[string]parameter{},
		forms: map[string]lineform.Form{}}
	if !root.LookupPath(cue.MakePath(cue.Def(commonDefinition))).Exists() {
		l.fail(PartParams, key, 1, "the definition %s is missing: it lists the parameters of all versions", commonDefinition)
		return nil
	}
	l.checkDefinitions(key, root)
	for _, version := range l.manifest.SupportedVersions {
		constraints := map[string][]cue.Value{}
		l.collect(key, root, commonDefinition, constraints)
		l.collect(key, root, versionDefinition(version), constraints)
		fields := map[string]parameter{}
		for name, values := range constraints {
			fields[name] = newParameter(values...)
			if err := fields[name].constraint.Err(); err != nil {
				l.fail(PartParams, key, values[len(values)-1].Pos().Line(),
					"parameter %q can have no value in version %s: %s and %s exclude each other",
					name, version, commonDefinition, versionDefinition(version))
			}
		}
		parameters.byVersion[version] = fields
	}
	return parameters
}

// checkDefinitions refuses definitions for versions that the plugin does not support.
func (l *loader) checkDefinitions(key string, root cue.Value) {
	wanted := map[string]bool{commonDefinition: true}
	for _, version := range l.manifest.SupportedVersions {
		wanted[versionDefinition(version)] = true
	}
	fields, err := root.Fields(cue.Definitions(true))
	for err == nil && fields.Next() {
		name := fields.Selector().String()
		if strings.HasPrefix(name, commonDefinition) && !wanted[name] {
			l.fail(PartParams, key, fields.Value().Pos().Line(),
				"the definition %s is for no supported version: name it %s_<version>, with underscores for dots", name,
				commonDefinition)
		}
	}
}

// collect adds the constraints of one definition by parameter.
func (l *loader) collect(key string, root cue.Value, definition string, into map[string][]cue.Value) {
	value := root.LookupPath(cue.MakePath(cue.Def(definition)))
	if !value.Exists() {
		return
	}
	line := value.Pos().Line()
	if value.IncompleteKind() != cue.StructKind {
		l.fail(PartParams, key, line, "the definition %s is not a struct: it lists parameters as name?: constraint",
			definition)
		return
	}
	if value.LookupPath(cue.MakePath(cue.AnyString)).Exists() {
		l.fail(PartParams, key, line, "the definition %s has a pattern or \"...\": name each parameter", definition)
	}
	const scalars = cue.StringKind | cue.NumberKind | cue.BoolKind
	fields, err := value.Fields(cue.Optional(true))
	for err == nil && fields.Next() {
		name, field := fields.Selector().Unquoted(), fields.Value()
		if kinds := field.IncompleteKind(); kinds&^scalars != 0 || kinds == 0 {
			l.fail(PartParams, key, field.Pos().Line(),
				"parameter %q is not a string, a number or a bool: a value is one line of text", name)
			continue
		}
		if fields.FieldType()&cue.OptionalConstraint == 0 {
			l.fail(PartParams, key, field.Pos().Line(), "parameter %q is not optional: write %q", name, name+"?:")
		}
		into[name] = append(into[name], field)
	}
}
