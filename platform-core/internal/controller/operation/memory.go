// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"context"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/log"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/agentclient"
	"github.com/zeroinfra/platform-core/internal/opsflow"
)

// asksAtOnce is how many agents are asked side by side.
const asksAtOnce = 16

// tooLittleMemory says why a change cannot be that takes memory from pods: one uses more now than it would get. What is
// there now is what their agents say at this moment. Components that the change leaves at least what they are declared
// to have are not asked, whatever their pods have.
func (c *Controller) tooLittleMemory(ctx context.Context, seen *observation, app *platformv1.Application) string {
	ctx, cancel := context.WithTimeout(ctx, agentclient.CallTimeout)
	defer cancel()
	for i := range app.Spec.Components {
		component := &app.Spec.Components[i]
		limit, limited := component.Resources.Limits[corev1.ResourceMemory]
		if !limited || !lowers(seen.facts.Application, component.Name, limit) {
			continue
		}
		if refusal := opsflow.TooLittleMemory(limit, c.memoryInUse(ctx, seen.losing(component.Name, limit))); refusal != "" {
			return refusal
		}
	}
	return ""
}

// lowers says whether a memory limit is less than a component of an Application is declared to have; none is more than
// any.
func lowers(app *platformv1.Application, component string, limit resource.Quantity) bool {
	at := slices.IndexFunc(app.Spec.Components,
		func(c platformv1.ApplicationComponent) bool { return c.Name == component })
	if at < 0 {
		// It is not declared so far.
		return true
	}
	has, limited := app.Spec.Components[at].Resources.Limits[corev1.ResourceMemory]
	return !limited || limit.Cmp(has) < 0
}

// losing are the pods of a component that can be asked and that have more memory now than a limit, or no limit.
func (seen *observation) losing(component string, limit resource.Quantity) []*corev1.Pod {
	container := ""
	if declared, ok := seen.bundle.Component(component); ok {
		container = declared.Container
	}
	var pods []*corev1.Pod
	for _, pod := range seen.pods {
		if pod.Labels[platformv1.ComponentLabel] == component && presenceOf(pod) == opsflow.PodRunning &&
			exceeds(pod, container, limit) {
			pods = append(pods, pod)
		}
	}
	return pods
}

// exceeds says whether the container of a pod may use more memory than a limit.
func exceeds(pod *corev1.Pod, container string, limit resource.Quantity) bool {
	for _, c := range pod.Spec.Containers {
		if c.Name == container {
			has, limited := c.Resources.Limits[corev1.ResourceMemory]
			return !limited || has.Cmp(limit) > 0
		}
	}
	return false
}

// memoryInUse asks the agents of pods, all at the same time. One that does not answer says nothing: what is asked for
// may be what mends it.
func (c *Controller) memoryInUse(ctx context.Context, pods []*corev1.Pod) []opsflow.MemoryUse {
	uses, turns := make([]opsflow.MemoryUse, len(pods)), make(chan struct{}, asksAtOnce)
	var group sync.WaitGroup
	for i, pod := range pods {
		group.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			uses[i].Pod = pod.Name
			process, err := c.Dialer.Dial(ctx, pod)
			if err == nil {
				uses[i].Bytes, err = process.Memory(ctx)
			}
			if err != nil {
				log.FromContext(ctx).Info("A pod does not say how much memory it uses", "pod", pod.Name, "error", err.Error())
			}
		})
	}
	group.Wait()
	return uses
}
