// SPDX-License-Identifier: Apache-2.0

package component

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/render"
)

// podServices are the Services in front of one pod each, by name.
func (f *facts) podServices() []*corev1.Service {
	var services []*corev1.Service
	for _, name := range slices.Sorted(maps.Keys(f.services)) {
		if _, ofPod := f.services[name].Labels[platformv1.OrdinalLabel]; ofPod {
			services = append(services, f.services[name])
		}
	}
	return services
}

// stillLead are the Services of pods that are not wanted any more and have yet to go: clients reach a pod until it
// ends.
func (f *facts) stillLead(output *render.ComponentOutput) []*corev1.Service {
	if output.External == nil {
		return nil
	}
	return slices.DeleteFunc(f.podServices(), func(s *corev1.Service) bool { return !f.runs(s.Name) })
}

// runs says whether a pod is among those that the sets report.
func (f *facts) runs(pod string) bool {
	for _, set := range f.sets {
		if slices.ContainsFunc(set.Status.Pods, func(p platformv1.PodState) bool { return p.Name == pod }) {
			return true
		}
	}
	return false
}

// awaitsAddress names a pod that runs, and whose process could not take over the plan of its set, since it has no
// address for clients outside of the cluster yet: the set is left as it is until it has. Empty for none. A pod that is
// not there yet holds up itself alone.
func (f *facts) awaitsAddress(set string, output *render.ComponentOutput) string {
	i := slices.IndexFunc(output.WorkloadSets, func(s render.WorkloadSetOutput) bool { return s.Name == set })
	if i < 0 || !output.WorkloadSets[i].Spec.IsRunning() {
		return ""
	}
	unaddressed := output.WorkloadSets[i].Unaddressed
	if j := slices.IndexFunc(unaddressed, f.runs); j >= 0 {
		return unaddressed[j]
	}
	return ""
}
