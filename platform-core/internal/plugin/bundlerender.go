// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/zeroinfra/platform-core/agentproto/configfile"
	"github.com/zeroinfra/platform-core/agentproto/plan"
	"github.com/zeroinfra/platform-core/internal/plugin/document"
	"github.com/zeroinfra/platform-core/internal/plugin/placeholder"
)

// RenderPlan fills in the placeholders of a component's process, files and probe, appends the
// parameters to the files that take them, and replaces references to user names, which
// are no secrets, by their text. The digest is left to the caller.
func (b *Bundle) RenderPlan(component string, v placeholder.Values) (plan.Plan, error) {
	index := slices.IndexFunc(b.Components.Components, func(c Component) bool { return c.Name == component })
	if index < 0 {
		return plan.Plan{}, fmt.Errorf("cannot render the plan of component %q: plugin %q has no such component", component, b.Manifest.Name)
	}
	var rendered struct {
		Process plan.Process `json:"process"`
		Files   []File       `json:"files"`
		Probe   plan.Probe   `json:"probe"`
	}
	values := map[string]any{}
	for _, key := range []string{"process", "files", "probe"} {
		path := componentPath(index, key)
		if b.plans.at(path) == nil {
			continue
		}
		value, err := b.plans.evaluate(path, func(t *placeholder.Template) (any, error) { return t.Eval(v) })
		if err != nil {
			return plan.Plan{}, err
		}
		values[key] = value
	}
	if err := document.DecodeValue(values, &rendered); err != nil {
		return plan.Plan{}, fmt.Errorf("cannot render the plan of component %q: %w", component, err)
	}
	p := plan.Plan{Version: 1, Process: rendered.Process, Probe: rendered.Probe}
	for _, file := range rendered.Files {
		p.Files = append(p.Files, b.withParameters(&b.Components.Components[index], file, v))
	}
	b.resolveUsernames(&p)
	return p, checkFiles(p.Files)
}

// checkFiles has the encoders that the agent uses write each file, so that what a format
// cannot hold is refused here and not in the pod.
func checkFiles(files []plan.File) error {
	for _, file := range files {
		lookup := func(plan.SecretRef) (string, error) { return "password", nil }
		if _, err := configfile.Encode(file.Format, file.Entries, lookup); err != nil {
			return fmt.Errorf("cannot write file %q: %w", file.Path, err)
		}
	}
	return nil
}

func (b *Bundle) withParameters(component *Component, file File, v placeholder.Values) plan.File {
	parameters := b.Parameters(component)
	if file.Parameters == FileParametersAll && parameters != nil {
		for _, name := range slices.Sorted(maps.Keys(v.Params)) {
			file.Entries = append(file.Entries, plan.Entry{Key: name, Args: parameters.words(name, v.Params[name])})
		}
	}
	return file.File
}

// resolveUsernames replaces references to a credential's user name.
func (b *Bundle) resolveUsernames(p *plan.Plan) {
	username := func(ref *plan.SecretRef) (string, bool) {
		if ref == nil || ref.Key != SecretKeyUsername {
			return "", false
		}
		credential, ok := b.Credential(ref.Credential)
		return credential.Username, ok
	}
	lists := [][]plan.EnvVar{p.Process.Env, p.Probe.Env}
	if p.Process.Reload != nil {
		lists = append(lists, p.Process.Reload.Env)
	}
	for _, list := range lists {
		for i := range list {
			if name, ok := username(list[i].Secret); ok {
				list[i].Value, list[i].Secret = name, nil
			}
		}
	}
	for _, file := range p.Files {
		for i := range file.Entries {
			if name, ok := username(file.Entries[i].Secret); ok {
				file.Entries[i].Args, file.Entries[i].Secret = append(file.Entries[i].Args, name), nil
			}
		}
	}
}

// Keys of a credential's Secret.
const (
	SecretKeyUsername = "username"
	SecretKeyPassword = "password"
)

// RenderPodTemplate fills in the placeholders of a component's pod template, but those that
// use pod. Texts come out escaped, for placeholder.ExpandPod.
func (b *Bundle) RenderPodTemplate(component *Component, v placeholder.Values) (corev1.PodTemplateSpec, error) {
	var rendered corev1.PodTemplateSpec
	template, ok := b.templates[component.PodTemplate]
	if !ok {
		return rendered, fmt.Errorf("cannot render component %q: there is no pod template %q", component.Name, component.PodTemplate)
	}
	value, err := template.evaluate(nil, func(t *placeholder.Template) (any, error) { return t.Partial(v) })
	if err != nil {
		return rendered, err
	}
	if err := document.DecodeValue(value, &rendered); err != nil {
		return rendered, fmt.Errorf("cannot render pod template %q: %w", component.PodTemplate, err)
	}
	return rendered, nil
}

// UsesPodFQDN says whether a component's pod template needs the DNS name of its pods.
func (b *Bundle) UsesPodFQDN(component *Component) bool {
	template, ok := b.templates[component.PodTemplate]
	return ok && template.usesFQDN
}
