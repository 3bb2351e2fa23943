// SPDX-License-Identifier: Apache-2.0

//go:build processes

package kafka

import (
	"context"

	"github.com/IBM/sarama"

	"github.com/zeroinfra/agents/internal/driver"
	"github.com/zeroinfra/agents/internal/testkafka"
)

// ClientForTests is a client of the library, as users have one, that reads groups from the beginning and waits for all
// replicas in sync.
func ClientForTests(address, caFile string) (sarama.Client, error) {
	config, err := driver.TLS(caFile)
	if err != nil {
		return nil, err
	}
	settings := (&dialer{ctx: context.Background(), tls: config, local: address}).config(testkafka.Admin,
		testkafka.AdminPassword)
	settings.Producer.RequiredAcks, settings.Producer.Return.Successes = sarama.WaitForAll, true
	settings.Producer.Partitioner = sarama.NewRoundRobinPartitioner
	settings.Consumer.Offsets.Initial = sarama.OffsetOldest
	return sarama.NewClient([]string{address}, settings)
}
