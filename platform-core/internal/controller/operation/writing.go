// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/opsflow"
	"github.com/zeroinfra/platform-core/sdk/conditions"
)

// handOver asks a WorkloadSet to have its writer hand over, or takes that back.
func (c *Controller) handOver(ctx context.Context, op *platformv1.Operation,
	effect *opsflow.Effect) (*opsflow.Answer, error) {
	wanted := effect.Handover
	set := &platformv1.WorkloadSet{}
	err := c.live.Get(ctx, types.NamespacedName{Namespace: op.Namespace, Name: wanted.Set}, set)
	if apierrors.IsNotFound(err) {
		return refuse("WorkloadSet %s is gone", wanted.Set), nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read WorkloadSet %q: %w", wanted.Set, err)
	}
	var value any
	request := platformv1.HandoverRequest{From: wanted.From, To: wanted.To, Way: wanted.Way,
		Request: platformv1.RequestOf(op)}
	if wanted.From != "" {
		value = request.String()
		if set.Spec.Switchover == nil && set.Spec.Failover == nil {
			return refuse("component %q of plugin %q declares no switchover", set.Spec.Component, set.Spec.Plugin.Name), nil
		}
	}
	present, is := set.Annotations[platformv1.SwitchPrimaryAnnotation]
	switch {
	case value == nil && (!is || platformv1.ParseHandoverRequest(present).Request != request.Request):
		return &opsflow.Answer{}, nil
	case value == present:
		return handingOver(set, request), nil
	}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": set.UID, "annotations": map[string]any{platformv1.SwitchPrimaryAnnotation: value}}})
	if err != nil {
		return nil, err
	}
	return &opsflow.Answer{}, c.client.Patch(ctx, set, client.RawPatch(types.MergePatchType, body),
		client.FieldOwner(owner))
}

// handingOver says how far a set is with a request.
func handingOver(set *platformv1.WorkloadSet, request platformv1.HandoverRequest) *opsflow.Answer {
	state := set.Status.Switchover
	if state == nil || state.Request != request.Request {
		return &opsflow.Answer{}
	}
	if request.Way == platformv1.TakeOver && state.Phase == platformv1.SwitchoverFailed {
		return &opsflow.Answer{Problem: state.Message}
	}
	stalled := conditions.Get(set, platformv1.StalledCondition)
	if stalled != nil && stalled.Status == metav1.ConditionTrue && stalled.Reason == platformv1.ReasonSwitchoverFailed {
		return &opsflow.Answer{Problem: stalled.Message}
	}
	if set.Spec.Failover != nil {
		// The engine goes on with it as soon as it can.
		outputs := map[string]string{opsflow.OutputProgress: state.Message}
		if state.Phase == platformv1.SwitchoverFailed {
			outputs[opsflow.OutputRefusal] = state.Message
		}
		return &opsflow.Answer{Outputs: outputs}
	}
	progress := fmt.Sprintf("attempt %d", state.Attempt)
	if state.Phase == platformv1.SwitchoverFailed {
		progress += " failed: " + state.Message
	}
	return &opsflow.Answer{Outputs: map[string]string{opsflow.OutputProgress: progress}}
}

// rebuildInTurn deletes a pod while no other one of its set is being replaced.
func (c *Controller) rebuildInTurn(ctx context.Context, op *platformv1.Operation, seen *observation,
	wanted *opsflow.Rebuild) (*opsflow.Answer, error) {
	release, acquired := c.Locks.TryAcquire(types.NamespacedName{Namespace: op.Namespace, Name: seen.application})
	if !acquired {
		return later("another pod of it is being changed"), nil
	}
	defer release()
	if pod := seen.pods[wanted.Pod]; pod != nil {
		out, err := c.replaced(ctx, seen, pod)
		switch {
		case err != nil:
			return nil, err
		case out != "" && out != wanted.Pod:
			return later(fmt.Sprintf("pod %s is being changed or replaced", out)), nil
		}
	}
	return c.rebuild(ctx, op, wanted)
}

// rebuild deletes a pod and its volumes, each only while it is the very one that was meant: the volumes first, which
// stay until the pod has ended.
func (c *Controller) rebuild(ctx context.Context, op *platformv1.Operation,
	wanted *opsflow.Rebuild) (*opsflow.Answer, error) {
	if refusal, err := c.mayRebuild(ctx, op, wanted); refusal != nil || err != nil {
		return refusal, err
	}
	for _, claim := range wanted.Claims {
		volume := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: op.Namespace, Name: claim.Name}}
		if err := c.deleteThis(ctx, volume, claim.UID); err != nil {
			return nil, err
		}
	}
	if wanted.UID == "" {
		return &opsflow.Answer{}, nil
	}
	return &opsflow.Answer{}, c.deleteThis(ctx,
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: op.Namespace, Name: wanted.Pod}}, wanted.UID)
}

