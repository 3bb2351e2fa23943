// SPDX-License-Identifier: Apache-2.0

//go:build processes

package kafka_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/IBM/sarama"

	"github.com/zeroinfra/agents/internal/driver"
	"github.com/zeroinfra/agents/internal/driver/kafka"
)

// A topic that members of a share group read is not deleted before they have gone.
func TestAShareGroupGuardsItsTopic(t *testing.T) {
	s := newServer(t, 1, "share.coordinator.state.topic.replication.factor=1", "share.coordinator.state.topic.min.isr=1")
	s.must(kafka.KindTopic, topicOf("orders", driver.Create))
	s.must(kafka.KindTopic, topicOf("others", driver.Create))
	stop := s.Tool("org.apache.kafka.tools.consumer.ConsoleShareConsumer", "--topic", "orders", "--group", "sharers")
	s.eventually("the group is there", func() bool {
		groups, err := s.groupsOf()
		return err == nil && slices.Contains(groups, "sharers")
	})
	s.refused(kafka.KindTopic, topicOf("orders", driver.Delete),
		`members of consumer groups read it ("sharers" with 1): stop them`)
	s.must(kafka.KindTopic, topicOf("others", driver.Delete))
	stop()
	s.eventually("the member has gone", func() bool {
		return s.change(kafka.KindTopic, topicOf("orders", driver.Delete)) == ""
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

// eventually waits until something is so.
func (s *server) eventually(what string, is func() bool) {
	s.Helper()
	for deadline := time.Now().Add(patience); !is(); time.Sleep(200 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.Fatalf("after %v it is not so that %s", patience, what)
		}
	}
}
