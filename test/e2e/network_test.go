// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// TestNetworkPolicy proves, in a cluster that enforces them, that only those who are named reach an instance, that the operator still
// does, and that the wall comes down when it is no longer asked for.
func TestNetworkPolicy(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "wall")
	spec := redisApplication()
	spec.NetworkPolicy = &platformv1.NetworkPolicy{From: []networkingv1.NetworkPolicyPeer{{
		PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"example.com/friend": "yes"}},
	}}}
	a := s.apply("walled", spec)
	a.ready()
	a.refusesStranger()
	a.befriend("yes")
	a.says("PONG", "PING")
	a.befriend("no")
	a.refusesStranger()

	// The operator has to reach the process manager for this.
	a.update(component(redisComponent, func(c *platformv1.ApplicationComponent) { c.Parameters["maxclients"] = "321" }))
	a.ready()
	a.update(func(spec *platformv1.ApplicationSpec) { spec.NetworkPolicy = nil })
	a.ready()
	a.says("maxclients\n321", "CONFIG", "GET", "maxclients")
}

// befriend labels the pod that the client runs in.
func (a *application) befriend(value string) {
	a.Helper()
	pod := &corev1.Pod{}
	a.mustGet(a.clientPod(), pod)
	before := pod.DeepCopy()
	pod.Labels = map[string]string{"example.com/friend": value}
	if err := world.client.Patch(a.ctx, pod, client.MergeFrom(before)); err != nil {
		a.Fatal(err)
	}
}

// refusesStranger waits until the client pod gets no connection.
func (a *application) refusesStranger() {
	a.Helper()
	a.eventually(settleIn, "a pod that is not named gets no connection", func() error {
		if out, err := a.cli("PING"); err == nil {
			return errors.New("it is answered with " + out)
		}
		return nil
	})
}
