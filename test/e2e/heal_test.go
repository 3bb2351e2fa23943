// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// Write gaps at which a test fails: twenty times the budgets of the design, since a busy machine is no defect. The
// tests log what they measure.
const (
	killGap    = 60 * time.Second
	restartGap = 40 * time.Second
)

// TestProcessKilled proves that redis-server, killed under load, comes back in the same container with every
// acknowledged write. It runs alone because it measures.
func TestProcessKilled(t *testing.T) {
	s := newSpace(t, "kill")
	i := s.redis("db", safe())
	i.ready()
	before := i.footprint()
	run := before.run
	for n := range max(set.processKills, set.faultRounds) {
		t.Run(fmt.Sprintf("round %d", n+1), func(t *testing.T) {
			i := &instance{space: s.in(t), name: i.name}
			w := i.startWriter()
			i.kill9(i.info("process_id"))
			i.eventually(settleIn, "another process answers", func() error {
				out, err := i.do("INFO")
				if err == nil && infoField(out, "run_id") == run {
					err = fmt.Errorf("it is still the old one")
				}
				if err == nil {
					run = infoField(out, "run_id")
				}
				return err
			})
			w.resumed()
			w.stop()
			w.judged("one server: process killed", killGap)
		})
	}
	i.ready()
	if err := before.restartedInPlace(i.footprint()); err != nil {
		t.Error(err)
	}
}

// kill9 kills a process in the container that runs redis-server.
func (i *instance) kill9(pid string) {
	i.Helper()
	if _, err := run(i.ctx, i.space.name, i.podName(), redisComponent, "", "kill", "-9", pid); err != nil {
		i.Fatal(err)
	}
}

// TestPodDeleted proves that a deleted pod comes back with its data.
func TestPodDeleted(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "pod")
	i := s.redis("db", safe())
	i.ready()
	for _, grace := range []string{"graceful", "forced"} {
		t.Run(grace, func(t *testing.T) {
			i := &instance{space: s.in(t), name: i.name}
			claim := i.claim().UID
			w := i.startWriter()
			before := i.pod()
			if grace == "forced" {
				i.delete(before, graceZero)
			} else {
				i.delete(before)
			}
			took := i.eventually(readyIn, "the pod is replaced", func() error { return i.replaced(before) })
			w.resumed()
			w.stop()
			i.ready()
			t.Logf("%s: new pod ready after %s", grace, seconds(took))
			w.judge(grace, anyGap)
			if i.claim().UID != claim {
				t.Error("the claim was replaced")
			}
			if role := i.pod().Labels[platformv1.RoleLabel]; role == "" {
				t.Error("the new pod has no role")
			}
		})
	}
}

// TestAgentsKilled proves that the death of an agent is no more than that. Only the node can kill the first
// process of a container, so it needs the dev cluster.
func TestAgentsKilled(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "agents")
	i := s.redis("db", safe())
	i.ready()
	t.Run("status agent", func(t *testing.T) {
		i := &instance{space: s.in(t), name: i.name}
		before := i.footprint()
		w := i.startWriter()
		i.killContainer(i.statusContainer())
		w.resumed()
		w.stop()
		after := i.footprint()
		if before.run != after.run || before.pod != after.pod || before.restarts[redisComponent] != after.restarts[redisComponent] {
			t.Errorf("the death of the status agent touched redis-server: before %+v, after %+v", before, after)
		}
		i.checkAlive(w)
	})
	t.Run("process manager", func(t *testing.T) {
		i := &instance{space: s.in(t), name: i.name}
		before := i.footprint()
		w := i.startWriter()
		i.killContainer(redisComponent)
		w.resumed()
		w.stop()
		if after := i.footprint(); before.pod != after.pod || before.run == after.run {
			t.Errorf("the pod has to stay and the process has to be new: before %+v, after %+v", before, after)
		}
		i.checkAlive(w)
	})
}

// checkAlive proves that an instance is ready and has every acknowledged write.
func (i *instance) checkAlive(w *writer) {
	i.Helper()
	i.ready()
	w.judge("an agent killed", anyGap)
}

// statusContainer returns the name of the container that is not the middleware's.
func (i *instance) statusContainer() string {
	i.Helper()
	for _, container := range i.pod().Spec.Containers {
		if container.Name != redisComponent {
			return container.Name
		}
	}
	i.Fatal("the pod has no status container")
	return ""
}

// killContainer kills the first process of a container from the node and waits until the kubelet has started another one.
func (i *instance) killContainer(name string) {
	i.Helper()
	status := i.containerStatus(name)
	i.aimFromNode(status.ContainerID)()
	i.eventually(settleIn, "the container is started again", func() error {
		now := i.containerStatus(name)
		if now.RestartCount == status.RestartCount || now.State.Running == nil {
			return fmt.Errorf("container %q has %d restarts and state %v", name, now.RestartCount, now.State)
		}
		return nil
	})
}

func (i *instance) containerStatus(name string) corev1.ContainerStatus {
	i.Helper()
	for _, status := range i.pod().Status.ContainerStatuses {
		if status.Name == name {
			return status
		}
	}
	i.Fatalf("pod %q has no status of container %q", i.podName(), name)
	return corev1.ContainerStatus{}
}
