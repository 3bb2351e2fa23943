// SPDX-License-Identifier: Apache-2.0

package render

import (
	"bytes"
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/internal/plugin/placeholder"
)

// Component renders the sets and Services of one component.
func Component(b *plugin.Bundle, s Settings, owner Meta, spec *platformv1.ComponentSpec) (*ComponentOutput, *Refusal) {
	declared, ok := b.Component(spec.Component)
	if !ok {
		return nil, refuse(platformv1.ReasonComponentNotFound, "plugin %q has no component %q", b.Manifest.Name, spec.Component)
	}
	if r := checkVersion(b, spec.Version); r != nil {
		return nil, r
	}
	if r := checkParameters(b, spec); r != nil {
		return nil, r
	}
	if s.ClusterDomain == "" {
		s.ClusterDomain = DefaultClusterDomain
	}
	c := &context{
		bundle: b, settings: s, owner: owner, spec: spec, declared: declared,
		set:  platformv1.DefaultSet,
		name: platformv1.WorkloadSetNameFor(owner.Application, spec.Component, platformv1.DefaultSet),
	}
	set, r := c.workloadSet()
	if r != nil {
		return nil, r
	}
	services, endpoints := c.services()
	return &ComponentOutput{
		WorkloadSets: []WorkloadSetOutput{{Name: c.name, Spec: *set}},
		Services:     services,
		Endpoints:    endpoints,
	}, nil
}

// context is what the rendering of one set works with.
type context struct {
	bundle   *plugin.Bundle
	settings Settings
	owner    Meta
	spec     *platformv1.ComponentSpec
	declared *plugin.Component
	// set is the name of the set within the component, name that of its WorkloadSet.
	set, name string
}

func (c *context) values() placeholder.Values {
	v := placeholder.Values{
		App: placeholder.App{
			Name: c.owner.Application, Namespace: c.owner.Namespace, Version: c.spec.Version, Topology: c.spec.Topology,
		},
		Component: placeholder.Component{Name: c.spec.Component, Replicas: int64(c.spec.Replicas), Headless: c.headlessDomain()},
		Set:       placeholder.Set{Name: c.set},
	}
	if limit, ok := c.spec.Resources.Limits[corev1.ResourceMemory]; ok {
		v.Component.MemoryLimit = limit.Value()
	}
	if limit, ok := c.spec.Resources.Limits[corev1.ResourceCPU]; ok {
		v.Component.CPULimit = limit.MilliValue()
	}
	return v
}

// headlessDomain is the DNS name below which each pod has its own.
func (c *context) headlessDomain() string {
	return plugin.HeadlessServiceName(c.owner.Application, c.spec.Component) + "." + c.owner.Namespace + ".svc." + c.settings.ClusterDomain
}

func (c *context) workloadSet() (*platformv1.WorkloadSetSpec, *Refusal) {
	values := c.values()
	params, err := c.bundle.ParametersInForce(c.declared, values, c.spec.Parameters)
	if err != nil {
		return nil, refuse(platformv1.ReasonInvalidParameters, "component %q: %v", c.spec.Component, err)
	}
	values.Params = params
	p, err := c.bundle.RenderPlan(c.spec.Component, values)
	if err != nil {
		return nil, refuse(platformv1.ReasonInvalidSpec, "component %q cannot be rendered: %v", c.spec.Component, err)
	}
	p.Digest = planDigest(&p)
	template, err := c.bundle.RenderPodTemplate(c.declared, values)
	if err != nil {
		return nil, refuse(platformv1.ReasonInvalidSpec, "component %q cannot be rendered: %v", c.spec.Component, err)
	}
	if r := c.inject(&template, &p); r != nil {
		return nil, r
	}
	set := &platformv1.WorkloadSetSpec{
		Application:    c.owner.Application,
		Component:      c.spec.Component,
		Set:            c.set,
		Plugin:         c.spec.Plugin,
		Version:        c.spec.Version,
		Replicas:       c.spec.Replicas,
		DeletionPolicy: c.spec.DeletionPolicy,
	}
	for _, v := range c.declared.Volumes {
		storage := platformv1.Storage{Size: v.Size.DeepCopy()}
		if c.spec.Storage != nil {
			storage = *c.spec.Storage.DeepCopy()
		}
		set.Volumes = append(set.Volumes, platformv1.SetVolume{Name: v.Name, Storage: storage})
	}
	for _, role := range c.declared.Roles {
		set.Roles = append(set.Roles, platformv1.SetRole{Name: role.Name, Access: role.Access})
	}
	for target, value := range map[*runtime.RawExtension]any{&set.Template: template, &set.Plan: p} {
		if target.Raw, err = canonical(value); err != nil {
			return nil, refuse(platformv1.ReasonInvalidSpec, "component %q cannot be rendered: %v", c.spec.Component, err)
		}
	}
	return set, nil
}

// canonical is JSON with all keys in order, however the value holds them.
func canonical(value any) ([]byte, error) {
	data, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	return canonicalJSON(data)
}

// canonicalJSON puts the keys of JSON in order. An API server does not keep their order either.
func canonicalJSON(data []byte) ([]byte, error) {
	tree, err := decodeTree(data)
	if err != nil {
		return nil, err
	}
	return marshal(tree)
}

// marshal writes JSON as people read it: <, > and & stay themselves.
func marshal(value any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}
