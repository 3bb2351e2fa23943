// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// podNames are the names of the pods of a set with these ordinals.
func podNames(workloadSet string, ordinals ...int32) []string {
	names := make([]string, 0, len(ordinals))
	for _, ordinal := range ordinals {
		names = append(names, platformv1.PodNameFor(workloadSet, ordinal))
	}
	return names
}

// TestScale proves that pods come and go as asked, that a named one can be taken out, and that the others never notice.
func TestScale(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespace(t, "scale")
	s.EnsureCommonOperator()
	spec := nginxApplication()
	framework.WithComponentReplicas(nginxComponent, 3)(&spec)
	a := s.CreateApplication("web", spec)
	set := platformv1.WorkloadSetNameFor(a.Name, nginxComponent, platformv1.DefaultSet)
	a.WaitForPods(podNames(set, 0, 1, 2)...)
	spread(a)
	first := a.UIDs()

	a.Update(framework.WithComponentReplicas(nginxComponent, 5))
	a.WaitForPods(podNames(set, 0, 1, 2, 3, 4)...)
	a.Update(framework.WithComponent(nginxComponent, func(c *platformv1.ApplicationComponent) {
		c.Replicas = new(int32(4))
		c.Sets = []platformv1.ComponentSet{{Name: platformv1.DefaultSet, ExcludedOrdinals: []int32{1}}}
	}))
	a.WaitForPods(podNames(set, 0, 2, 3, 4)...)
	a.Update(framework.WithComponentReplicas(nginxComponent, 2))
	a.WaitForPods(podNames(set, 0, 2)...)
	for name, uid := range a.UIDs() {
		if first[name] != uid {
			t.Errorf("pod %s was replaced while others came and went", name)
		}
	}
	scaleSet(a, set, 3)
}

// spread has the test fail unless each pod is on a node of its own.
func spread(a *framework.Application) {
	a.Helper()
	nodes := map[string]bool{}
	for _, pod := range a.Pods() {
		nodes[pod.Spec.NodeName] = true
	}
	if len(nodes) != len(a.Pods()) {
		a.Errorf("%d pods are on %d nodes: %v", len(a.Pods()), len(nodes), slices.Sorted(maps.Keys(nodes)))
	}
}

// scaleSet scales a WorkloadSet. The Application has to take that up, or it would be undone.
func scaleSet(a *framework.Application, name string, number int32) {
	a.Helper()
	a.ScaleWorkloadSet(name, number)
	a.Eventually(framework.SettleTimeout, "the Application takes the number up", func() error {
		for _, c := range a.Object().Status.Components {
			if c.Replicas != number || c.ReadyReplicas != number {
				return fmt.Errorf("it has %d of %d ready", c.ReadyReplicas, c.Replicas)
			}
		}
		return nil
	})
	a.WaitReady()
}

// TestDrain proves that a node that is drained takes one pod of a set at a time.
func TestDrain(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespace(t, "drain")
	s.EnsureCommonOperator()
	spec := nginxApplication()
	framework.WithComponentReplicas(nginxComponent, 2)(&spec)
	a := s.CreateApplication("web", spec)
	a.WaitReady()
	s.Eventually(framework.SettleTimeout, "the budget allows one disruption", func() error {
		var budgets policyv1.PodDisruptionBudgetList
		if err := framework.Cluster.Client.List(s.Ctx, &budgets, client.InNamespace(s.Name)); err != nil {
			return err
		}
		if len(budgets.Items) != 1 || budgets.Items[0].Status.DisruptionsAllowed != 1 {
			return fmt.Errorf("the budgets are %+v", budgets.Items)
		}
		return nil
	})
	pods := a.Pods()
	// At the same time: were one asked for after the other, the first might be replaced before.
	var errs [2]error
	var asked sync.WaitGroup
	for n := range errs {
		asked.Go(func() { errs[n] = s.Evict(&pods[n]) })
	}
	asked.Wait()
	gone, stays := 0, 1
	if errs[0] != nil {
		gone, stays = 1, 0
	}
	if errs[gone] != nil || !apierrors.IsTooManyRequests(errs[stays]) {
		t.Fatalf("evicting both pods gave %v, want that one goes and the other is refused", errs)
	}
	s.Eventually(framework.ReadyTimeout, "the pod that went is replaced", func() error {
		if uid := a.UIDs()[pods[gone].Name]; uid == "" || uid == pods[gone].UID {
			return fmt.Errorf("it is %q", uid)
		}
		return nil
	})
	a.WaitForPods(pods[0].Name, pods[1].Name)
	if uids := a.UIDs(); uids[pods[stays].Name] != pods[stays].UID {
		t.Errorf("the pods were %s and %s and are %v", pods[0].UID, pods[1].UID, uids)
	}
}
