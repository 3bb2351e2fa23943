// SPDX-License-Identifier: Apache-2.0

package application

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/internal/render"
)

// needsWork says whether what is wanted asks for other pods, processes or volumes than there are. Both are rendered, by
// the same engine and with the same settings, so that only what the spec says can make a difference.
func needsWork(app *platformv1.Application, f *facts, wanted []platformv1.ComponentSpec) bool {
	for name := range f.components {
		if !hasComponent(wanted, name) {
			return true
		}
	}
	for i := range wanted {
		live := f.components[wanted[i].Component]
		if live == nil {
			return true
		}
		was, is := live.Spec.DeepCopy(), wanted[i].DeepCopy()
		was.Running, is.Running = new(runs(f)), new(app.Spec.IsRunning())
		withoutRevisions(was)
		withoutRevisions(is)
		if equality.Semantic.DeepEqual(was, is) {
			continue
		}
		before, after := demandsOf(app, f.state.Bundle, was), demandsOf(app, f.state.Bundle, is)
		if before == nil || after == nil || !equality.Semantic.DeepEqual(before, after) {
			return true
		}
	}
	return false
}

// withoutRevisions leaves out which passwords are in force: that is no part of the Application's spec.
func withoutRevisions(spec *platformv1.ComponentSpec) {
	for i := range spec.Credentials {
		spec.Credentials[i].Revision, spec.Credentials[i].Also = "", false
	}
}

func hasComponent(specs []platformv1.ComponentSpec, name string) bool {
	return slices.ContainsFunc(specs, func(spec platformv1.ComponentSpec) bool { return spec.Component == name })
}

// demand is what a set asks for that takes work on pods or volumes.
type demand struct {
	Running  *bool
	Replicas int32
	Excluded []int32
	// Revision, Template and Digest change with the pods, their images and resources, and the process and its files.
	Revision, Template, Digest string
	Volumes                    []platformv1.SetVolume
}

// anyAgent stands for the operator's agent image, which no pod is replaced for.
const anyAgent = "agent"

// demandsOf are those of the sets of a component, by name; nil for one that cannot be rendered.
func demandsOf(app *platformv1.Application, bundle *plugin.Bundle, spec *platformv1.ComponentSpec) map[string]demand {
	output, refusal := render.Component(bundle, render.Settings{AgentImage: anyAgent}, render.Meta{
		Application: app.Name, Namespace: app.Namespace, UID: app.UID, Domain: app.Labels[platformv1.DomainLabel],
	}, spec)
	if refusal != nil {
		return nil
	}
	demands := map[string]demand{}
	for i := range output.WorkloadSets {
		set := &output.WorkloadSets[i].Spec
		if !set.IsRunning() {
			// There are no pods that anything could be done to.
			demands[set.Set] = demand{Running: set.Running, Volumes: set.Volumes}
			continue
		}
		p, err := render.Plan(&platformv1.WorkloadSet{Spec: *set})
		if err != nil {
			return nil
		}
		of := demand{Running: set.Running, Replicas: set.Replicas, Excluded: set.ExcludedOrdinals, Revision: set.Revision,
			Template: string(set.Template.Raw), Digest: p.Digest, Volumes: set.Volumes}
		if set.Scaling == platformv1.SetScalingAuto {
			// An autoscaler decides it, and what it did is not in the spec.
			of.Replicas = 0
		}
		demands[set.Set] = of
	}
	return demands
}
