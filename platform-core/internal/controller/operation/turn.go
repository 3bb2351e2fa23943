// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/platform-core/agentproto/report"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/inplaceupdate"
	"github.com/zeroinfra/platform-core/internal/opsflow"
	"github.com/zeroinfra/platform-core/internal/plugin/optemplate"
)

// callInTurn makes a call, one that takes the process out only while the rollout takes out no other pod of the set.
// That this Operation works through the pods is on record by now, so that the rollout begins with none after it.
func (c *Controller) callInTurn(ctx context.Context, seen *observation,
	effect *opsflow.Effect) (*opsflow.Answer, error) {
	pod := seen.pods[effect.Call.Pod]
	if effect.Call.Method == optemplate.AgentReload {
		return c.call(ctx, pod, effect), nil
	}
	release, acquired := c.Locks.TryAcquire(types.NamespacedName{Namespace: pod.Namespace, Name: seen.application})
	if !acquired {
		return later("another pod of it is being changed"), nil
	}
	defer release()
	out, err := c.replaced(ctx, seen, pod)
	switch {
	case err != nil:
		return nil, err
	case out != "":
		return later(fmt.Sprintf("pod %s is being changed or replaced", out)), nil
	}
	return c.call(ctx, pod, effect), nil
}

func later(problem string) *opsflow.Answer {
	return &opsflow.Answer{Failure: opsflow.FailureUnreachable, Problem: problem}
}

// replaced names another pod of the same set, or of a cluster that the sets are members of, that is on its way out at
// this moment, about to be, or has yet to come back; empty for none. Of one that serves nothing may show of that yet.
func (c *Controller) replaced(ctx context.Context, seen *observation, pod *corev1.Pod) (string, error) {
	var list corev1.PodList
	if err := c.live.List(ctx, &list, client.InNamespace(pod.Namespace),
		client.MatchingLabels{platformv1.ApplicationLabel: seen.application}); err != nil {
		return "", fmt.Errorf("cannot list the pods of Application %q: %w", seen.application, err)
	}
	there := map[string]*corev1.Pod{}
	for i := range list.Items {
		if list.Items[i].DeletionTimestamp.IsZero() {
			there[list.Items[i].Name] = &list.Items[i]
		}
	}
	for _, name := range seen.beside(pod) {
		other := there[name]
		if other == nil {
			return name, nil
		}
		restarts := inplaceupdate.Restarting(other) || c.Locks.Restarting(other)
		if restarts && serves(other) {
			return name, nil
		}
	}
	return "", nil
}

// beside names the other pods of the set of a pod, and those of all sets where they are members of one cluster.
func (seen *observation) beside(pod *corev1.Pod) []string {
	others := seen.facts.SetMates(pod.Name)
	for _, member := range seen.members[pod.Labels[platformv1.ComponentLabel]] {
		if member != pod.Name && !slices.Contains(others, member) {
			others = append(others, member)
		}
	}
	return others
}

// serves says whether a pod is ready, and its middleware healthy as far as it has said.
func serves(pod *corev1.Pod) bool {
	return report.Latest(pod.Annotations[platformv1.ReportAnnotation]).Health == report.Healthy &&
		slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		})
}
