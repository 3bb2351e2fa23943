// SPDX-License-Identifier: Apache-2.0

package workloadset

import (
	"fmt"
	"slices"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/controller/workloadset/facts"
	"github.com/zeroinfra/platform-core/internal/controller/workloadset/generations"
	"github.com/zeroinfra/platform-core/internal/controller/workloadset/pods"
	"github.com/zeroinfra/platform-core/internal/controller/workloadset/primary"
	"github.com/zeroinfra/platform-core/internal/controller/workloadset/volumes"
	"github.com/zeroinfra/platform-core/internal/rollout"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// settle says where the set stands once the steps were taken.
func settle(set *platformv1.WorkloadSet, st *state, steps []rollout.Step) outcome.Outcome {
	if st.Rollout.Mode == rollout.Suspended {
		return outcome.Held(platformv1.ReasonSuspended, "suspend is true, so that nothing is changed or repaired: set "+
			"spec.suspend to false to resume")
	}
	volume := volumes.Plan(set, st.Facts)
	if volume.Refused != nil {
		return *volume.Refused
	}
	if st.Moves {
		return generations.Moving(set, st.Facts)
	}
	if st.Rollout.Mode == rollout.Stopped {
		return settleStopped(st)
	}
	if o := pods.Stuck(st.pods); o != nil {
		return *o
	}
	if len(steps) > 0 {
		return outcome.Waiting(platformv1.ReasonPodsNotReady, facts.Progress(st.Rollout, steps[0].Pod, steps[0].String()))
	}
	awaited, unsettled := st.Rollout.Awaited()
	if held := st.Rollout.Held(); unsettled &&
		slices.ContainsFunc(held, func(s rollout.Step) bool { return s.Pod == awaited.Name }) {
		if st.Awaits.What != "" {
			return pods.AwaitDisruption(st.pods, held)
		}
		return pods.AwaitWindow(st.pods, held)
	}
	if volume.Growing != nil {
		return *volume.Growing
	}
	if unsettled {
		reason, why := pods.Explain(st.pods, awaited)
		if platformv1.StopsPods(reason) {
			return outcome.Waiting(reason, why+"; "+facts.Progress(st.Rollout, awaited.Name, "waiting for it"))
		}
		return outcome.Waiting(reason, facts.Progress(st.Rollout, awaited.Name, why))
	}
	if int32(len(st.Rollout.Pods)) < st.Rollout.Replicas {
		return outcome.Waiting(platformv1.ReasonPodsNotReady, facts.Progress(st.Rollout, "", "waiting for pods to be made"))
	}
	if o := primary.Unlabelled(set, st.primary); o != nil && !set.Spec.IsClosed() {
		return *o
	}
	if set.Spec.IsClosed() {
		return outcome.Waiting(platformv1.ReasonRestoring, "its pods run with restored data, and clients are not led to "+
			"the primary until the Operation that restores says so; if that was deleted, set spec.data.access to Open, with "+
			"spec.data.generation as it is or as it was before")
	}
	return outcome.Done()
}

// sayFirst has an outcome begin with what stops a pod, whatever else there is to say. Where a failover of a primary
// that there was is pending, that stays the reason. A process that fails is told of beside the wait for the first
// primary, since nothing else tells of it.
func sayFirst(st *state, o outcome.Outcome) outcome.Outcome {
	if st.Rollout.Mode != rollout.Running {
		return o
	}
	reason, cause := pods.Cause(st.pods)
	switch {
	case cause == "":
		return o
	case o.Reason() == platformv1.ReasonFailoverPending && facts.PrimaryOf(st.Primary) != "":
		reason = o.Reason()
	}
	return o.Because(reason, cause)
}

func settleStopped(st *state) outcome.Outcome {
	if n := len(st.Rollout.Pods); n > 0 {
		return outcome.Waiting(platformv1.ReasonProgressing, fmt.Sprintf("it stops: waiting for %d pods to end", n))
	}
	return outcome.DoneAs(platformv1.ReasonStopped, "it is stopped, since running is false, and its volumes are kept; "+
		"set running of its Application to true to start it")
}
