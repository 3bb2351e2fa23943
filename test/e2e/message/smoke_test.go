// SPDX-License-Identifier: Apache-2.0

package message

import (
	"testing"

	messagev1 "github.com/zeroinfra/message-operator/api/v1"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// topicSample is the topic of the samples.
const topicSample = "orders"

// TestSmokeMessage uses the samples of the message operator: it sends to the topic, restarts the cluster, and reads.
func TestSmokeMessage(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespaceWithOperator(t, framework.OtherOperator)
	all := s.ApplySamplesOf(framework.OtherOperator)
	all.Names("KafkaTopic")
	for _, name := range all.Names("KafkaCluster") {
		k := &kafka{Application: &framework.Application{Namespace: s, Name: "kafkacluster-" + name},
			ways: s.NewPortForwards()}
		p := k.produce(topicSample)
		s.RestartTarget(platformv1.TargetReference{
			APIVersion: messagev1.GroupVersion.String(), Kind: "KafkaCluster", Name: name,
		})
		k.WaitReady()
		p.goesOn()
		p.judge("restart of " + name)
	}
	all.DeleteAll()
	s.UninstallOperator(framework.OtherOperator)
}
