// SPDX-License-Identifier: Apache-2.0

package component

import (
	"bytes"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/render"
)

// awaits says whether a set whose processes restart together is left as it is for now: another set is new to it, and
// has yet to run. Processes that are told of a set wait for its pods, and those may find no node: what serves goes on
// until they have.
func (f *facts) awaits(wanted *platformv1.WorkloadSet, output *render.ComponentOutput) bool {
	existing, there := f.sets[wanted.Name]
	if !there || wanted.Spec.RestartStrategy != platformv1.RestartAllAtOnce || !wanted.Spec.IsRunning() ||
		existing.Status.Replicas == 0 {
		return false
	}
	for _, other := range output.WorkloadSets {
		// Pods are named after their set, and a plan names those that it is about.
		pods := []byte(other.Name + "-")
		if other.Name == wanted.Name || bytes.Contains(existing.Spec.Plan.Raw, pods) ||
			!bytes.Contains(wanted.Spec.Plan.Raw, pods) {
			continue
		}
		if added, made := f.sets[other.Name]; !made || added.Status.UpdatedReplicas < other.Spec.Replicas {
			return true
		}
	}
	return false
}
