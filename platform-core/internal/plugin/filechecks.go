// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"fmt"
	"maps"
	"slices"

	"github.com/zeroinfra/platform-core/agentproto/plan"
	"github.com/zeroinfra/platform-core/internal/plugin/document"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
)

func (l *loader) checkFiles(path document.Path, c *schema.Component) {
	for i, f := range c.Files {
		at := path.Index(i)
		l.checkFileParameters(at.With("parameters"), c, f.Parameters)
		l.checkPlace(at.With("parameters"), &f)
		for j, entry := range f.Entries {
			l.checkEntry(at.With("entries").Index(j), c, &f, entry)
		}
		switch isText, hasForm := f.Format == plan.FormatText, f.Parameters.Form != ""; {
		case isText && !hasForm && !f.Parameters.None():
			l.wrong(at.With("parameters"), "is not allowed in a file of format text, which would not escape them: say in "+
				"which form they are lines of it, or give them a file of their own")
		case !isText && hasForm:
			l.wrong(at.With("parameters").With("form"), "is for a file of format text: %s escapes values itself", f.Format)
		case hasForm:
			l.formed(c, &f.Parameters)
		}
	}
	l.checkWritten(path, c)
}

// checkPlace: parameters come after an entry that is there.
func (l *loader) checkPlace(at document.Path, f *schema.File) {
	after := f.Parameters.After
	if after != "" && !slices.ContainsFunc(f.Entries, func(e plan.Entry) bool { return e.Key == after }) {
		l.wrong(at.With("after"), "is %q, and no entry of the file has that key%s", after,
			nearest(after, names(f.Entries, func(e plan.Entry) string { return e.Key })))
	}
}

// formed has parameters refused whose values are no lines of the form that their file asks for.
func (l *loader) formed(c *schema.Component, taken *schema.FileParameters) {
	set := l.parameters[c.Parameters]
	if set == nil {
		return
	}
	for _, name := range l.parameterNames(set) {
		if taken.Takes(name) {
			set.forms[name] = taken.Form
		}
	}
}

func (l *loader) checkEntry(at document.Path, c *schema.Component, f *schema.File, entry plan.Entry) {
	l.checkSecret(at.With("secret"), c, entry.Secret)
	if entry.Dynamic && c.Process.Reload == nil {
		l.wrong(at.With("dynamic"), "says that a reload takes over a change of the entry, and the process has none: add "+
			"process.reload")
	}
	if f.Format == plan.FormatText {
		l.checkText(at, entry)
	}
	file := l.parameters[c.Parameters]
	if file == nil || !f.Parameters.Takes(entry.Key) {
		return
	}
	if slices.ContainsFunc(l.manifest.SupportedVersions, func(v string) bool { return file.Allowed(v, entry.Key) != "" }) {
		l.wrong(at.With("key"), "is %q, which users may set too: take it out of the schema and reserve it", entry.Key)
	}
}

// checkText: nothing is escaped in a file of format text, and so nothing that a user can choose may get into it.
func (l *loader) checkText(at document.Path, entry plan.Entry) {
	const reason = "is not allowed in a file of format text, which would not escape it"
	if entry.Secret != nil {
		l.wrong(at.With("secret"), reason)
	}
	for k := range entry.Args {
		path := at.With("args").Index(k)
		if template, ok := l.components.tree.templates[path.Key()]; ok && !template.Fixed() {
			l.wrong(path, "has a placeholder that is not of the pod: it "+reason)
		}
	}
}

// checkFileParameters checks the names that a file selects.
func (l *loader) checkFileParameters(path document.Path, c *schema.Component, selected schema.FileParameters) {
	if selected.None() {
		return
	}
	if c.Parameters == "" {
		l.wrong(path, "selects parameters, and the component has none: name its parameter set")
		return
	}
	field, patterns := patternsOf(selected)
	for i, pattern := range patterns {
		if pattern == "*" {
			continue
		}
		l.checkKnown(path.With(field).Index(i), c, "is", pattern,
			func(name string) bool { return schema.Matches(pattern, name) })
	}
}

// checkNamed: values are of parameters that the component has.
func (l *loader) checkNamed(path document.Path, c *schema.Component, values map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		l.checkKnown(path.With(name), c, "is of", name, func(known string) bool { return known == name })
	}
}

// checkKnown: a word is for some parameter that the component has. A set of parameters that could not be read is told
// of elsewhere.
func (l *loader) checkKnown(path document.Path, c *schema.Component, verb, word string, fits func(name string) bool) {
	file := l.parameters[c.Parameters]
	if c.Parameters != "" && file == nil {
		return
	}
	var known []string
	if file != nil {
		known = l.parameterNames(file)
	}
	if !slices.ContainsFunc(known, fits) {
		l.wrong(path, "%s %q: no parameter of the schema is called so%s", verb, word, nearest(word, known))
	}
}

