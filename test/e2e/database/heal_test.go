// SPDX-License-Identifier: Apache-2.0

package database

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// Write gaps at which a test fails: twenty times the budgets of the design, since a busy machine is no defect. The
// tests log what they measure.
const killGap = 60 * time.Second

// TestProcessKilled proves that redis-server, killed under load, comes back in the same container with every
// acknowledged write. It runs alone because it measures.
func TestProcessKilled(t *testing.T) {
	s := framework.NewNamespace(t, "kill")
	i := s.CreateRedis("db", framework.WithFsyncAlways())
	i.WaitReady()
	before := i.Footprint()
	run := before.Run
	for n := range max(framework.Config.ProcessKills, framework.Config.FaultRounds) {
		t.Run(fmt.Sprintf("round %d", n+1), func(t *testing.T) {
			i := &framework.Instance{Namespace: s.In(t), Name: i.Name}
			w := i.StartWriter()
			i.KillProcess(i.Info("process_id"))
			i.Eventually(framework.SettleTimeout, "another process answers", func() error {
				out, err := i.Do("INFO")
				if err == nil && framework.InfoField(out, "run_id") == run {
					err = fmt.Errorf("it is still the old one")
				}
				if err == nil {
					run = framework.InfoField(out, "run_id")
				}
				return err
			})
			w.WaitForWrite()
			w.Stop()
			w.StopAndRecord("one server: process killed", killGap)
		})
	}
	i.WaitReady()
	if err := before.RestartedInPlace(i.Footprint()); err != nil {
		t.Error(err)
	}
}

// TestPodDeleted proves that a deleted pod comes back with its data.
func TestPodDeleted(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespace(t, "pod")
	i := s.CreateRedis("db", framework.WithFsyncAlways())
	i.WaitReady()
	for _, grace := range []string{"graceful", "forced"} {
		t.Run(grace, func(t *testing.T) {
			i := &framework.Instance{Namespace: s.In(t), Name: i.Name}
			claim := i.Claim().UID
			w := i.StartWriter()
			before := i.Pod()
			if grace == "forced" {
				i.Delete(before, framework.GraceZero)
			} else {
				i.Delete(before)
			}
			took := i.Eventually(framework.ReadyTimeout, "the pod is replaced", func() error { return i.PodReplaced(before) })
			w.WaitForWrite()
			w.Stop()
			i.WaitReady()
			t.Logf("%s: new pod ready after %s", grace, framework.FormatSeconds(took))
			w.StopAndVerify(grace, framework.AnyGap)
			if i.Claim().UID != claim {
				t.Error("the claim was replaced")
			}
			if role := i.Pod().Labels[platformv1.RoleLabel]; role == "" {
				t.Error("the new pod has no role")
			}
		})
	}
}

// TestAgentsKilled proves that the death of an agent is no more than that. Only the node can kill the first
// process of a container, so it needs the dev cluster.
func TestAgentsKilled(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespace(t, "agents")
	i := s.CreateRedis("db", framework.WithFsyncAlways())
	i.WaitReady()
	t.Run("status agent", func(t *testing.T) {
		i := &framework.Instance{Namespace: s.In(t), Name: i.Name}
		before := i.Footprint()
		w := i.StartWriter()
		killContainer(i, i.StatusContainer())
		w.WaitForWrite()
		w.Stop()
		after := i.Footprint()
		if before.Run != after.Run || before.Pod != after.Pod ||
			before.Restarts[framework.RedisComponent] != after.Restarts[framework.RedisComponent] {
			t.Errorf("the death of the status agent touched redis-server: before %+v, after %+v", before, after)
		}
		checkAlive(i, w)
	})
	t.Run("process manager", func(t *testing.T) {
		i := &framework.Instance{Namespace: s.In(t), Name: i.Name}
		before := i.Footprint()
		w := i.StartWriter()
		killContainer(i, framework.RedisComponent)
		w.WaitForWrite()
		w.Stop()
		if after := i.Footprint(); before.Pod != after.Pod || before.Run == after.Run {
			t.Errorf("the pod has to stay and the process has to be new: before %+v, after %+v", before, after)
		}
		checkAlive(i, w)
	})
}

// checkAlive proves that an instance is ready and has every acknowledged write.
func checkAlive(i *framework.Instance, w *framework.Writer) {
	i.Helper()
	i.WaitReady()
	w.StopAndVerify("an agent killed", framework.AnyGap)
}

// killContainer kills the first process of a container from the node and waits until the kubelet has started another
// one.
func killContainer(i *framework.Instance, name string) {
	i.Helper()
	status := containerStatus(i, name)
	i.PrepareContainerKill(status.ContainerID)()
	i.Eventually(framework.SettleTimeout, "the container is started again", func() error {
		now := containerStatus(i, name)
		if now.RestartCount == status.RestartCount || now.State.Running == nil {
			return fmt.Errorf("container %q has %d restarts and state %v", name, now.RestartCount, now.State)
		}
		return nil
	})
}

func containerStatus(i *framework.Instance, name string) corev1.ContainerStatus {
	i.Helper()
	for _, status := range i.Pod().Status.ContainerStatuses {
		if status.Name == name {
			return status
		}
	}
	i.Fatalf("pod %q has no status of container %q", i.PodName(), name)
	return corev1.ContainerStatus{}
}
