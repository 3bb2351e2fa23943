// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/zeroinfra/platform-core/agentproto/configfile"
	"github.com/zeroinfra/platform-core/agentproto/plan"
	"github.com/zeroinfra/platform-core/agentproto/podtext"
	"github.com/zeroinfra/platform-core/internal/plugin/document"
	"github.com/zeroinfra/platform-core/internal/plugin/placeholder"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
)

// RenderPlan fills in the placeholders of a component's process, files, probe and actions, appends the
// parameters to the files that take them, and replaces references to user names, which
// are no secrets, by their text. The digests and the domain are left to the caller. In the texts that the
// agents expand, what the plugin's own placeholders of the pod do not say is escaped.
func (b *Bundle) RenderPlan(component string, v placeholder.Values) (plan.Plan, error) {
	index := slices.IndexFunc(b.Components.Components, func(c schema.Component) bool { return c.Name == component })
	if index < 0 {
		return plan.Plan{}, fmt.Errorf("cannot render the plan of component %q: plugin %q has no such component", component,
			b.Manifest.Name)
	}
	var rendered struct {
		Process plan.Process  `json:"process"`
		Files   []schema.File `json:"files"`
		Probe   schema.Probe  `json:"probe"`
		TLS     *schema.TLS   `json:"tls"`
		Actions []plan.Action `json:"actions"`
	}
	values := map[string]any{}
	for _, key := range []string{"process", "files", "probe", "tls", "actions"} {
		path := componentPath(index, key)
		if b.plans.at(path) == nil || key == "tls" && !v.App.TLS {
			continue
		}
		value, err := b.plans.evaluate(path, func(path document.Path, t *placeholder.Template) (any, error) {
			if perPod(path) {
				return partial(t, v)
			}
			return t.Eval(v)
		})
		if err != nil {
			return plan.Plan{}, err
		}
		values[key] = value
	}
	if err := document.DecodeValue(values, &rendered); err != nil {
		return plan.Plan{}, fmt.Errorf("cannot render the plan of component %q: %w", component, err)
	}
	probe, err := plannedProbe(&rendered.Probe, &b.Components.Components[index], v.App.TLS)
	if err != nil {
		return plan.Plan{}, &leafError{path: componentPath(index, "probe"), err: err}
	}
	p := plan.Plan{Version: 1, Process: rendered.Process, Probe: probe}
	if reload := p.Process.Reload; reload != nil && len(reload.Each) > 0 {
		reload.ResetValues = b.resetValues(&b.Components.Components[index], v.App.Version)
	}
	for _, action := range rendered.Actions {
		if slices.ContainsFunc(b.Components.Components[index].Actions,
			func(a plan.Action) bool { return a.Name == action.Name }) {
			p.Actions = append(p.Actions, action)
		}
	}
	if rendered.TLS != nil {
		p.TLS = &rendered.TLS.TLS
	}
	for i, file := range rendered.Files {
		whole, err := b.withParameters(&b.Components.Components[index], file, v)
		if err != nil {
			return plan.Plan{}, &leafError{path: componentPath(index, "files").Index(i),
				err: fmt.Errorf("cannot write file %q: %w", file.Path, err)}
		}
		p.Files = append(p.Files, whole)
	}
	b.planEntities(&p, &b.Components.Components[index], v)
	if c := &b.Components.Components[index]; v.Component.Monitoring && len(c.Monitoring.Queries) > 0 {
		b.planMetrics(&p, c)
	}
	b.resolveUsernames(&p)
	for i, file := range p.Files {
		if err := checkFile(file); err != nil {
			return plan.Plan{}, &leafError{path: componentPath(index, "files").Index(i),
				err: fmt.Errorf("cannot write file %q: %w", file.Path, err)}
		}
	}
	return p, nil
}

// checkFile has the encoder that the agent uses write a file, so that what a format
// cannot hold is refused here and not in the pod.
func checkFile(file plan.File) error {
	lookup := func(plan.SecretRef) (string, error) { return "password", nil }
	pod := podtext.Sample()
	entries := slices.Clone(file.Entries)
	for i := range entries {
		entries[i].Args = slices.Clone(entries[i].Args)
		for j, arg := range entries[i].Args {
			text, err := podtext.Expand(arg, pod)
			if err != nil {
				return err
			}
			entries[i].Args[j] = text
		}
	}
	_, err := configfile.Encode(file.Format, entries, lookup)
	return err
}

