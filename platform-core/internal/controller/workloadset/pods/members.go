// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentreport "github.com/zeroinfra/platform-core/agentproto/report"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/rollout"
)

// unsettledMembers returns what the other members of the cluster are busy with: no member is disrupted while another is
// missing or being joined.
func (r *Reconciler) unsettledMembers(ctx context.Context, set *platformv1.WorkloadSet) (string, error) {
	if set.Spec.Members == "" {
		return "", nil
	}
	component := &platformv1.Component{}
	key := client.ObjectKey{Namespace: set.Namespace,
		Name: platformv1.ComponentNameFor(set.Spec.Application, set.Spec.Component)}
	if err := r.Live.Get(ctx, key, component); err != nil {
		return "", client.IgnoreNotFound(err)
	}
	if call := component.Status.Membership; call != nil {
		return fmt.Sprintf("the members to be brought together (%s)", call.Message), nil
	}
	var sets platformv1.WorkloadSetList
	var pods corev1.PodList
	of := client.MatchingLabels{platformv1.ApplicationLabel: set.Spec.Application,
		platformv1.ComponentLabel: set.Spec.Component}
	for _, list := range []client.ObjectList{&sets, &pods} {
		if err := r.Live.List(ctx, list, client.InNamespace(set.Namespace), of); err != nil {
			return "", err
		}
	}
	for i := range sets.Items {
		if other := &sets.Items[i]; other.Name != set.Name && other.Spec.IsRunning() {
			if awaited := r.awaitedOf(other, pods.Items); awaited != "" {
				return awaited, nil
			}
		}
	}
	return "", nil
}

// awaitedOf says which pod of a set does not do its work, or will stop to although nothing shows of that yet; empty for
// none.
func (r *Reconciler) awaitedOf(set *platformv1.WorkloadSet, pods []corev1.Pod) string {
	for _, ordinal := range set.Spec.Ordinals() {
		name := platformv1.PodNameFor(set.Name, ordinal)
		i := slices.IndexFunc(pods, func(pod corev1.Pod) bool { return pod.Name == name })
		if i < 0 {
			return fmt.Sprintf("pod %s, which is a member as well, to be made", name)
		}
		p := factsOf(&pods[i], ordinal)
		switch {
		case !rollout.Serves(p):
			return fmt.Sprintf("pod %s, which is a member as well, to be ready", name)
		case r.midway(&pods[i], p.Report.LastCall):
			return fmt.Sprintf("pod %s, which is a member as well, to be through with its change", name)
		}
	}
	return ""
}

// midway says whether a serving pod is being changed: by a call that it has not executed or reported, or by a resize in
// progress. An infeasible resize does not count.
func (r *Reconciler) midway(pod *corev1.Pod, last *agentreport.Call) bool {
	if reason, _, _ := resizeState(pod); reason == inProgress {
		return true
	}
	return last != nil && last.Phase == agentreport.CallRunning || r.Locks.Unreported(pod)
}
