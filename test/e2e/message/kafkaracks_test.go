// SPDX-License-Identifier: Apache-2.0

package message

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"testing"

	"github.com/IBM/sarama"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	messagev1 "github.com/zeroinfra/message-operator/api/v1"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// racksName is the cluster whose brokers are in racks.
const racksName = "racks"

// racked is a cluster of three brokers, of which no two are in one zone.
func racked() *messagev1.KafkaCluster {
	spec := messagev1.KafkaClusterSpec{
		InstanceSpec: platformv1.InstanceSpec{Version: "4.4", Resources: small("640Mi"),
			Storage: platformv1.InstanceStorage{Size: resource.MustParse("2Gi")}},
		ReplicaSelector: messagev1.SelectorRackAware,
	}
	spec.Scheduling = &platformv1.Scheduling{TopologySpreadConstraints: []corev1.TopologySpreadConstraint{
		{TopologyKey: corev1.LabelTopologyZone, MaxSkew: 1, WhenUnsatisfiable: corev1.DoNotSchedule},
	}}
	return &messagev1.KafkaCluster{ObjectMeta: framework.ObjectMeta(racksName), Spec: spec}
}

// TestKafkaRacks has each broker be in the rack that is the zone of its node: partitions are spread over racks, a
// consumer is led to the replica in its own rack, and a broker whose node gets another zone is there from its next pod
// on. It runs alone because it changes labels of nodes.
func TestKafkaRacks(t *testing.T) {
	s := framework.NewNamespaceWithOperator(t, framework.OtherOperator)
	nodes := &corev1.NodeList{}
	if err := framework.Cluster.Client.List(s.Ctx, nodes); err != nil {
		t.Fatal(err)
	}
	for i := range nodes.Items {
		label(s, &nodes.Items[i], fmt.Sprintf("rack-%d", i))
	}
	cluster := racked()
	s.Create(cluster)
	k := &kafka{Application: &framework.Application{Namespace: s, Name: "kafkacluster-" + racksName},
		ways: s.NewPortForwards()}
	k.waitFor(cluster, func() int64 { return cluster.Status.ObservedGeneration })
	racks := k.inRacks(cluster)
	if len(racks) != 3 {
		t.Fatalf("the brokers are in the racks %v, want three", racks)
	}
	spread := topicFor("spread", func(spec *messagev1.KafkaTopicSpec) {
		spec.ClusterRef.Name, spec.Replicas = racksName, 3
	})
	s.Create(spread)
	k.waitFor(spread, func() int64 { return spread.Status.ObservedGeneration })
	k.inSync(spread.Name)
	for rack, broker := range racks {
		k.leadsTo(spread.Name, rack, broker)
	}

	t.Log("a node gets another zone")
	moved := k.pod(2)
	for i := range nodes.Items {
		if nodes.Items[i].Name == k.NodeOf(moved) {
			label(s, &nodes.Items[i], "rack-of-another-name")
		}
	}
	k.ReplacePod(moved)
	k.waitFor(cluster, func() int64 { return cluster.Status.ObservedGeneration })
	if racks := k.inRacks(cluster); racks["rack-of-another-name"] != 2 {
		t.Errorf("the brokers are in the racks %v", racks)
	}
}

// label puts a node into a zone until the end of the test.
func label(s *framework.Namespace, node *corev1.Node, zone string) {
	s.Helper()
	put := func(ctx context.Context, zone any) error {
		body, err := json.Marshal(map[string]any{"metadata": map[string]any{
			"labels": map[string]any{corev1.LabelTopologyZone: zone}}})
		if err != nil {
			return err
		}
		return framework.Cluster.Client.Patch(ctx, node.DeepCopy(), client.RawPatch(types.MergePatchType, body))
	}
	before, had := node.Labels[corev1.LabelTopologyZone]
	if err := put(s.Ctx, zone); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		was := any(nil)
		if had {
			was = before
		}
		if err := put(context.Background(), was); err != nil {
			s.Errorf("node %s is still in zone %s: %v", node.Name, zone, err)
		}
	})
}

// inRacks waits until Kafka, the status and the nodes agree on the racks of brokers, and returns these.
func (k *kafka) inRacks(cluster *messagev1.KafkaCluster) (brokers map[string]int32) {
	k.Helper()
	k.Eventually(framework.SettleTimeout, "the racks are the zones of the nodes", func() error {
		if err := k.Get(cluster.Name, cluster); err != nil {
			return err
		}
		told := map[string]string{}
		for _, rack := range cluster.Status.Racks {
			told[rack.Pod] = rack.Rack
		}
		want := map[string]string{}
		for _, pod := range k.podNames(3) {
			node := &corev1.Node{}
			if err := framework.Cluster.Client.Get(k.Ctx, client.ObjectKey{Name: k.NodeOf(pod)}, node); err != nil {
				return err
			}
			want[pod] = node.Labels[corev1.LabelTopologyZone]
		}
		if !maps.Equal(told, want) {
			return fmt.Errorf("the status tells of %v, and the nodes of %v", told, want)
		}
		var err error
		if brokers, err = k.racks(); err != nil {
			return err
		}
		for id, pod := range k.podNames(3) {
			if brokers[want[pod]] != int32(id) {
				return fmt.Errorf("the brokers are in the racks %v, and the nodes in %v", brokers, want)
			}
		}
		return nil
	})
	return brokers
}

// racks of the brokers, as they tell a client: one broker in each.
func (k *kafka) racks() (map[string]int32, error) {
	a := k.binding()
	c, err := sarama.NewClient([]string{a.address}, k.config(a))
	if err != nil {
		return nil, err
	}
	defer c.Close()
	brokers := map[string]int32{}
	for _, broker := range c.Brokers() {
		brokers[broker.Rack()] = broker.ID()
	}
	return brokers, nil
}

// leadsTo waits until the leader of the first partition leads a consumer in a rack to the broker there; none where the
// leader is that broker.
func (k *kafka) leadsTo(topic, rack string, broker int32) {
	k.Helper()
	a := k.binding()
	c, err := sarama.NewClient([]string{a.address}, k.config(a))
	if err != nil {
		k.Fatal(err)
	}
	defer c.Close()
	k.Eventually(framework.SettleTimeout, "a consumer in "+rack+" reads there", func() error {
		leader, err := c.Leader(topic, 0)
		if err != nil {
			return err
		}
		request := &sarama.FetchRequest{Version: 11, MaxBytes: 1 << 20, Isolation: sarama.ReadUncommitted, RackID: rack}
		request.AddBlock(topic, 0, 0, 1<<20, -1)
		response, err := leader.Fetch(request)
		if err != nil {
			return err
		}
		want := broker
		if leader.ID() == broker {
			want = -1
		}
		if block := response.GetBlock(topic, 0); block == nil || block.PreferredReadReplica != want {
			return fmt.Errorf("the leader %d answers %+v", leader.ID(), block)
		}
		return nil
	})
}
