// SPDX-License-Identifier: Apache-2.0

package message

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"k8s.io/apimachinery/pkg/api/resource"

	messagev1 "github.com/zeroinfra/message-operator/api/v1"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// driftTimeout is longer than the time between two looks at what has not changed.
const driftTimeout = 8 * time.Minute

// TestKafkaTopicsByHand has topics of people who work with Kafka's own tools beside objects: what they made is left
// alone until it is to be adopted, what they change is put right and counted, and what they read is not deleted.
func TestKafkaTopicsByHand(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespaceWithOperator(t, framework.OtherOperator)
	cluster := single("shared")
	s.Create(cluster)
	k := &kafka{Application: &framework.Application{Namespace: s, Name: "kafkacluster-" + cluster.Name},
		ways: s.NewPortForwards()}
	k.waitFor(cluster, func() int64 { return cluster.Status.ObservedGeneration })
	kept := k.topicOf(cluster, "kept", func(spec *messagev1.KafkaTopicSpec) {
		spec.Config = platformv1.Parameters{"segment.bytes": "1048576"}
	})
	k.Create(kept)
	k.waitFor(kept, func() int64 { return kept.Status.ObservedGeneration })
	k.changeByHand(kept.Name, "segment.bytes", "2097152")
	k.adopts(cluster)
	k.guards(cluster)
	k.Eventually(driftTimeout, "the topic is put right, and that is counted", func() error {
		k.MustGet(kept.Name, kept)
		size, err := k.configOf(kept.Name, "segment.bytes")
		if err == nil && (size != "1048576" || kept.Status.DriftRepairs != 1) {
			err = fmt.Errorf("segment.bytes is %q after %d repairs", size, kept.Status.DriftRepairs)
		}
		return err
	})
}

// topicOf is a topic of a cluster of one node.
func (k *kafka) topicOf(cluster *messagev1.KafkaCluster, name string,
	change func(*messagev1.KafkaTopicSpec)) *messagev1.KafkaTopic {
	return topicFor(name, func(spec *messagev1.KafkaTopicSpec) {
		spec.ClusterRef.Name, spec.Replicas = cluster.Name, 1
		if change != nil {
			change(spec)
		}
	})
}

// changeByHand sets an entry of a topic's configuration.
func (k *kafka) changeByHand(topic, name, value string) {
	k.Helper()
	err := k.ask(func(admin sarama.ClusterAdmin) error {
		return admin.IncrementalAlterConfig(sarama.TopicResource, topic, map[string]sarama.IncrementalAlterConfigsEntry{
			name: {Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &value}}, false)
	})
	if err != nil {
		k.Fatalf("cannot set %s of topic %q: %v", name, topic, err)
	}
}

// configOf reads an entry of a topic's configuration.
func (k *kafka) configOf(topic, name string) (value string, err error) {
	err = k.ask(func(admin sarama.ClusterAdmin) error {
		entries, err := admin.DescribeConfig(sarama.ConfigResource{Type: sarama.TopicResource, Name: topic,
			ConfigNames: []string{name}})
		for _, entry := range entries {
			value = entry.Value
		}
		return err
	})
	return value, err
}

// adopts has an object take over a topic and a quota that were made by hand, and not before it is asked to. The quota
// is of a client by its name.
func (k *kafka) adopts(cluster *messagev1.KafkaCluster) {
	k.Helper()
	const records, each = 40, 10 << 10
	of := k.topicOf(cluster, "legacy", func(spec *messagev1.KafkaTopicSpec) {
		spec.Partitions = 4
		spec.Quotas = []messagev1.KafkaQuota{{ClientID: clientID,
			KafkaRates: messagev1.KafkaRates{ProducerByteRate: new(resource.MustParse("20Ki"))}}}
	})
	err := k.ask(func(admin sarama.ClusterAdmin) error {
		quota := admin.AlterClientQuotas([]sarama.QuotaEntityComponent{{EntityType: sarama.QuotaEntityClientID,
			MatchType: sarama.QuotaMatchExact, Name: clientID}},
			sarama.ClientQuotasOp{Key: "producer_byte_rate", Value: 1 << 30}, false)
		return errors.Join(quota, admin.CreateTopic(of.Name, &sarama.TopicDetail{NumPartitions: 2, ReplicationFactor: 1},
			false))
	})
	if err != nil {
		k.Fatalf("cannot make a topic and a quota by hand: %v", err)
	}
	if err := k.send(k.binding(), of.Name, records, each); err != nil {
		k.Fatal(err)
	}
	k.Create(of)
	k.stalls(of, platformv1.ReasonAlreadyExists)
	if n := k.partitions(of.Name); n != 2 {
		k.Errorf("a topic that is not adopted has %d partitions", n)
	}
	k.patch(of, func() { of.Spec.Adopt = true })
	k.waitFor(of, func() int64 { return of.Status.ObservedGeneration })
	if n := k.partitions(of.Name); n != 4 {
		k.Errorf("a topic that is adopted has %d partitions", n)
	}
	if there := k.read(k.binding(), of.Name); len(there) != records {
		k.Errorf("a topic that is adopted has %d records, want %d", len(there), records)
	}
	began := time.Now()
	if err := k.send(k.binding(), of.Name, records, each); err != nil {
		k.Error(err)
	}
	// 400 KiB at 20 KiB a second take 20 s. Kafka counts over windows of 11 s.
	if took := time.Since(began); took < 5*time.Second {
		k.Errorf("400 KiB took %s: the quota of the client does not hold it up", took)
	}
}

