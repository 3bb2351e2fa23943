// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/internal/plugin/resources"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
)

const (
	// maxPods is the largest number of pods of a component, in all of its sets.
	maxPods = 1000
	// maxOrdinal keeps every pod's name within 63 characters.
	maxOrdinal = 9999
)

// setSpec is one set with all that it leaves to its component filled in.
type setSpec struct {
	name     string
	replicas int32
	// minReplicas of the autoscaler; 0 for that of the component.
	minReplicas int32
	excluded    []int32
	resources   corev1.ResourceRequirements
	storage     *platformv1.Storage
	parameters  platformv1.Parameters
	scheduling  *platformv1.Scheduling
}

// resolve fills in what a set leaves to its component.
func resolve(spec *platformv1.ComponentSpec, set *platformv1.ComponentSet) setSpec {
	out := setSpec{
		name:       set.Name,
		replicas:   spec.ReplicasOf(set),
		excluded:   slices.Sorted(slices.Values(set.ExcludedOrdinals)),
		resources:  spec.Resources,
		storage:    spec.Storage.DeepCopy(),
		parameters: maps.Clone(spec.Parameters),
		scheduling: spec.Scheduling,
	}
	if set.MinReplicas != nil {
		out.minReplicas = *set.MinReplicas
	}
	if hasResources(set.Resources) {
		out.resources = set.Resources
	}
	if out.storage != nil && set.StorageSize != nil {
		out.storage.Size = set.StorageSize.DeepCopy()
	}
	if out.parameters == nil {
		out.parameters = platformv1.Parameters{}
	}
	maps.Copy(out.parameters, set.Parameters)
	if set.Scheduling != nil {
		out.scheduling = set.Scheduling
	}
	return out
}

func hasResources(r corev1.ResourceRequirements) bool {
	return len(r.Requests)+len(r.Limits)+len(r.Claims) > 0
}

// fillSets gives the component its sets: those that the user names, or as many as the plugin says.
func fillSets(b *plugin.Bundle, spec *platformv1.ComponentSpec, declared *schema.Component, allowed schema.Range,
	wanted []platformv1.ComponentSet) []*Refusal {
	names := setNames(declared)
	for i := range wanted {
		spec.Sets = append(spec.Sets, *wanted[i].DeepCopy())
	}
	if len(wanted) == 0 {
		for _, name := range names {
			spec.Sets = append(spec.Sets, platformv1.ComponentSet{Name: name})
		}
	}
	if r := checkSetNames(spec, declared); r != nil {
		return []*Refusal{r}
	}
	var refusals []*Refusal
	pods := int32(0)
	for i := range spec.Sets {
		set := &spec.Sets[i]
		set.Replicas = new(spec.ReplicasOf(set))
		if set.MinReplicas != nil {
			// What the autoscaler would make of it at once.
			set.Replicas = new(max(*set.Replicas, *set.MinReplicas))
		}
		pods += *set.Replicas
		refusals = append(refusals, checkSet(b, spec, set, declared, allowed)...)
	}
	if pods > maxPods {
		refusals = append(refusals, refuse(platformv1.ReasonInvalidSpec,
			"component %q has %d pods in all of its sets: at most %d are allowed", spec.Component, pods, maxPods))
	}
	return refusals
}

// setNames are the names of the sets that the user does not name.
func setNames(declared *schema.Component) []string {
	if onlySet(declared) {
		return []string{platformv1.DefaultSet}
	}
	var names []string
	for i := range int(declared.Sets.Default) {
		names = append(names, strconv.Itoa(i))
	}
	return names
}

// onlySet says whether the plugin allows exactly one set.
func onlySet(declared *schema.Component) bool { return declared.Sets == nil || declared.Sets.Max == 1 }

func checkSetNames(spec *platformv1.ComponentSpec, declared *schema.Component) *Refusal {
	seen := map[string]bool{}
	for _, set := range spec.Sets {
		if problems := validation.IsDNS1123Label(set.Name); len(problems) > 0 || len(set.Name) > platformv1.MaxSetName {
			return refuse(platformv1.ReasonInvalidSpec,
				"component %q has a set named %q: use 1 to %d small letters, digits and dashes", spec.Component, set.Name,
				platformv1.MaxSetName)
		}
		if seen[set.Name] {
			return refuse(platformv1.ReasonInvalidSpec, "component %q has two sets named %q: names must differ", spec.Component,
				set.Name)
		}
		seen[set.Name] = true
	}
	if onlySet(declared) {
		if len(spec.Sets) != 1 || spec.Sets[0].Name != platformv1.DefaultSet {
			return refuse(platformv1.ReasonInvalidSpec, "component %q has exactly one set, named %q: name no other",
				spec.Component, platformv1.DefaultSet)
		}
		return nil
	}
	if count := int32(len(spec.Sets)); !declared.Sets.Allows(count) {
		return refuse(platformv1.ReasonInvalidSpec, "component %q has %d sets: it takes %s", spec.Component, count,
			*declared.Sets)
	}
	return nil
}

func checkSet(b *plugin.Bundle, spec *platformv1.ComponentSpec, set *platformv1.ComponentSet,
	declared *schema.Component, allowed schema.Range) []*Refusal {
	where := fmt.Sprintf("set %q of component %q", set.Name, spec.Component)
	var refusals []*Refusal
	add := func(r *Refusal) {
		if r != nil {
			refusals = append(refusals, r)
		}
	}
	if !allowed.Allows(*set.Replicas) {
		add(refuse(platformv1.ReasonInvalidSpec, "%s has %d replicas: topology %q takes %s", where, *set.Replicas,
			spec.Topology, allowed))
	}
	for _, ordinal := range set.ExcludedOrdinals {
		if ordinal < 0 || ordinal > maxOrdinal {
			add(refuse(platformv1.ReasonInvalidSpec, "%s excludes ordinal %d: ordinals are 0 to %d", where, ordinal, maxOrdinal))
		}
	}
	add(checkResources(where, set.Resources))
	switch {
	case set.StorageSize == nil:
	case len(declared.Volumes) == 0:
		add(refuse(platformv1.ReasonInvalidSpec, "%s has storageSize set: it keeps no data on volumes, take it out", where))
	case set.StorageSize.Sign() <= 0:
		add(refuse(platformv1.ReasonInvalidSpec, "%s has storageSize %s: it must be greater than 0", where,
			set.StorageSize.String()))
	case resources.TooFewBytes(*set.StorageSize):
		add(refuse(platformv1.ReasonInvalidSpec, "%s has storageSize %s: %s",
			where, set.StorageSize.String(), resources.InBytes(*set.StorageSize)))
	}
	for _, r := range checkParameters(b, spec, set.Parameters) {
		add(refuse(r.Reason, "%s: %s", where, r.Message))
	}
	add(checkScheduling(where, set.Scheduling))
	return refusals
}
