// SPDX-License-Identifier: Apache-2.0

package message

import (
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/IBM/sarama"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// topic that the tests send to.
const topic = "payments"

// kafkaSpec is a cluster of nodes that are brokers and controllers.
func kafkaSpec(nodes int32) platformv1.ApplicationSpec {
	return platformv1.ApplicationSpec{
		Plugin: "kafka", PluginVersion: "1.0.0", Version: "4.4", Topology: "combined",
		Components: []platformv1.ApplicationComponent{{
			Name: component, Replicas: new(nodes), Storage: &platformv1.Storage{Size: resource.MustParse("2Gi")},
			Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"),
					corev1.ResourceMemory: resource.MustParse("640Mi")},
				Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("768Mi")},
			},
		}},
	}
}

// newKafka makes a cluster of nodes that are brokers and controllers, with a topic.
func newKafka(s *framework.Namespace, name string, nodes int32) *kafka {
	s.Helper()
	k := &kafka{Application: s.CreateApplication(name, kafkaSpec(nodes)), ways: s.NewPortForwards()}
	s.Logf("apply to Ready of %d nodes: %s", nodes, framework.FormatSeconds(k.WaitReady()))
	k.entity("topic", topic, map[string]platformv1.ParameterValue{"partitions": "12"})
	return k
}

// entity makes an object in the cluster and waits for it.
func (k *kafka) entity(kind, name string, parameters map[string]platformv1.ParameterValue) {
	k.Helper()
	e := &platformv1.Entity{ObjectMeta: framework.ObjectMeta(k.Name + "-" + kind + "-" + name),
		Spec: platformv1.EntitySpec{
			ApplicationRef: platformv1.ApplicationReference{Name: k.Name}, Type: kind, Name: name, Parameters: parameters,
			DeletionPolicy: platformv1.EntityDelete,
		}}
	k.Create(e)
	k.Eventually(framework.ReadyTimeout, "Entity "+e.Name+" is ready", func() error {
		if err := k.Get(e.Name, e); err != nil {
			return err
		}
		return framework.ReadyNow(e, e.Status.ObservedGeneration)
	})
}

// TestKafkaUnderLoad changes a cluster under a producer in each way that a user does, and breaks it: no record that was
// acknowledged is lost, and no send fails.
func TestKafkaUnderLoad(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespaceWithOperator(t, framework.OtherOperator)
	k := newKafka(s, "events", 3)
	p := k.produce(topic)

	t.Log("a setting that is read at the start rolls the nodes")
	k.Update(func(spec *platformv1.ApplicationSpec) {
		spec.Components[0].Parameters = platformv1.Parameters{"num.network.threads": "4", "log.retention.ms": "86400000"}
	})
	k.WaitReady()
	p.goesOn()
	k.expectDynamic("log.retention.ms", "86400000")
	before := k.ProcessStarts()
	k.operation("Reload")
	if now := k.ProcessStarts(); !maps.Equal(before, now) {
		t.Errorf("for a Reload processes were started: since %v, and since %v", before, now)
	}

	t.Log("from three nodes to five, and back")
	k.become(5)
	p.goesOn()
	k.operation("Rebalance")
	if brokers := k.inSync(topic); len(brokers) != 5 {
		t.Errorf("after a rebalance the replicas are on brokers %v", brokers)
	}
	k.become(3)
	p.goesOn()
	if brokers := k.inSync(topic); !slices.Equal(brokers, []int32{0, 1, 2}) {
		t.Errorf("after scaling in the replicas are on brokers %v", brokers)
	}

	t.Log("a pod is killed, and a node loses its volume")
	s.ReplacePod(k.pod(1), framework.GraceZero)
	k.WaitReady()
	p.goesOn()
	k.inSync(topic)
	k.operation("RebuildMember", "pod", k.pod(2))
	k.WaitReady()
	k.inSync(topic)
	p.goesOn()
	p.judge("roll, scale, kill and rebuild")
}

// operation runs a template on the cluster and waits for its success.
func (k *kafka) operation(template string, parameters ...string) {
	k.Helper()
	op := framework.NewOperation(strings.ToLower(template+"-"+rand.Text()[:6]), template,
		framework.CoreReference("Application", k.Name), parameters...)
	k.Create(op)
	k.WaitForOperation(op.Name)
}

// expectDynamic reads a setting from the cluster that all brokers have dynamically.
func (k *kafka) expectDynamic(name, want string) {
	k.Helper()
	admin := k.admin(k.binding())
	k.Eventually(framework.SettleTimeout, name+" is "+want, func() error {
		entries, err := admin.DescribeConfig(sarama.ConfigResource{Type: sarama.BrokerResource, Name: ""})
		if err != nil {
			return err
		}
		for _, entry := range entries {
			if entry.Name == name && entry.Value == want {
				return nil
			}
		}
		return fmt.Errorf("it is not among %d settings", len(entries))
	})
}
