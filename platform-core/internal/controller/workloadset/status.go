// SPDX-License-Identifier: Apache-2.0

package workloadset

import (
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/controller/workloadset/facts"
	"github.com/zeroinfra/platform-core/internal/controller/workloadset/pods"
	"github.com/zeroinfra/platform-core/internal/controller/workloadset/volumes"
	"github.com/zeroinfra/platform-core/internal/rollout"
	"github.com/zeroinfra/platform-core/sdk/frame"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// report fills in the status but for conditions and phase.
func report(set *platformv1.WorkloadSet, st *state) {
	s := &set.Status
	s.Replicas, s.ReadyReplicas, s.UpdatedReplicas = 0, 0, 0
	version, agreed := "", true
	for _, p := range st.Rollout.Pods {
		if p.Life != rollout.Terminating {
			s.Replicas++
		}
		if st.Rollout.Wanted(p) && st.Rollout.Updated(p) {
			s.UpdatedReplicas++
		}
		if st.Rollout.Settled(p) == rollout.Ready {
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
	s.Revision = st.Rollout.Revision
	s.ConfigDigest = st.Rollout.ConfigDigest
	s.Selector = labels.SelectorFromSet(labels.Set(facts.Selector(set))).String()
	s.Election = st.primary.Election.Record
	s.Pods = pods.States(st.pods)
	s.Volumes = volumes.Plan(set, st.Facts).States
	reportConditions(set, st.Rollout.Pods)
}

func finish(set *platformv1.WorkloadSet, _ outcome.Outcome) {
	set.Status.Phase = frame.Phase(set, set.Status.Phase, set.Status.Version)
}

// statusProgressed says whether the latest switchover, election or restore has progressed: the next reconcile depends
// on the new status.
func statusProgressed(before, after *platformv1.WorkloadSet) bool {
	was, is := &before.Status, &after.Status
	return !equality.Semantic.DeepEqual(was.Switchover, is.Switchover) ||
		!equality.Semantic.DeepEqual(was.Restore, is.Restore) ||
		!equality.Semantic.DeepEqual(was.Election, is.Election)
}
