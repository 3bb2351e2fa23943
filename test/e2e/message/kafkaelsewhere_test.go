// SPDX-License-Identifier: Apache-2.0

package message

import (
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/IBM/sarama"
	"k8s.io/apimachinery/pkg/api/resource"

	messagev1 "github.com/zeroinfra/message-operator/api/v1"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// elsewhere is a KafkaCluster that stands for one that something else runs.
const elsewhere = "elsewhere"

// origin is the cluster that elsewhere stands for.
const origin = "origin"

// TestKafkaElsewhere has a KafkaCluster without brokers look after topics of a cluster of one node, by its address and
// an account: topics, access rules and quotas are made there, follow their objects, and go with them.
func TestKafkaElsewhere(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespaceWithOperator(t, framework.OtherOperator)
	s.CreateSecret(aliceSecret, "password", rand.Text())
	cluster := single(origin)
	cluster.Spec.Users = []messagev1.KafkaUser{
		{Name: "alice", PasswordFrom: platformv1.SecretKeyReference{Name: aliceSecret, Key: "password"}}}
	s.Create(cluster)
	k := &kafka{Application: &framework.Application{Namespace: s, Name: "kafkacluster-" + origin},
		ways: s.NewPortForwards()}
	k.waitFor(cluster, func() int64 { return cluster.Status.ObservedGeneration })
	other := &messagev1.KafkaCluster{ObjectMeta: framework.ObjectMeta(elsewhere), Spec: messagev1.KafkaClusterSpec{
		Bootstrap: &messagev1.KafkaBootstrap{Servers: []string{cluster.Status.Endpoint},
			Security:             messagev1.SecurityPlaintext,
			CredentialsSecretRef: messagev1.KafkaSecretReference{Name: k.Object().Status.Binding.Name}}}}
	k.Create(other)
	k.waitFor(other, func() int64 { return other.Status.ObservedGeneration })
	if other.Status.Brokers != "" || other.Status.Endpoint != cluster.Status.Endpoint {
		t.Errorf("the status of the other one is %+v", other.Status)
	}
	k.keptElsewhere()
	k.Delete(other)
	k.waitFor(cluster, func() int64 { return cluster.Status.ObservedGeneration })
}

// single is a cluster of one node.
func single(name string) *messagev1.KafkaCluster {
	return &messagev1.KafkaCluster{ObjectMeta: framework.ObjectMeta(name), Spec: messagev1.KafkaClusterSpec{
		InstanceSpec: platformv1.InstanceSpec{Version: "4.4", Resources: small("640Mi"),
			Storage: platformv1.InstanceStorage{Size: resource.MustParse("2Gi")}},
		Replicas: 1,
	}}
}

// keptElsewhere has a topic with access rules and a quota be made, changed and removed by the other cluster.
func (k *kafka) keptElsewhere() {
	k.Helper()
	of := topicFor("kept", func(spec *messagev1.KafkaTopicSpec) {
		spec.ClusterRef.Name, spec.Replicas = elsewhere, 1
		spec.ACLs = []messagev1.KafkaACL{{User: "alice", Operations: []messagev1.KafkaOperation{messagev1.OperationWrite}}}
		spec.Quotas = []messagev1.KafkaQuota{{User: "alice",
			KafkaRates: messagev1.KafkaRates{ProducerByteRate: new(resource.MustParse("20Ki"))}}}
		spec.Config = platformv1.Parameters{"segment.bytes": "1048576"}
	})
	k.Create(of)
	k.waitFor(of, func() int64 { return of.Status.ObservedGeneration })
	k.hasElsewhere(of.Name, 3, "1048576", 20<<10, "Write")
	if err := k.send(k.alice(), of.Name, 1, 10); err != nil {
		k.Errorf("alice cannot send to her topic: %v", err)
	}
	k.patch(of, func() {
		of.Spec.Partitions, of.Spec.Config = 6, platformv1.Parameters{"segment.bytes": "2097152"}
		of.Spec.ACLs[0].Operations = []messagev1.KafkaOperation{messagev1.OperationRead}
		of.Spec.Quotas[0].ProducerByteRate = new(resource.MustParse("40Ki"))
	})
	k.waitFor(of, func() int64 { return of.Status.ObservedGeneration })
	k.hasElsewhere(of.Name, 6, "2097152", 40<<10, "Read")
	if err := k.send(k.alice(), of.Name, 1, 10); !errors.Is(err, sarama.ErrTopicAuthorizationFailed) {
		k.Errorf("alice may read alone, and sends: %v", err)
	}
	k.Delete(of)
	k.hasElsewhere(of.Name, 0, "", 0, "")
}

// hasElsewhere waits until a topic has so many partitions, segments of a size, a rule for alice with an operation, and
// alice a quota; without partitions, until nothing of that is there.
func (k *kafka) hasElsewhere(topic string, partitions int, segment string, rate float64, operation string) {
	k.Helper()
	k.Eventually(framework.SettleTimeout,
		fmt.Sprintf("topic %q has %d partitions and what goes with it", topic, partitions), func() error {
			return k.ask(func(admin sarama.ClusterAdmin) error {
				topics, err := admin.ListTopics()
				if err != nil {
					return err
				}
				has := topics[topic]
				var size string
				if value := has.ConfigEntries["segment.bytes"]; value != nil {
					size = *value
				}
				rules, err := aclsOf(admin, topic)
				if err != nil {
					return err
				}
				quota, err := admin.DescribeClientQuotas([]sarama.QuotaFilterComponent{
					{EntityType: sarama.QuotaEntityUser, MatchType: sarama.QuotaMatchExact, Match: "alice"}}, true)
				if err != nil {
					return err
				}
				var limit float64
				if len(quota) == 1 {
					limit = quota[0].Values["producer_byte_rate"]
				}
				asked := slices.Contains(rules, "User:alice "+operation) || operation == "" && len(rules) == 0
				if int(has.NumPartitions) != partitions || size != segment || limit != rate || !asked {
					return fmt.Errorf("it has %d partitions, segments of %q, the rules %v and the quota %v",
						has.NumPartitions, size, rules, limit)
				}
				return nil
			})
		})
}

// aclsOf are the rules of a topic, as principal and operation.
func aclsOf(admin sarama.ClusterAdmin, topic string) (rules []string, err error) {
	found, err := admin.ListAcls(sarama.AclFilter{ResourceType: sarama.AclResourceTopic, ResourceName: &topic,
		ResourcePatternTypeFilter: sarama.AclPatternLiteral, Operation: sarama.AclOperationAny,
		PermissionType: sarama.AclPermissionAny})
	for _, on := range found {
		for _, rule := range on.Acls {
			rules = append(rules, rule.Principal+" "+rule.Operation.String())
		}
	}
	return rules, err
}

// checkElsewhere has another KafkaCluster stand for this one: a topic of it is made, kept and removed here, and an
// account that the cluster does not take is told of.
func (k *kafka) checkElsewhere(cluster *messagev1.KafkaCluster) {
	k.Helper()
	binding := k.Object().Status.Binding.Name
	other := &messagev1.KafkaCluster{ObjectMeta: framework.ObjectMeta(elsewhere), Spec: messagev1.KafkaClusterSpec{
		Bootstrap: &messagev1.KafkaBootstrap{Servers: []string{cluster.Status.Endpoint},
			CredentialsSecretRef: messagev1.KafkaSecretReference{Name: binding},
			CASecretRef:          &platformv1.AuthorityReference{Name: binding}}}}
	k.Create(other)
	k.waitFor(other, func() int64 { return other.Status.ObservedGeneration })
	shared := topicFor("shared", func(spec *messagev1.KafkaTopicSpec) {
		spec.ClusterRef.Name = elsewhere
		spec.ACLs = []messagev1.KafkaACL{{User: "alice", Operations: []messagev1.KafkaOperation{messagev1.OperationWrite}}}
	})
	k.Create(shared)
	k.waitFor(shared, func() int64 { return shared.Status.ObservedGeneration })
	if err := k.isThere(shared.Name); err != nil {
		k.Error(err)
	}
	if err := k.send(k.alice(), shared.Name, 1, 10); err != nil {
		k.Errorf("alice cannot send to a topic that is looked after from elsewhere: %v", err)
	}
	k.Delete(shared)
	k.Eventually(framework.SettleTimeout, "the topic is gone", func() error {
		return k.ask(func(admin sarama.ClusterAdmin) error {
			topics, err := admin.ListTopics()
			if _, is := topics[shared.Name]; err == nil && is {
				err = errors.New("it is there")
			}
			return err
		})
	})
	k.Delete(other)
}

// isThere says so where the cluster has no topic of a name.
func (k *kafka) isThere(topic string) error {
	return k.ask(func(admin sarama.ClusterAdmin) error {
		topics, err := admin.ListTopics()
		if _, is := topics[topic]; err == nil && !is {
			err = fmt.Errorf("there is no topic %q", topic)
		}
		return err
	})
}
