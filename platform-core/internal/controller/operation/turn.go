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

// replaced names another pod of the same set that is on its way out at this moment, or has yet to come back; empty for none.
func (c *Controller) replaced(ctx context.Context, seen *observation, pod *corev1.Pod) (string, error) {
	var list corev1.PodList
	if err := c.live.List(ctx, &list, client.InNamespace(pod.Namespace), client.MatchingLabels{platformv1.ApplicationLabel: seen.application}); err != nil {
		return "", fmt.Errorf("cannot list the pods of Application %q: %w", seen.application, err)
	}
	there := map[string]struct{}{}
	for i := range list.Items {
		if list.Items[i].DeletionTimestamp.IsZero() {
			there[list.Items[i].Name] = struct{}{}
		}
	}
	for _, other := range seen.facts.Beside(pod.Name) {
		if _, is := there[other]; !is {
			return other, nil
		}
	}
	return "", nil
}
