// SPDX-License-Identifier: Apache-2.0

package message

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// startsOf are the moments at which the containers of Kafka of a component started, by pod.
func (k *kafka) startsOf(component string) map[string]time.Time {
	k.Helper()
	starts := map[string]time.Time{}
	pods := k.Pods()
	for i := range pods {
		if pods[i].Labels[platformv1.ComponentLabel] != component {
			continue
		}
		j := slices.IndexFunc(pods[i].Status.ContainerStatuses,
			func(c corev1.ContainerStatus) bool { return c.Name == "kafka" && c.State.Running != nil })
		if j < 0 {
			k.Fatalf("pod %s does not run: %+v", pods[i].Name, pods[i].Status.ContainerStatuses)
		}
		starts[pods[i].Name] = pods[i].Status.ContainerStatuses[j].State.Running.StartedAt.Time
	}
	if len(starts) == 0 {
		k.Fatalf("component %s has no pods", component)
	}
	return starts
}

// brokersStartedFirst says whether the controllers started after all brokers, as in an upgrade of both.
func (k *kafka) brokersStartedFirst() {
	k.Helper()
	brokers, controllers := k.startsOf(component), k.startsOf("controller")
	for broker, first := range brokers {
		for controller, then := range controllers {
			if !then.After(first) {
				k.Errorf("%s started at %s and %s at %s: brokers are updated before controllers", controller, then, broker, first)
			}
		}
	}
}

// restartsBrokersFirst restarts all processes: those of the brokers, then of the standby controllers, then of the
// active one.
func (k *kafka) restartsBrokersFirst() {
	k.Helper()
	active := k.controllerOf("active")
	var brokers, controllers []string
	for _, pod := range k.Pods() {
		switch {
		case pod.Labels[platformv1.ComponentLabel] == component:
			brokers = append(brokers, pod.Name)
		case pod.Name != active:
			controllers = append(controllers, pod.Name)
		}
	}
	want := append(append(brokers, controllers...), active)
	op := framework.NewOperation("restart-all", "Restart", reference())
	k.Create(op)
	k.WaitForOperation(op.Name)
	k.MustGet(op.Name, op)
	var got []string
	for _, target := range op.Status.Steps[0].Targets {
		got = append(got, target.Name)
	}
	if !slices.Equal(got, want) {
		k.Errorf("they restarted in the order %v, want %v", got, want)
	}
}
