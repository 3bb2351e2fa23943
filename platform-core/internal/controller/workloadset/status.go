// SPDX-License-Identifier: Apache-2.0

package workloadset

import (
	"k8s.io/apimachinery/pkg/labels"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/rollout"
	"github.com/zeroinfra/platform-core/sdk/frame"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// report fills in the status but for conditions and phase.
func report(set *platformv1.WorkloadSet, f *facts) {
	s := &set.Status
	s.Replicas, s.ReadyReplicas, s.UpdatedReplicas = 0, 0, 0
	version, agreed := "", true
	for _, p := range f.rollout.Pods {
		if p.Life != rollout.Terminating {
			s.Replicas++
		}
		if f.rollout.Wanted(p) && f.rollout.Updated(p) {
			s.UpdatedReplicas++
		}
		if f.rollout.Settled(p) == rollout.Ready {
			s.ReadyReplicas++
		}
		if version != "" && p.Report.Version != "" && p.Report.Version != version {
			agreed = false
		}
		if p.Report.Version != "" {
			version = p.Report.Version
		}
	}
	switch {
	case !agreed:
		s.Version = ""
	case version != "":
		s.Version = version
	}
	s.Revision = f.rollout.Revision
	s.ConfigDigest = f.rollout.ConfigDigest
	s.Selector = labels.SelectorFromSet(labels.Set(selector(set))).String()
	s.Election = f.election.Record
	s.Pods = podStates(f)
	s.Volumes = volumeStates(set, f)
	reportConditions(set, f)
}

func finish(set *platformv1.WorkloadSet, _ outcome.Outcome) {
	set.Status.Phase = frame.Phase(set, set.Status.Phase, set.Status.Version)
}
