// SPDX-License-Identifier: Apache-2.0

package message

import (
	"slices"
	"testing"

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
