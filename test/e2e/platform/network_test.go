// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// TestNetworkPolicy proves, in a cluster that enforces them, that only those who are named reach an instance, that the
// operator still does, and that the wall comes down when it is no longer asked for.
func TestNetworkPolicy(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespace(t, "wall")
	spec := redisApplication()
	spec.NetworkPolicy = &platformv1.NetworkPolicy{From: []networkingv1.NetworkPolicyPeer{{
		PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"example.com/friend": "yes"}},
	}}}
	a := s.CreateApplication("walled", spec)
	a.WaitReady()
	refusesStranger(a)
	befriend(a, "yes")
	says(a, "PONG", "PING")
	befriend(a, "no")
	refusesStranger(a)

	// The operator has to reach the process manager for this.
	a.Update(framework.WithComponent(framework.RedisComponent,
		func(c *platformv1.ApplicationComponent) { c.Parameters["maxclients"] = "321" }))
	a.WaitReady()
	a.Update(func(spec *platformv1.ApplicationSpec) { spec.NetworkPolicy = nil })
	a.WaitReady()
	says(a, "maxclients\n321", "CONFIG", "GET", "maxclients")
}

// befriend labels the pod that the client runs in.
func befriend(a *framework.Application, value string) {
	a.Helper()
	pod := &corev1.Pod{}
	a.MustGet(a.ClientPod(), pod)
	before := pod.DeepCopy()
	pod.Labels = map[string]string{"example.com/friend": value}
	if err := framework.Cluster.Client.Patch(a.Ctx, pod, client.MergeFrom(before)); err != nil {
		a.Fatal(err)
	}
}

// refusesStranger waits until the client pod gets no connection.
func refusesStranger(a *framework.Application) {
	a.Helper()
	a.Eventually(framework.SettleTimeout, "a pod that is not named gets no connection", func() error {
		if out, err := cli(a, "PING"); err == nil {
			return errors.New("it is answered with " + out)
		}
		return nil
	})
}
