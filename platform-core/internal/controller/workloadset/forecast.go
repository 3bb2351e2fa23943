// SPDX-License-Identifier: Apache-2.0

package workloadset

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/accept"
	"github.com/zeroinfra/platform-core/internal/rollout"
)

// imagined is the generation of a set that is only thought of.
const imagined = -1

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
	set.Namespace, set.Name, set.Spec, set.Generation = wanted.Namespace, wanted.Name, wanted.Spec, imagined
	set.Spec.Data = data
	if len(set.Labels) == 0 {
		set.Labels = wanted.Labels
	}
	f, err := c.observe(ctx, set)
	if err != nil {
		return nil, "", err
	}
	if f.rollout.Mode == rollout.Suspended {
		return nil, "", nil
	}
	refused := checkVolumes(set, f)
	if refused == nil {
		refused = refuseLeftOut(set, f)
	}
	if refused != nil {
		return nil, refused.Message(), nil
	}
	if f.rollout.Mode != rollout.Stopped {
		if stuck := settleStuck(f); stuck != nil {
			return nil, stuck.Message(), nil
		}
	}
	var changes []platformv1.PlannedChange
	if set.UID == "" {
		changes = forecastShared(set, f)
	}
	changes = append(changes, forecastClaims(set, f)...)
	for _, step := range rollout.Forecast(f.rollout) {
		changes = append(changes, f.planned(set, step))
	}
	return changes, "", nil
}

// forecastShared says what is made for all pods of a set that is not there yet, see ensureShared and rightsOf.
func forecastShared(set *platformv1.WorkloadSet, f *facts) []platformv1.PlannedChange {
	var changes []platformv1.PlannedChange
	create := func(kind, name string) {
		changes = append(changes, platformv1.PlannedChange{Component: set.Spec.Component, Kind: kind, Name: name,
			Action: platformv1.PlannedCreate})
	}
	create("ServiceAccount", set.Name)
	create("ConfigMap", platformv1.PlanNameFor(set.Name))
	if f.rollout.Mode == rollout.Running {
		for _, ordinal := range f.rollout.Ordinals() {
			create("Secret", platformv1.AgentCertificateNameFor(platformv1.PodNameFor(set.Name, ordinal)))
		}
	}
	create("Role", set.Name)
	create("RoleBinding", set.Name)
	return changes
}

// forecastClaims says what becomes of the volumes of the wanted pods. Those of a set that is stopped wait for its pods.
func forecastClaims(set *platformv1.WorkloadSet, f *facts) []platformv1.PlannedChange {
	var changes []platformv1.PlannedChange
	eachClaim(set, f, func(ordinal int32, volume platformv1.SetVolume, claim *corev1.PersistentVolumeClaim) {
		change := platformv1.PlannedChange{
			Component: set.Spec.Component, Kind: "PersistentVolumeClaim",
			Name: set.Spec.ClaimNameFor(volume.Name, platformv1.PodNameFor(set.Name, ordinal)),
		}
		if claim == nil {
			if f.rollout.Mode == rollout.Stopped {
				return
			}
			change.Action, change.Reason = platformv1.PlannedCreate, "a volume of "+volume.Size.String()
			changes = append(changes, change)
			return
		}
		have := claim.Spec.Resources.Requests[corev1.ResourceStorage]
		if has, grows := accept.Growing(claim); grows && have.Cmp(volume.Size) > 0 {
			have = has // A size that it has not got yet is taken back.
		}
		if have.Cmp(volume.Size) < 0 {
			change.Action, change.Reason = platformv1.PlannedGrow,
				fmt.Sprintf("from %s to %s", have.String(), volume.Size.String())
			changes = append(changes, change)
		}
	})
	return changes
}

// planned says a step of the rollout in the words of the API.
func (f *facts) planned(set *platformv1.WorkloadSet, step rollout.Step) platformv1.PlannedChange {
	change := platformv1.PlannedChange{Component: set.Spec.Component, Kind: "Pod", Name: step.Pod, To: step.To,
		Reason: step.Reason}
	switch step.Action {
	case rollout.CreatePod:
		change.Action = platformv1.PlannedCreate
	case rollout.DeletePod:
		change.Action = platformv1.PlannedRecreate
		if f.rollout.Mode == rollout.Stopped || !f.rollout.Wanted(rollout.Pod{Ordinal: step.Ordinal}) {
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
	if f.rollout.Window == rollout.Closed && step.Action.Outage() {
		change.Reason += ", when the maintenance window opens at " + f.opening.String()
	}
	return change
}
