// SPDX-License-Identifier: Apache-2.0

//go:build integration

package engine_test

import (
	"fmt"
	"testing"

	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// A budget says how many pods have to stay, or how many may go, or is not there at all; it follows when that changes.
func TestBudgetsFollowTheSpec(t *testing.T) {
	namespace := env.Namespace(t)
	run(t, -1)
	node(t, namespace)
	app := shop(namespace, "a", "tiers")
	app.Spec.Components = []platformv1.ApplicationComponent{
		{Name: "db", Parameters: platformv1.Parameters{"depth": "4", "level": "2"}, Resources: cpu("100m")}}
	create(t, app)
	budgets := &policyv1.PodDisruptionBudgetList{}
	for _, step := range []struct {
		budget *platformv1.PodDisruptionBudget
		stay   int
	}{
		{nil, 1},
		{&platformv1.PodDisruptionBudget{MinAvailable: new(intstr.FromInt32(2))}, 2},
		{&platformv1.PodDisruptionBudget{Disabled: true}, -1},
		{&platformv1.PodDisruptionBudget{MaxUnavailable: new(intstr.FromString("100%"))}, 0},
		{nil, 1},
	} {
		change(t, app, func(s *platformv1.ApplicationSpec) { s.Components[0].PodDisruptionBudget = step.budget })
		if step.stay < 0 {
			wait(t, app, budgets)
			continue
		}
		wait(t, app, budgets, "a-db-0", "a-db-1")
		testkit.WaitFor(t, env.Client, &budgets.Items[0], fmt.Sprintf("has %d stay", step.stay), func() error {
			if got := budgets.Items[0].Spec.MinAvailable; got.IntValue() != step.stay {
				return fmt.Errorf("it has %s stay", got)
			}
			return nil
		})
	}
}
