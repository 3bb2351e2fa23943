// SPDX-License-Identifier: Apache-2.0

package message

import (
	"errors"
	"fmt"

	"github.com/IBM/sarama"

	messagev1 "github.com/zeroinfra/message-operator/api/v1"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// elsewhere is a KafkaCluster that stands for one that something else runs.
const elsewhere = "elsewhere"

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