// partitions are how many a topic has; 0 where it is not there.
func (k *kafka) partitions(topic string) int {
	k.Helper()
	var n int
	k.Eventually(framework.SettleTimeout, "Kafka tells of its topics", func() error {
		return k.ask(func(admin sarama.ClusterAdmin) error {
			topics, err := admin.ListTopics()
			n = int(topics[topic].NumPartitions)
			return err
		})
	})
	return n
}

// guards has topics that a consumer group reads be deleted: one goes once the group has, the other one when that is
// asked for.
func (k *kafka) guards(cluster *messagev1.KafkaCluster) {
	k.Helper()
	for name, release := range map[string]func(entity *platformv1.Entity, leave func()){
		"read until its readers leave": func(_ *platformv1.Entity, leave func()) { leave() },
		"read by somebody": func(entity *platformv1.Entity, _ func()) {
			k.patch(entity, func() { entity.Spec.Parameters["delete-while-consumed"] = "yes" })
		},
	} {
		of := k.topicOf(cluster, strings.ReplaceAll(name, " ", "-"), nil)
		k.Create(of)
		k.waitFor(of, func() int64 { return of.Status.ObservedGeneration })
		leave := k.reads(of.Name)
		k.Delete(of)
		entity := &platformv1.Entity{}
		k.Eventually(framework.SettleTimeout, "the Entity says who reads topic "+of.Name, func() error {
			if err := k.Get(k.Name+"-topic-"+of.Name, entity); err != nil {
				return err
			}
			if says := framework.Describe(entity.Status.Conditions); !strings.Contains(says, `("readers" with 1)`) {
				return fmt.Errorf("it says %s", says)
			}
			return nil
		})
		if k.partitions(of.Name) == 0 {
			k.Errorf("topic %q is gone while it is read", of.Name)
		}
		release(entity, leave)
		k.Eventually(framework.SettleTimeout, "the topic and its Entity are gone", func() error {
			if n := k.partitions(of.Name); n != 0 {
				return fmt.Errorf("it has %d partitions", n)
			}
			return framework.ErrUnlessNotFound(k.Get(entity.Name, entity))
		})
		leave()
	}
}

// reads has a member of the consumer group "readers" read a topic, until it is to leave.
func (k *kafka) reads(topic string) (leave func()) {
	k.Helper()
	a := k.binding()
	group, err := sarama.NewConsumerGroup([]string{a.address}, "readers", k.config(a))
	if err != nil {
		k.Fatalf("no consumer group: %v", err)
	}
	ctx, cancel := context.WithCancel(k.Ctx)
	member := &reader{joined: make(chan struct{})}
	done := make(chan error, 1)
	go func() { done <- group.Consume(ctx, []string{topic}, member) }()
	leave = sync.OnceFunc(func() {
		cancel()
		_ = group.Close()
	})
	k.Cleanup(leave)
	select {
	case <-member.joined:
	case err := <-done:
		k.Fatalf("the group reads no topic %q: %v", topic, err)
	case <-time.After(framework.SettleTimeout):
		k.Fatalf("after %s nobody has joined the group", framework.SettleTimeout)
	}
	return leave
}

// reader is a member of a consumer group, which says when it has joined.
type reader struct {
	once   sync.Once
	joined chan struct{}
}

// Setup implements sarama.ConsumerGroupHandler.
func (r *reader) Setup(sarama.ConsumerGroupSession) error {
	r.once.Do(func() { close(r.joined) })
	return nil
}

// Cleanup implements sarama.ConsumerGroupHandler.
func (r *reader) Cleanup(sarama.ConsumerGroupSession) error { return nil }

// ConsumeClaim implements sarama.ConsumerGroupHandler: it takes what comes until the session ends.
func (r *reader) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		session.MarkMessage(message, "")
	}
	return nil
}