// checkWritten: each parameter goes to one file, or a placeholder looks at it. One that changes nothing would be set in
// vain.
func (l *loader) checkWritten(path document.Path, c *schema.Component) {
	set := l.parameters[c.Parameters]
	if set == nil {
		return
	}
	used, all := l.usedByPlaceholders(c)
	for _, name := range slices.Concat(failoverParameters(c.Failover), l.bound(c)) {
		used[name] = true
	}
	for _, name := range l.parameterNames(set) {
		var files []int
		for i, f := range c.Files {
			if f.Parameters.Takes(name) {
				files = append(files, i)
			}
		}
		switch {
		case len(files) > 1:
			l.wrong(path.Index(files[1]).With("parameters"),
				"takes in %q, which %s takes in already: a parameter goes to one file", name, path.Index(files[0]))
			return
		case len(files) == 0 && set.Dynamic(name):
			l.wrong(path, "take in no parameter %q, which is dynamic: a reload takes over what is in files", name)
			return
		case len(files) == 0 && !all && !used[name]:
			l.wrong(path, "take in no parameter %q, and no placeholder uses it: setting it would change nothing; "+
				"have a file take it in, use ${params['%s']}, or take it out of %s.cue", name, name, c.Parameters)
		}
	}
}

// bound are the parameters of a component that clients are told.
func (l *loader) bound(c *schema.Component) (names []string) {
	bindings := []*schema.Binding{l.components.Binding}
	for _, t := range l.components.Topologies {
		bindings = append(bindings, t.Binding)
	}
	for _, b := range bindings {
		if b != nil && b.External != nil && b.Component == c.Name {
			names = append(names, b.External.Endpoint)
		}
	}
	return names
}

// usedByPlaceholders lists the parameters that the placeholders of a component look at, in its plan and its pod
// template.
func (l *loader) usedByPlaceholders(c *schema.Component) (names map[string]bool, all bool) {
	names = map[string]bool{}
	add := func(template leafTemplate) {
		list, exact := template.Parameters()
		for _, name := range list {
			names[name] = true
		}
		all = all || !exact
	}
	index := slices.IndexFunc(l.components.Components.Components,
		func(other schema.Component) bool { return other.Name == c.Name })
	for _, template := range l.components.tree.templates {
		if template.path.Below(componentPath(index)) {
			add(template)
		}
	}
	if pod := l.templates[c.PodTemplate]; pod != nil {
		for _, template := range pod.templates {
			add(template)
		}
	}
	return names, all
}

// parameterNames lists what any supported version knows, in order.
func (l *loader) parameterNames(file *parameterFile) []string {
	known := map[string]bool{}
	for _, version := range l.manifest.SupportedVersions {
		for _, name := range file.Names(version) {
			known[name] = true
		}
	}
	return slices.Sorted(maps.Keys(known))
}

// nearest ends a sentence about an unknown name.
func nearest(name string, known []string) string {
	if found := document.Nearest(name, known); found != "" {
		return fmt.Sprintf(": did you mean %q?", found)
	}
	return ""
}

// hasDynamic says whether a reload can take over any parameter of a component.
func (l *loader) hasDynamic(c *schema.Component) bool {
	file := l.parameters[c.Parameters]
	return file == nil && c.Parameters != "" || file != nil && file.HasDynamic()
}

// checkDynamic: what is dynamic needs a reload, and nothing else that a change of it would restart.
func (l *loader) checkDynamic() {
	for i := range l.components.Components.Components {
		c := &l.components.Components.Components[i]
		file := l.parameters[c.Parameters]
		if file == nil || !file.HasDynamic() {
			continue
		}
		if c.Process.Reload == nil {
			l.wrong(componentPath(i, "process"),
				"has no reload, and parameter set %q names dynamic parameters: add process.reload", c.Parameters)
		}
		if c.Process.Reload != nil && len(c.Process.Reload.Each) == 0 && len(file.set.ResetValues) > 0 {
			l.wrong(componentPath(i, "process", "reload"),
				"takes over all that is in files, and parameter set %q says what is initial: that is for \"each\", take it out",
				c.Parameters)
		}
		l.checkDynamicPlaceholders(i, file)
	}
}

// checkDynamicPlaceholders: what a placeholder makes of a dynamic parameter is in an entry that is dynamic itself, or a
// change of it would restart the process.
func (l *loader) checkDynamicPlaceholders(component int, file *parameterFile) {
	templates := l.components.tree.templates
	for _, key := range slices.Sorted(maps.Keys(templates)) {
		path := templates[key].path
		// A change of the probe restarts nothing.
		if !path.Below(componentPath(component)) || path.Below(componentPath(component, "probe")) ||
			l.inDynamicEntry(component, path) {
			continue
		}
		names, _ := templates[key].Parameters()
		for _, name := range names {
			if file.Dynamic(name) {
				l.wrong(path, "uses the dynamic parameter %q: a change of it would restart the process, take it out of "+
					"\"dynamic\" or have the entry say dynamic: true", name)
			}
		}
	}
}

// inDynamicEntry says whether a path leads into an entry of a file that a reload takes over.
func (l *loader) inDynamicEntry(component int, path document.Path) bool {
	for i, file := range l.components.Components.Components[component].Files {
		for j, entry := range file.Entries {
			if entry.Dynamic && path.Below(componentPath(component, "files").Index(i).With("entries").Index(j)) {
				return true
			}
		}
	}
	return false
}
