// SPDX-License-Identifier: Apache-2.0

package message

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/IBM/sarama"
	corev1 "k8s.io/api/core/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// TestKafkaFaults breaks one node of three after the other, each of which is broker and controller, under a producer:
// no record that was acknowledged is lost, no send fails, and all vote and are in sync afterwards. It runs alone, since
// it cuts a node off.
func TestKafkaFaults(t *testing.T) {
	k := newKafka(framework.NewNamespaceWithOperator(t, framework.OtherOperator), "faults", 3)
	for _, fault := range []struct {
		name string
		does func(k *kafka)
	}{
		{"broker killed", func(k *kafka) { k.restarted(k.pod(0), func() { k.signal(k.pod(0), "KILL", "") }) }},
		{"process manager killed", func(k *kafka) {
			k.restarted(k.pod(1), func() { k.PrepareContainerKill(k.containerOf(k.pod(1)))() })
		}},
		{"pod deleted at once", func(k *kafka) { k.ReplacePod(k.pod(2), framework.GraceZero) }},
		// It is the node that formed the cluster, and must not form another one.
		{"disk wiped in place", func(k *kafka) {
			k.restarted(k.pod(0), func() { k.signal(k.pod(0), "KILL", "rm -rf /data/kafka\n") })
		}},
		{"pod and disk gone", func(k *kafka) { k.wipe(k.pod(1)) }},
		{"pod and disk of the first node gone", func(k *kafka) { k.wipe(k.pod(0)) }},
		{"node cut off", func(k *kafka) { k.cutOff(1) }},
	} {
		t.Run(fault.name, func(t *testing.T) {
			k := k.in(t)
			p := k.produce(topic)
			fault.does(k)
			k.areNodes(3)
			p.goesOn()
			if on := k.inSync(topic); !slices.Equal(on, []int32{0, 1, 2}) {
				t.Errorf("the replicas are on brokers %v", on)
			}
			p.judge(fault.name)
		})
	}
	t.Run("rebuild of what others lack", func(t *testing.T) { k.in(t).asksBeforeLoss() })
}

// asksBeforeLoss has the volume of a broker be deleted that has the only replica of a partition: not before that loss
// is accepted.
func (k *kafka) asksBeforeLoss() {
	k.Helper()
	k.entity("topic", "alone", map[string]platformv1.ParameterValue{"partitions": "3", "replication-factor": "1"})
	before := k.ProcessStarts()
	target := framework.CoreReference("Application", k.Name)
	k.ExpectOperationRefused(framework.NewOperation("lossy", "RebuildMember", target, "pod", k.pod(2)), "alone-")
	if now := k.ProcessStarts(); !maps.Equal(now, before) {
		k.Errorf("processes were started for what was refused: since %v, and since %v", before, now)
	}
	k.operation("RebuildMember", "pod", k.pod(2), "acceptLoss", "yes")
	k.areNodes(3)
	k.inSync(topic)
}

// containerOf is the ID of the container that runs the server of a pod.
func (k *kafka) containerOf(pod string) string {
	k.Helper()
	found := &corev1.Pod{}
	k.MustGet(pod, found)
	i := slices.IndexFunc(found.Status.ContainerStatuses,
		func(c corev1.ContainerStatus) bool { return c.Name == component })
	if i < 0 {
		k.Fatalf("pod %s has no container %q", pod, component)
	}
	return found.Status.ContainerStatuses[i].ContainerID
}

// cutOff cuts off the node of a pod until others lead its partitions, and records are acknowledged again.
func (k *kafka) cutOff(n int) {
	k.Helper()
	node := k.NodeOf(k.pod(n))
	k.VacateNode(node, framework.OperatorNamespace, "kube-system")
	p := k.produce(topic)
	framework.DevCluster(k.T, "node", "cut", node)
	heal := sync.OnceFunc(func() { framework.DevCluster(k.T, "node", "heal", node) })
	defer heal()
	k.Eventually(framework.ReadyTimeout, fmt.Sprintf("broker %d leads no partition", n), func() error {
		return k.ask(func(admin sarama.ClusterAdmin) error {
			partitions, err := partitionsOf(admin, topic)
			for _, partition := range partitions {
				if partition.Leader == int32(n) {
					err = errors.Join(err, fmt.Errorf("it leads partition %d", partition.ID))
				}
			}
			return err
		})
	})
	p.goesOn()
	heal()
	p.judge("while the node is cut off")
}
