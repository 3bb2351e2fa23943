// SPDX-License-Identifier: Apache-2.0

package message

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/IBM/sarama"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/test/e2e/framework"
)

// killPoint is a step of a change of the number of nodes.
type killPoint struct {
	name  string
	nodes int32
	// reached says what is missing until the step has begun.
	reached func(k *kafka) error
}

// TestOperatorKilledDuringKafkaScaling kills the operator (SIGKILL from the node) in each step of three nodes becoming
// five, and of five becoming three, under a producer. The next operator finishes: no record that was acknowledged is
// lost, no send fails, and there are as many brokers and voters as are asked for.
func TestOperatorKilledDuringKafkaScaling(t *testing.T) {
	k := newKafka(framework.NewNamespaceWithOperator(t, framework.OtherOperator), "kills", 3)
	for _, point := range []killPoint{
		{"five: at once", 5, func(*kafka) error { return nil }},
		{"three: replicas move", 3, func(k *kafka) error { return k.drains(draining) }},
		{"five: a pod is there", 5, func(k *kafka) error { return k.Get(k.pod(3), &corev1.Pod{}) }},
		{"three: brokers are empty", 3, func(k *kafka) error { return k.drains(drained) }},
		{"five: a controller votes", 5, func(k *kafka) error {
			return k.electorate(func(voters []string) bool { return len(voters) > 3 })
		}},
		{"three: a controller votes no more", 3, func(k *kafka) error {
			return k.electorate(func(voters []string) bool { return len(voters) < 5 })
		}},
		{"five: all vote", 5, func(k *kafka) error { return k.voting(5) }},
		{"three: a pod goes", 3, func(k *kafka) error { return k.goes(k.pod(4)) }},
	} {
		t.Run(point.name, func(t *testing.T) {
			k := k.in(t)
			p := k.produce(topic)
			k.resize(point.nodes)
			k.Eventually(2*framework.ReadyTimeout, point.name, func() error { return point.reached(k) })
			k.KillOperator(framework.OtherOperator)
			k.areNodes(point.nodes)
			if point.nodes == 5 {
				k.operation("Rebalance")
			}
			p.goesOn()
			if on := k.inSync(topic); len(on) != int(point.nodes) {
				t.Errorf("the replicas are on brokers %v, want %d", on, point.nodes)
			}
			p.judge("operator killed; " + point.name)
		})
	}
}

// emptying is how far the brokers are that leave.
type emptying string

const (
	draining emptying = "replicas leave them"
	drained  emptying = "they hold none"
)

// drains says what is missing until brokers 3 and 4 are so far.
func (k *kafka) drains(far emptying) error {
	return k.ask(func(admin sarama.ClusterAdmin) error {
		partitions, err := partitionsOf(admin, topic)
		if err != nil {
			return err
		}
		var ids []int32
		held := 0
		for _, p := range partitions {
			ids = append(ids, p.ID)
			if slices.Contains(p.Replicas, 3) || slices.Contains(p.Replicas, 4) {
				held++
			}
		}
		moving, err := admin.ListPartitionReassignments(topic, ids)
		if err == nil && held > 0 && (far == drained || len(moving[topic]) == 0) {
			err = fmt.Errorf("they hold replicas of %d partitions, of which %d move", held, len(moving[topic]))
		}
		return err
	})
}

// electorate says what the voters are unless they are as wanted.
func (k *kafka) electorate(wanted func(voters []string) bool) error {
	voters, err := k.voters()
	if err == nil && !wanted(voters) {
		err = fmt.Errorf("the voters are %v", voters)
	}
	return err
}

// goes says that a pod is there and stays.
func (k *kafka) goes(name string) error {
	pod := &corev1.Pod{}
	err := k.Get(name, pod)
	if err == nil && pod.DeletionTimestamp == nil {
		return errors.New("it is there")
	}
	return client.IgnoreNotFound(err)
}