// withParameters is the file with the parameters that it takes in, at their place.
func (b *Bundle) withParameters(component *schema.Component, file schema.File,
	v placeholder.Values) (plan.File, error) {
	parameters := b.Parameters(component)
	if file.Parameters.None() || parameters == nil {
		return file.File, nil
	}
	at, err := placeOf(&file)
	if err != nil {
		return plan.File{}, err
	}
	var taken []plan.Entry
	for _, name := range slices.Sorted(maps.Keys(v.Params)) {
		if !file.Parameters.Takes(name) {
			continue
		}
		words, err := wordsOf(&file, parameters, name, v.Params[name])
		if err != nil {
			return plan.File{}, err
		}
		entry := plan.Entry{Key: name, Dynamic: parameters.Dynamic(name)}
		for _, word := range words {
			entry.Args = append(entry.Args, podtext.Escape(word))
		}
		taken = append(taken, entry)
	}
	file.Entries = slices.Insert(file.Entries, at, taken...)
	return file.File, nil
}

// placeOf is where in the entries that are there the parameters come.
func placeOf(f *schema.File) (int, error) {
	if f.Parameters.After == "" {
		return len(f.Entries), nil
	}
	for i := len(f.Entries) - 1; i >= 0; i-- {
		if f.Entries[i].Key == f.Parameters.After {
			return i + 1, nil
		}
	}
	return 0, fmt.Errorf("the parameters come after the entry %q, which is left out: have one with that key whatever "+
		"its \"when\" gives", f.Parameters.After)
}

// wordsOf are the values of the entry that a parameter becomes.
func wordsOf(f *schema.File, parameters *Parameters, name, value string) ([]string, error) {
	if f.Parameters.Form == "" {
		return parameters.words(name, value), nil
	}
	line, err := f.Parameters.Form.Line(value)
	if err != nil {
		return nil, fmt.Errorf("parameter %q %w", name, err)
	}
	return []string{line}, nil
}

// environments are those of all that a plan runs.
func environments(p *plan.Plan) [][]plan.EnvVar {
	lists := [][]plan.EnvVar{p.Process.Env, p.Probe.Env}
	if p.Process.Reload != nil {
		lists = append(lists, p.Process.Reload.Env)
	}
	for _, hook := range p.Process.Hooks.At() {
		lists = append(lists, hook.Env)
	}
	if p.TLS != nil && p.TLS.Reload != nil {
		lists = append(lists, p.TLS.Reload.Env)
	}
	for _, action := range p.Actions {
		lists = append(lists, action.Env)
	}
	return lists
}

// resolveUsernames replaces references to a credential's user name.
func (b *Bundle) resolveUsernames(p *plan.Plan) {
	for _, list := range environments(p) {
		for i := range list {
			if name, ok := b.username(list[i].Secret); ok {
				list[i].Value, list[i].Secret = podtext.Escape(name), nil
			}
		}
	}
	for _, file := range p.Files {
		for i := range file.Entries {
			if name, ok := b.username(file.Entries[i].Secret); ok {
				file.Entries[i].Args, file.Entries[i].Secret = append(file.Entries[i].Args, podtext.Escape(name)), nil
			}
		}
	}
}

// username returns what a reference to a credential's user name stands for.
func (b *Bundle) username(ref *plan.SecretRef) (string, bool) {
	if ref == nil || ref.Key != SecretKeyUsername {
		return "", false
	}
	credential, ok := b.Credential(ref.Credential)
	return credential.Username, ok
}

// Keys of a credential's Secret.
const (
	SecretKeyUsername = "username"
	SecretKeyPassword = "password"
	// SecretKeyAlso is what processes accept as well where pods log in at each other: the password itself while none takes
	// the place of another.
	SecretKeyAlso = "also"
)

// RenderPodTemplate fills in the placeholders of a component's pod template, but those that
// use pod. Texts come out escaped, for placeholder.ExpandPod.
func (b *Bundle) RenderPodTemplate(component *schema.Component, v placeholder.Values) (corev1.PodTemplateSpec, error) {
	var rendered corev1.PodTemplateSpec
	template, ok := b.templates[component.PodTemplate]
	if !ok {
		return rendered, fmt.Errorf("cannot render component %q: there is no pod template %q", component.Name,
			component.PodTemplate)
	}
	value, err := template.evaluate(nil,
		func(_ document.Path, t *placeholder.Template) (any, error) { return t.Partial(v) })
	if err != nil {
		return rendered, err
	}
	if err := document.DecodeValue(value, &rendered); err != nil {
		return rendered, fmt.Errorf("cannot render pod template %q: %w", component.PodTemplate, err)
	}
	return rendered, nil
}

// UsesPodFQDN says whether a component's pod template needs the DNS name of its pods.
func (b *Bundle) UsesPodFQDN(component *schema.Component) bool {
	template, ok := b.templates[component.PodTemplate]
	return ok && template.usesFQDN
}

// UsesPodZone says whether the plan of a component needs the zone of a pod's node.
func (b *Bundle) UsesPodZone(component string) bool {
	index := slices.IndexFunc(b.Components.Components, func(c schema.Component) bool { return c.Name == component })
	return slices.ContainsFunc(b.plans.below(componentPath(index)), func(t leafTemplate) bool { return t.UsesZone() })
}
