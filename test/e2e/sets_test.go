// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
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
	s := newSpace(t, "scale")
	s.commonOperatorServes()
	spec := nginxApplication()
	replicas(nginxComponent, 3)(&spec)
	a := s.apply("web", spec)
	set := platformv1.WorkloadSetNameFor(a.name, nginxComponent, platformv1.DefaultSet)
	a.havePods(podNames(set, 0, 1, 2)...)
	a.spread()
	first := a.uids()

	a.update(replicas(nginxComponent, 5))
	a.havePods(podNames(set, 0, 1, 2, 3, 4)...)
	a.update(component(nginxComponent, func(c *platformv1.ApplicationComponent) {
		c.Replicas = new(int32(4))
		c.Sets = []platformv1.ComponentSet{{Name: platformv1.DefaultSet, ExcludedOrdinals: []int32{1}}}
	}))
	a.havePods(podNames(set, 0, 2, 3, 4)...)
	a.update(replicas(nginxComponent, 2))
	a.havePods(podNames(set, 0, 2)...)
	for name, uid := range a.uids() {
		if first[name] != uid {
			t.Errorf("pod %s was replaced while others came and went", name)
		}
	}
	a.scaleSet(set, 3)
}

// spread has the test fail unless each pod is on a node of its own.
func (a *application) spread() {
	a.Helper()
	nodes := map[string]bool{}
	for _, pod := range a.pods() {
		nodes[pod.Spec.NodeName] = true
	}
	if len(nodes) != len(a.pods()) {
		a.Errorf("%d pods are on %d nodes: %v", len(a.pods()), len(nodes), slices.Sorted(maps.Keys(nodes)))
	}
}

// scaleTo scales a WorkloadSet as "kubectl scale" and an autoscaler do.
func (s *space) scaleTo(name string, number int32) {
	s.Helper()
	set := &platformv1.WorkloadSet{}
	s.mustGet(name, set)
	scale := &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: s.name}, Spec: autoscalingv1.ScaleSpec{Replicas: number}}
	if err := world.client.SubResource("scale").Update(s.ctx, set, client.WithSubResourceBody(scale)); err != nil {
		s.Fatalf("cannot scale WorkloadSet %q: %v", name, err)
	}
}

// scaleSet scales a WorkloadSet. The Application has to take that up, or it would be undone.
func (a *application) scaleSet(name string, number int32) {
	a.Helper()
	a.scaleTo(name, number)
	a.eventually(settleIn, "the Application takes the number up", func() error {
		for _, c := range a.object().Status.Components {
			if c.Replicas != number || c.ReadyReplicas != number {
				return fmt.Errorf("it has %d of %d ready", c.ReadyReplicas, c.Replicas)
			}
		}
		return nil
	})
	a.ready()
}

// TestDrain proves that a node that is drained takes one pod of a set at a time.
func TestDrain(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "drain")
	s.commonOperatorServes()
	spec := nginxApplication()
	replicas(nginxComponent, 2)(&spec)
	a := s.apply("web", spec)
	a.ready()
	s.eventually(settleIn, "the budget allows one disruption", func() error {
		var budgets policyv1.PodDisruptionBudgetList
		if err := world.client.List(s.ctx, &budgets, client.InNamespace(s.name)); err != nil {
			return err
		}
		if len(budgets.Items) != 1 || budgets.Items[0].Status.DisruptionsAllowed != 1 {
			return fmt.Errorf("the budgets are %+v", budgets.Items)
		}
		return nil
	})
	pods := a.pods()
	// At the same time: were one asked for after the other, the first might be replaced before.
	var errs [2]error
	var asked sync.WaitGroup
	for n := range errs {
		asked.Go(func() { errs[n] = s.evict(&pods[n]) })
	}
	asked.Wait()
	gone, stays := 0, 1
	if errs[0] != nil {
		gone, stays = 1, 0
	}
	if errs[gone] != nil || !apierrors.IsTooManyRequests(errs[stays]) {
		t.Fatalf("evicting both pods gave %v, want that one goes and the other is refused", errs)
	}
	s.eventually(readyIn, "the pod that went is replaced", func() error {
		if uid := a.uids()[pods[gone].Name]; uid == "" || uid == pods[gone].UID {
			return fmt.Errorf("it is %q", uid)
		}
		return nil
	})
	a.havePods(pods[0].Name, pods[1].Name)
	if uids := a.uids(); uids[pods[stays].Name] != pods[stays].UID {
		t.Errorf("the pods were %s and %s and are %v", pods[0].UID, pods[1].UID, uids)
	}
}
