// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"errors"
	"strings"

	"github.com/zeroinfra/platform-core/internal/plugin/placeholder"
)

// Agent defaults that rendering needs too.
const (
	// DefaultStopTimeoutSeconds is the time that a process has to stop when the plugin says none.
	DefaultStopTimeoutSeconds = 30
)

// sample is one set of values that a bundle is rendered with when it is loaded.
type sample struct {
	component *Component
	values    placeholder.Values
}

// samples are each component in each topology and version, with limits and without.
func (b *Bundle) samples() []sample {
	var all []sample
	for _, topology := range b.Components.Topologies {
		for _, tc := range topology.Components {
			component, _ := b.Component(tc.Name)
			for _, version := range b.Manifest.SupportedVersions {
				for _, memory := range []int64{0, 1 << 30} {
					all = append(all, sample{component: component, values: sampleValues(component, topology.Name, version, memory)})
				}
			}
		}
	}
	return all
}

func sampleValues(c *Component, topology, version string, memory int64) placeholder.Values {
	const application, namespace = "sample", "default"
	return placeholder.Values{
		App: placeholder.App{Name: application, Namespace: namespace, Version: version, Topology: topology},
		Component: placeholder.Component{
			Name: c.Name, Replicas: int64(c.Replicas.Default), MemoryLimit: memory, CPULimit: memory >> 20,
			Headless: HeadlessServiceName(application, c.Name) + "." + namespace + ".svc.cluster.local",
		},
		Set: placeholder.Set{Name: "main"},
	}
}

// checkRendering renders each sample, so that what would fail for a user fails here, and
// checks the pod templates that come out.
func (l *loader) checkRendering(b *Bundle) {
	for _, s := range b.samples() {
		params, err := b.ParametersInForce(s.component, s.values, nil)
		if err != nil {
			file := b.parameters[s.component.Parameters]
			l.fail(PartParams, file.file, file.document.Line([]string{"defaults"}), "for %s: %v", s, err)
			continue
		}
		s.values.Params = params
		if _, err := b.RenderPlan(s.component.Name, s.values); err != nil {
			l.renderingFailed(PartComponents, componentsKey, s, err)
		}
		template := b.templates[s.component.PodTemplate]
		rendered, err := b.RenderPodTemplate(s.component, s.values)
		if err != nil {
			l.renderingFailed(PartPodTemplates, template.key, s, err)
			continue
		}
		lint := podLint{loader: l, template: template, component: s.component}
		lint.check(&rendered)
	}
}

func (l *loader) renderingFailed(part Part, key string, s sample, err error) {
	line := 1
	var leaf *leafError
	if errors.As(err, &leaf) {
		doc := l.components.document
		if part == PartPodTemplates {
			doc = l.templates[s.component.PodTemplate].document
		}
		line = doc.Line(leaf.path)
	}
	l.fail(part, key, line, "for %s: %s", s, strings.TrimSpace(err.Error()))
}

func (s sample) String() string {
	text := "version " + s.values.App.Version + " and topology " + s.values.App.Topology
	if s.values.Component.MemoryLimit == 0 {
		return text + " without limits"
	}
	return text
}