// mayRebuild refuses to delete a pod that was named the writer meanwhile, and volumes that are not those that its set
// asks for: they may be all that is left of what was there before a restore.
func (c *Controller) mayRebuild(ctx context.Context, op *platformv1.Operation,
	wanted *opsflow.Rebuild) (*opsflow.Answer, error) {
	set, pod := &platformv1.WorkloadSet{}, wanted.Pod
	name := platformv1.WorkloadSetNameOf(pod)
	err := c.live.Get(ctx, types.NamespacedName{Namespace: op.Namespace, Name: name}, set)
	if apierrors.IsNotFound(err) {
		return refuse("WorkloadSet %s is gone", name), nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read WorkloadSet %q: %w", name, err)
	}
	if record := set.Status.Primary; set.Spec.Failover != nil &&
		(record == nil || record.Member == nil || record.Member.Name == pod) {
		return refuse("pod %s may be the primary by now: nothing more of it is deleted", pod), nil
	}
	if refusal, err := c.elected(ctx, set, wanted); refusal != nil || err != nil {
		return refusal, err
	}
	if record := set.Status.Primary; record != nil && record.Data != set.Spec.Generation() {
		return refuse("the pods of %s are not on the volumes that it asks for, of generation %q: nothing of pod %s is "+
			"deleted until they are", name, set.Spec.Generation(), pod), nil
	}
	for _, claim := range wanted.Claims {
		if !slices.ContainsFunc(set.Spec.Volumes,
			func(volume platformv1.SetVolume) bool { return set.Spec.ClaimNameFor(volume.Name, pod) == claim.Name }) {
			return refuse("claim %s is not of the volumes that %s asks for, of generation %q: nothing of pod %s is deleted "+
				"until it has those", claim.Name, name, set.Spec.Generation(), pod), nil
		}
	}
	return nil, nil
}

// elected refuses to delete a pod whose members elected it meanwhile.
func (c *Controller) elected(ctx context.Context, set *platformv1.WorkloadSet,
	wanted *opsflow.Rebuild) (*opsflow.Answer, error) {
	if set.Spec.Failover != nil {
		return nil, nil
	}
	pod := &corev1.Pod{}
	err := c.live.Get(ctx, types.NamespacedName{Namespace: set.Namespace, Name: wanted.Pod}, pod)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return nil, fmt.Errorf("cannot read pod %q: %w", wanted.Pod, err)
	case err == nil && pod.UID == wanted.UID && pod.DeletionTimestamp == nil &&
		accessOf(set, pod.Labels[platformv1.RoleLabel]) == platformv1.RoleReadWrite:
		return refuse("pod %s is the primary by now: nothing more of it is deleted", wanted.Pod), nil
	}
	return nil, nil
}

// deleteThis deletes an object if it is the one with this UID. One that is gone, or another by now, was deleted.
func (c *Controller) deleteThis(ctx context.Context, object client.Object, uid types.UID) error {
	if err := deleteOnly(ctx, c.client, object, uid); err != nil {
		return fmt.Errorf("cannot delete %T %q: %w", object, client.ObjectKeyFromObject(object), err)
	}
	return nil
}

// deleteOnly is deleteThis as somebody, in some way, with the error of the API server.
func deleteOnly(ctx context.Context, as client.Client, object client.Object, uid types.UID,
	way ...client.DeleteOption) error {
	err := as.Delete(ctx, object, append(way, client.Preconditions{UID: &uid})...)
	if apierrors.IsConflict(err) {
		return nil
	}
	return client.IgnoreNotFound(err)
}

// observeWriting notes whose writer the engine names.
func (seen *observation) observeWriting(set *platformv1.WorkloadSet) {
	if set.Spec.Failover == nil {
		seen.facts.Electing[set.Name] = slices.ContainsFunc(set.Spec.Roles,
			func(role platformv1.SetRole) bool { return role.Access == platformv1.RoleReadWrite })
		return
	}
	writing := opsflow.Writing{Component: set.Spec.Component, Record: set.Status.Primary, Pending: pendingOf(set)}
	if seen.facts.Writing == nil {
		seen.facts.Writing = map[string]opsflow.Writing{}
	}
	seen.facts.Writing[set.Name] = writing
}

// pendingOf is what a set waits for while nobody takes writes; empty for nothing.
func pendingOf(set *platformv1.WorkloadSet) string {
	ready := conditions.Get(set, platformv1.ReadyCondition)
	if ready == nil || ready.Status == metav1.ConditionTrue || ready.Reason != platformv1.ReasonFailoverPending {
		return ""
	}
	return ready.Message
}

// observeClaims reads the volumes of the pods, where a step deletes some: those that a pod has, whatever its set asks
// for by now, and where there is no pod those that it would have.
func (c *Controller) observeClaims(ctx context.Context, app *platformv1.Application, seen *observation) error {
	if !seen.facts.Runs(opsflow.Rebuilds) {
		return nil
	}
	var claims corev1.PersistentVolumeClaimList
	if err := c.client.List(ctx, &claims, client.InNamespace(app.Namespace),
		client.MatchingLabels{platformv1.ApplicationLabel: app.Name}); err != nil {
		return fmt.Errorf("cannot list the volumes of Application %q: %w", app.Name, err)
	}
	for i := range claims.Items {
		claim := &claims.Items[i]
		set := platformv1.WorkloadSetNameFor(app.Name, claim.Labels[platformv1.ComponentLabel],
			claim.Labels[platformv1.SetLabel])
		presence := opsflow.PodRunning
		if claim.DeletionTimestamp != nil {
			presence = opsflow.PodGoing
		}
		for j := range seen.facts.Pods {
			pod := &seen.facts.Pods[j]
			if platformv1.WorkloadSetNameOf(pod.Name) == set && seen.has(pod.Name, claim) &&
				claim.Labels[platformv1.OrdinalLabel] == fmt.Sprint(pod.Ordinal) {
				pod.Claims = append(pod.Claims, opsflow.Claim{Name: claim.Name, UID: claim.UID, Presence: presence})
			}
		}
	}
	return nil
}

// has says whether a claim of a pod is one that it mounts, or would mount where there is no pod.
func (seen *observation) has(pod string, claim *corev1.PersistentVolumeClaim) bool {
	if there := seen.pods[pod]; there != nil {
		return slices.Contains(claimsOf(&there.Spec), claim.Name)
	}
	return claim.Labels[platformv1.GenerationLabel] == seen.generations[platformv1.WorkloadSetNameOf(pod)]
}
