// SPDX-License-Identifier: Apache-2.0

// Package kind lists the typed kinds of the message operator. Each has a folder
// of its own; none knows of another.
package kind

import (
	"github.com/zeroinfra/platform-core/sdk/typed"

	messagev1 "github.com/zeroinfra/message-operator/api/v1"
	"github.com/zeroinfra/message-operator/internal/kind/kafkacluster"
	"github.com/zeroinfra/message-operator/internal/kind/kafkatopic"
)

// All returns every kind that the operator serves.
func All() []typed.Registration {
	return []typed.Registration{
		typed.Register[*messagev1.KafkaCluster](kafkacluster.Kind{}),
		typed.Register[*messagev1.KafkaTopic](kafkatopic.Kind{}),
	}
}
