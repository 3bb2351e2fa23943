// SPDX-License-Identifier: Apache-2.0

package primary

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentreport "github.com/zeroinfra/platform-core/agentproto/report"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/agentclient"
	"github.com/zeroinfra/platform-core/internal/controller/workloadset/facts"
	"github.com/zeroinfra/platform-core/internal/failover"
	"github.com/zeroinfra/platform-core/sdk/frame"
)

// door is a pod of another component that clients come through, and the action by which they wait.
type door struct {
	pod    *corev1.Pod
	action string
}

// doors are the pods that have something to do before a planned change of the primary: those of other components that
// are ready.
func (t *reconcile) doors(ctx context.Context) ([]door, error) {
	var doors []door
	for _, before := range t.set.Spec.Failover.Before {
		var pods corev1.PodList
		if err := t.Client.List(ctx, &pods, client.InNamespace(t.set.Namespace), client.MatchingLabels{
			platformv1.ApplicationLabel: t.set.Spec.Application, platformv1.ComponentLabel: before.Component}); err != nil {
			return nil, fmt.Errorf("cannot list the pods of component %q: %w", before.Component, err)
		}
		for i := range pods.Items {
			pod := &pods.Items[i]
			if pod.DeletionTimestamp == nil && facts.ConditionOf(pod, corev1.PodReady) == corev1.ConditionTrue {
				doors = append(doors, door{pod, before.Action})
			}
		}
	}
	slices.SortFunc(doors, func(a, b door) int { return strings.Compare(a.pod.Name, b.pod.Name) })
	return doors, nil
}

// prepare runs the actions that come before the primary is paused, and says whether all have ended, well or not: who
// fails serves clients that will notice the change. Keys name the attempt, so that a repeated call does nothing again.
func (t *reconcile) prepare(ctx context.Context, step failover.Step) bool {
	doors, err := t.doors(ctx)
	if err != nil {
		return false
	}
	t.Events.Normal(t.set, "SwitchingOver", "%s", step)
	ended := make([]bool, len(doors))
	var calls []func() error
	for i, door := range doors {
		calls = append(calls, func() error {
			key := fmt.Sprintf("before/%d/%s/%d/%d/%d", t.Primary.Term, door.pod.UID, step.Attempt, t.states.started(),
				step.Began)
			// The pod is of another set, whose agents know nothing of the terms of this one: other sets may come through it,
			// each with its own.
			call, err := t.await(ctx, door.pod, agentclient.Action{Key: key, Name: door.action})
			ended[i] = agentclient.IsRefused(err) || err == nil && call.Phase != agentreport.CallRunning
			if ended[i] && (err != nil || call.Phase != agentreport.CallSucceeded) {
				t.Events.Warning(t.set, "ClientsDoNotWait", "pod %s could not have its clients wait while the primary changes: %s",
					door.pod.Name, problemOf(call, err))
			}
			return nil
		})
	}
	_ = frame.Together(calls...)
	return !slices.Contains(ended, false)
}

func problemOf(call agentclient.ActionCall, err error) string {
	if err != nil {
		return agentclient.ProblemOf(err)
	}
	return call.Message
}

// observeDoors tells the planner whether anything comes before the primary is paused, which matters while there is an
// order.
func (t *reconcile) observeDoors(ctx context.Context, f *failover.Facts) error {
	if f.Order == nil || len(t.set.Spec.Failover.Before) == 0 {
		return nil
	}
	doors, err := t.doors(ctx)
	if len(doors) > 0 {
		f.Before = failover.SomeBefore
	}
	return err
}
