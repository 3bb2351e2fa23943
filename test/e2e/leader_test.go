// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// TestLeaderElection proves that of two replicas one leads, that the other takes over when the leader is killed or told to
// go, and that a change made in between is carried out by the new one.
func TestLeaderElection(t *testing.T) {
	s := newSpace(t, "leader")
	s.restoreOperator()
	s.mustInstall(operatorName, "replicas=2")
	i := s.redis("db")
	i.ready()
	for _, c := range []struct {
		name  string
		end   func(s *space, pod string)
		value string
	}{
		{"leader killed", (*space).killPod, "301"},
		{"leader told to go", (*space).dismissPod, "302"},
	} {
		t.Run(c.name, func(t *testing.T) {
			i := &instance{space: s.in(t), name: i.name}
			i.twoReplicas()
			old := i.mustLeader()
			before := i.footprint()
			c.end(i.space, old)
			start := time.Now()
			i.update(func(spec *databasev1.RedisSpec) {
				spec.Parameters = platformv1.Parameters{"maxclients": platformv1.ParameterValue(c.value)}
			})
			took := i.eventually(leaderIn, "another replica leads", func() error {
				name, err := leader(i.ctx)
				if err == nil && name == old {
					err = fmt.Errorf("the leader is still %q", old)
				}
				return err
			})
			i.eventually(settleIn, "the change is carried out", func() error {
				return i.wantConfig(map[string]string{"maxclients": c.value})
			})
			t.Logf("another leader after %s, the change carried out after %s", seconds(took), seconds(time.Since(start)))
			i.ready()
			if err := before.sameProcess(i.footprint()); err != nil {
				t.Error(err)
			}
		})
	}
}

// killPod kills a pod of the operator with no time to say goodbye.
func (s *space) killPod(name string) {
	s.Helper()
	pod := &corev1.Pod{}
	if err := world.client.Get(s.ctx, client.ObjectKey{Namespace: operatorNamespace, Name: name}, pod); err != nil {
		s.Fatal(err)
	}
	s.aimAtPods(*pod)()
	s.delete(pod, graceZero)
}

// dismissPod deletes a pod of the operator in good order.
func (s *space) dismissPod(name string) {
	s.Helper()
	s.delete(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: operatorNamespace, Name: name}})
}

// twoReplicas waits until both replicas are ready: one that does not lead is ready too.
func (s *space) twoReplicas() {
	s.Helper()
	s.eventually(readyIn, "two replicas are ready", func() error {
		pods, err := operatorPods(s.ctx)
		if err != nil {
			return err
		}
		ready := 0
		for _, pod := range pods {
			for _, c := range pod.Status.Conditions {
				if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
					ready++
				}
			}
		}
		if ready != 2 {
			return fmt.Errorf("%d of %d pods are ready", ready, len(pods))
		}
		return nil
	})
}
