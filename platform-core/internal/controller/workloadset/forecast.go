// SPDX-License-Identifier: Apache-2.0

package workloadset

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/controller/workloadset/pods"
	"github.com/zeroinfra/platform-core/internal/controller/workloadset/volumes"
	"github.com/zeroinfra/platform-core/internal/rollout"
)

// Forecast says what would be done to the volumes and the pods of a set if it had another spec, in order. It touches
// nothing. refusal is the sentence with which the set would stall instead; empty for none.
type Forecast func(ctx context.Context, set *platformv1.WorkloadSet) (changes []platformv1.PlannedChange,
	refusal string, err error)

// forecast implements Forecast by the planner and the observations that do the work, too.
func (c *Controller) forecast(ctx context.Context,
	wanted *platformv1.WorkloadSet) ([]platformv1.PlannedChange, string, error) {
	set := &platformv1.WorkloadSet{}
	if err := c.client.Get(ctx, client.ObjectKeyFromObject(wanted), set); client.IgnoreNotFound(err) != nil {
		return nil, "", fmt.Errorf("cannot read WorkloadSet %q: %w", wanted.Name, err)
	}
	set = set.DeepCopy()
	// Which volumes the pods have is not for those to say who render a spec.
	data := set.Spec.Data
	set.Namespace, set.Name, set.Spec, set.Generation = wanted.Namespace, wanted.Name, wanted.Spec, pods.Imagined
	set.Spec.Data = data
	if len(set.Labels) == 0 {
		set.Labels = wanted.Labels
	}
	st, err := c.observe(ctx, set)
	if err != nil {
		return nil, "", err
	}
	if st.Rollout.Mode == rollout.Suspended {
		return nil, "", nil
	}
	volume := volumes.Plan(set, st.Facts)
	refused := volume.Refused
	if refused == nil {
		refused = volume.LeftOut
	}
	if refused != nil {
		return nil, refused.Message(), nil
	}
	if st.Rollout.Mode != rollout.Stopped {
		if stuck := pods.Stuck(st.pods); stuck != nil {
			return nil, stuck.Message(), nil
		}
	}
	var changes []platformv1.PlannedChange
	if set.UID == "" {
		changes = forecastShared(set, st)
	}
	changes = append(changes, volumes.Forecast(set, st.Facts)...)
	for _, step := range rollout.Forecast(st.Rollout) {
		changes = append(changes, st.planned(set, step))
	}
	return changes, "", nil
}

// forecastShared says what is made for all pods of a set that is not there yet, see EnsureShared and RightsOf of pods.
func forecastShared(set *platformv1.WorkloadSet, st *state) []platformv1.PlannedChange {
	var changes []platformv1.PlannedChange
	create := func(kind, name string) {
		changes = append(changes, platformv1.PlannedChange{Component: set.Spec.Component, Kind: kind, Name: name,
			Action: platformv1.PlannedCreate})
	}
	create("ServiceAccount", set.Name)
	create("ConfigMap", platformv1.PlanNameFor(set.Name))
	if st.Rollout.Mode == rollout.Running {
		for _, ordinal := range st.Rollout.Ordinals() {
			create("Secret", platformv1.AgentCertificateNameFor(platformv1.PodNameFor(set.Name, ordinal)))
		}
	}
	create("Role", set.Name)
	create("RoleBinding", set.Name)
	return changes
}

// planned says a step of the rollout in the words of the API.
func (st *state) planned(set *platformv1.WorkloadSet, step rollout.Step) platformv1.PlannedChange {
	change := platformv1.PlannedChange{Component: set.Spec.Component, Kind: "Pod", Name: step.Pod, To: step.To,
		Reason: step.Reason}
	switch step.Action {
	case rollout.CreatePod:
		change.Action = platformv1.PlannedCreate
	case rollout.DeletePod:
		change.Action = platformv1.PlannedRecreate
		if st.Rollout.Mode == rollout.Stopped || !st.Rollout.Wanted(rollout.Pod{Ordinal: step.Ordinal}) {
			change.Action = platformv1.PlannedDelete
		}
	case rollout.ForgetPod:
		change.Action = platformv1.PlannedDelete
	case rollout.UpdateImage, rollout.PushPlan:
		change.Action = platformv1.PlannedRestart
	case rollout.ResizePod:
		change.Action = platformv1.PlannedResize
	case rollout.ReloadPlan:
		change.Action = platformv1.PlannedReload
	case rollout.SwitchOver:
		change.Action = platformv1.PlannedSwitchOver
	default:
		change.Action = platformv1.PlannedAction(step.Action)
	}
	if st.Rollout.Window == rollout.Closed && step.Action.Outage() {
		change.Reason += ", when the maintenance window opens at " + st.Opening.String()
	}
	return change
}
