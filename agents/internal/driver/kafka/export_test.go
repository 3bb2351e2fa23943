// SPDX-License-Identifier: Apache-2.0

//go:build processes

package kafka

import (
	"context"

	"github.com/IBM/sarama"

	"github.com/zeroinfra/agents/internal/testkafka"
)

// ClientForTests is a client of the library, as users have one, that reads groups from the beginning and waits for all
// replicas in sync.
func ClientForTests(address, caFile string) (sarama.Client, error) {
	way, err := Options{Address: address, CAFile: caFile, Username: testkafka.Admin,
		Password: func() (string, error) { return testkafka.AdminPassword, nil }}.way()
	if err != nil {
		return nil, err
	}
	settings := (&dialer{ctx: context.Background(), secure: way.secure}).config(way)
	settings.Producer.RequiredAcks, settings.Producer.Return.Successes = sarama.WaitForAll, true
	settings.Producer.Partitioner = sarama.NewRoundRobinPartitioner
	// A broker may take seconds to hear of a topic that was just made, with a pause of 100 ms between two attempts.
	settings.Producer.Retry.Max = 200
	settings.Consumer.Offsets.Initial = sarama.OffsetOldest
	return sarama.NewClient([]string{address}, settings)
}
