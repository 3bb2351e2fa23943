// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/opsflow"
	"github.com/zeroinfra/platform-core/internal/plugin"
)

// callInTurn makes a call, one that takes the process out only while the rollout takes out no other pod of the set. That this Operation works
// through the pods is on record by now, so that the rollout begins with none after it.
func (c *Controller) callInTurn(ctx context.Context, seen *observation, effect *opsflow.Effect) (*opsflow.Answer, error) {
	pod := seen.pods[effect.Call.Pod]
	if effect.Call.Method == plugin.AgentReload {
		return c.call(ctx, pod, effect), nil
	}
	giveBack, taken := c.Turns.Take(types.NamespacedName{Namespace: pod.Namespace, Name: seen.application})
	if !taken {
		return later("another pod of it is being changed"), nil
	}
	defer giveBack()
	out, err := c.replaced(ctx, seen, pod)
	switch {
	case err != nil:
		return nil, err
	case out != "":
		return later(fmt.Sprintf("pod %s is being replaced", out)), nil
	}
	return c.call(ctx, pod, effect), nil
}

func later(problem string) *opsflow.Answer {
	return &opsflow.Answer{Failure: opsflow.FailureUnreachable, Problem: problem}
}

// replaced names another pod of the same set that is on its way out at this moment; empty for none.
func (c *Controller) replaced(ctx context.Context, seen *observation, pod *corev1.Pod) (string, error) {
	var list corev1.PodList
	labels := client.MatchingLabels{}
	for _, label := range []string{platformv1.ApplicationLabel, platformv1.ComponentLabel, platformv1.SetLabel} {
		labels[label] = pod.Labels[label]
	}
	if err := c.live.List(ctx, &list, client.InNamespace(pod.Namespace), labels); err != nil {
		return "", fmt.Errorf("cannot list the pods of Application %q: %w", seen.application, err)
	}
	for i := range list.Items {
		if other := &list.Items[i]; other.Name != pod.Name && seen.wants(other.Name) && !other.DeletionTimestamp.IsZero() {
			return other.Name, nil
		}
	}
	return "", nil
}

// wants says whether a pod is one that its set is to have.
func (o *observation) wants(name string) bool {
	for i := range o.facts.Pods {
		if o.facts.Pods[i].Name == name {
			return true
		}
	}
	return false
}
