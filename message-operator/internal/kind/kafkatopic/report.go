// SPDX-License-Identifier: Apache-2.0

package kafkatopic

import (
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/typed"

	messagev1 "github.com/zeroinfra/message-operator/api/v1"
	"github.com/zeroinfra/message-operator/internal/kafkaparts"
)

// ReportEntities implements typed.EntityReporter: what the topic is like, as it was read back.
func (Kind) ReportEntities(k *messagev1.KafkaTopic, entities []platformv1.Entity) {
	s := &k.Status
	s.TopicName, s.Partitions, s.Replicas, s.DriftRepairs = topicName(k), 0, "", 0
	for _, entity := range entities {
		s.DriftRepairs += entity.Status.DriftRepairs
		if entity.Spec.Type != kafkaparts.Topic {
			continue
		}
		typed.FillStatus(s, entity.Status.Observed)
	}
}
