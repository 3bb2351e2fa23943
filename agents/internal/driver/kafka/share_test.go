// SPDX-License-Identifier: Apache-2.0

//go:build processes

package kafka_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/IBM/sarama"

	"github.com/zeroinfra/agents/internal/driver"
	"github.com/zeroinfra/agents/internal/driver/kafka"
	"github.com/zeroinfra/agents/internal/testpod"
)

// A topic that members of a share group read is not deleted before they have gone.
func TestAShareGroupGuardsItsTopic(t *testing.T) {
	s := newServer(t, 1, "share.coordinator.state.topic.replication.factor=1", "share.coordinator.state.topic.min.isr=1")
	s.must(kafka.KindTopic, topicOf("orders", driver.Create))
	s.must(kafka.KindTopic, topicOf("others", driver.Create))
	stop := s.Tool("org.apache.kafka.tools.consumer.ConsoleShareConsumer", "--topic", "orders", "--group", "sharers")
	testpod.Eventually(t, func() error {
		groups, err := s.groupsOf()
		if err == nil && !slices.Contains(groups, "sharers") {
			err = fmt.Errorf("the groups are %q, without that of the members", groups)
		}
		return err
	})
	s.refused(kafka.KindTopic, topicOf("orders", driver.Delete),
		`members of consumer groups read it ("sharers" with 1): stop them`)
	s.must(kafka.KindTopic, topicOf("others", driver.Delete))
	stop()
	testpod.Eventually(t, func() error {
		if problem := s.change(kafka.KindTopic, topicOf("orders", driver.Delete)); problem != "" {
			return fmt.Errorf("the topic is not deleted: %s", problem)
		}
		return nil
	})
	s.gone(kafka.KindTopic, "orders")
}

// groupsOf are the names of all groups, whatever they are for.
func (s *server) groupsOf() ([]string, error) {
	s.Helper()
	admin, err := sarama.NewClusterAdminFromClient(s.client())
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	groups, err := admin.ListConsumerGroups()
	return slices.Collect(maps.Keys(groups)), err
}
