// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// TestLeaderElection proves that of two replicas one leads, that the other takes over when the leader is killed or told
// to go, and that a change made in between is carried out by the new one.
func TestLeaderElection(t *testing.T) {
	s := framework.NewNamespace(t, "leader")
	s.RestoreOperatorAtEnd()
	s.MustInstall(framework.OperatorName, "replicas=2")
	i := s.CreateRedis("db")
	i.WaitReady()
	for _, c := range []struct {
		name  string
		end   func(s *framework.Namespace, pod string)
		value string
	}{
		{"leader killed", killPod, "301"},
		{"leader told to go", dismissPod, "302"},
	} {
		t.Run(c.name, func(t *testing.T) {
			i := &framework.Instance{Namespace: s.In(t), Name: i.Name}
			twoReplicas(i.Namespace)
			old := i.MustLeader()
			before := i.Footprint()
			c.end(i.Namespace, old)
			start := time.Now()
			i.Update(func(spec *databasev1.RedisSpec) {
				spec.Parameters = platformv1.Parameters{"maxclients": platformv1.ParameterValue(c.value)}
			})
			took := i.Eventually(framework.LeaderTimeout, "another replica leads", func() error {
				name, err := framework.Leader(i.Ctx)
				if err == nil && name == old {
					err = fmt.Errorf("the leader is still %q", old)
				}
				return err
			})
			i.Eventually(framework.SettleTimeout, "the change is carried out", func() error {
				return i.WaitForConfig(map[string]string{"maxclients": c.value})
			})
			t.Logf("another leader after %s, the change carried out after %s", framework.FormatSeconds(took),
				framework.FormatSeconds(time.Since(start)))
			i.WaitReady()
			if err := before.SameProcess(i.Footprint()); err != nil {
				t.Error(err)
			}
		})
	}
}

// killPod kills a pod of the operator with no time to say goodbye.
func killPod(s *framework.Namespace, name string) {
	s.Helper()
	pod := &corev1.Pod{}
	key := client.ObjectKey{Namespace: framework.OperatorNamespace, Name: name}
	if err := framework.Cluster.Client.Get(s.Ctx, key, pod); err != nil {
		s.Fatal(err)
	}
	s.PreparePodKill(*pod)()
	s.Delete(pod, framework.GraceZero)
}

// dismissPod deletes a pod of the operator in good order.
func dismissPod(s *framework.Namespace, name string) {
	s.Helper()
	s.Delete(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: framework.OperatorNamespace, Name: name}})
}

// twoReplicas waits until both replicas are ready: one that does not lead is ready too.
func twoReplicas(s *framework.Namespace) {
	s.Helper()
	s.Eventually(framework.ReadyTimeout, "two replicas are ready", func() error {
		pods, err := framework.OperatorPods(s.Ctx)
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
