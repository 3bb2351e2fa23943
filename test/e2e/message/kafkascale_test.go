// SPDX-License-Identifier: Apache-2.0

package message

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/IBM/sarama"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

const (
	// wide is a topic of many partitions.
	wide           = "wide"
	widePartitions = "500"
)

// TestKafkaScaling has three nodes become five and three again, as brokers and controllers, with a topic of 500
// partitions that a producer sends to: no record that was acknowledged is lost, and no send fails.
func TestKafkaScaling(t *testing.T) {
	k := newKafka(framework.NewNamespaceWithOperator(t, framework.OtherOperator), "wide", 3)
	k.entity("topic", wide, map[string]platformv1.ParameterValue{"partitions": widePartitions})
	for _, step := range []struct {
		name string
		do   func(*kafka)
		on   []int32
	}{
		{"three become five", func(k *kafka) { k.become(5) }, []int32{0, 1, 2}},
		{"replicas are spread", func(k *kafka) { k.operation("Rebalance") }, []int32{0, 1, 2, 3, 4}},
		{"a node restarts", func(k *kafka) { k.restarted(k.pod(3), func() { k.signal(k.pod(3), "TERM", "") }) },
			[]int32{0, 1, 2, 3, 4}},
		{"nodes restart while replicas move", func(k *kafka) {
			k.moves(wide, 5)
			k.operation("Restart")
		}, []int32{0, 1, 2, 3, 4}},
		{"a topic of five replicas keeps five", func(k *kafka) { k.keeps("everywhere", 5) }, []int32{0, 1, 2, 3, 4}},
		{"five become three", func(k *kafka) { k.become(3) }, []int32{0, 1, 2}},
	} {
		t.Run(step.name, func(t *testing.T) {
			k := k.in(t)
			p := k.produce(wide)
			step.do(k)
			p.goesOn()
			if on := k.inSync(wide); !slices.Equal(on, step.on) {
				t.Errorf("the replicas are on brokers %v, want %v", on, step.on)
			}
			p.judge(step.name + " with " + widePartitions + " partitions")
		})
	}
}

// keeps has a topic with a replica on each of so many nodes, of which none goes as long as it is there.
func (k *kafka) keeps(topic string, nodes int32) {
	k.Helper()
	replicas := fmt.Sprint(nodes)
	k.entity("topic", topic, map[string]platformv1.ParameterValue{"partitions": "1",
		"replication-factor": platformv1.ParameterValue(replicas)})
	k.resize(nodes - 2)
	k.Eventually(framework.ReadyTimeout, "the nodes are kept", func() error {
		said := framework.Describe(k.Object().Status.Conditions)
		if !strings.Contains(said, platformv1.ReasonMembersRefused) ||
			!strings.Contains(said, "partition "+topic+"-0 needs "+replicas+" brokers") {
			return fmt.Errorf("it says %s", said)
		}
		return nil
	})
	k.become(nodes)
	e := &platformv1.Entity{ObjectMeta: framework.ObjectMeta(k.Name + "-topic-" + topic)}
	k.Delete(e)
	k.Eventually(framework.SettleTimeout, "topic "+topic+" is gone", func() error {
		if err := k.Get(e.Name, e); !apierrors.IsNotFound(err) {
			return fmt.Errorf("its Entity is %s: %v", framework.Describe(e.Status.Conditions), err)
		}
		return nil
	})
}

// moves begins to move the first replica of each partition to a broker that has none, and does not wait for it.
func (k *kafka) moves(topic string, brokers int32) {
	k.Helper()
	admin := k.admin(k.binding())
	partitions, err := partitionsOf(admin, topic)
	if err != nil {
		k.Fatal(err)
	}
	slices.SortFunc(partitions, func(a, b *sarama.PartitionMetadata) int { return int(a.ID - b.ID) })
	var targets [][]int32
	for _, p := range partitions {
		target := slices.Clone(p.Replicas)
		for slices.Contains(p.Replicas, target[0]) {
			target[0] = (target[0] + 1) % brokers
		}
		targets = append(targets, target)
	}
	if err := admin.AlterPartitionReassignments(topic, targets); err != nil {
		k.Fatalf("cannot move replicas of %s: %v", topic, err)
	}
}
