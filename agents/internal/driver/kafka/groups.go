// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/IBM/sarama"

	"github.com/zeroinfra/agents/internal/driver"
)

// Types of consumer groups, as brokers name them. What share groups read cannot be asked by the library.
const (
	typeClassic  = "classic"
	typeConsumer = "consumer"
)

// Version from which the list of groups has their types.
const listGroupsVersion = 5

// emptyState is that of a group without members.
const emptyState = "Empty"

// group is a consumer group.
type group struct {
	name, state, kind string
	// coordinator is the broker that knows it.
	coordinator int32
	// members by topic that they read or have subscribed to.
	members map[string]int
}

// groups lists the consumer groups of all brokers that are alive. Each is known by one of them.
func (s *session) groups() ([]*group, error) {
	ids, err := s.alive()
	if err != nil {
		return nil, err
	}
	var all []*group
	for _, id := range ids {
		broker, err := s.broker(id)
		if err != nil {
			return nil, err
		}
		response, err := broker.ListGroups(&sarama.ListGroupsRequest{Version: listGroupsVersion})
		if err != nil {
			return nil, fmt.Errorf("cannot list the consumer groups of broker %d: %w", id, err)
		}
		if response.Err != sarama.ErrNoError {
			return nil, fmt.Errorf("cannot list the consumer groups of broker %d: %w", id, answer{code: response.Err})
		}
		for _, name := range slices.Sorted(maps.Keys(response.Groups)) {
			data := response.GroupsData[name]
			all = append(all, &group{name: name, state: data.GroupState, kind: strings.ToLower(data.GroupType), coordinator: id,
				members: map[string]int{}})
		}
	}
	return all, nil
}

// readMembers fills in which topics members of the groups read. Groups without members have none.
func (s *session) readMembers(groups []*group) error {
	byCoordinator := map[int32][]*group{}
	for _, g := range groups {
		if g.state != emptyState {
			byCoordinator[g.coordinator] = append(byCoordinator[g.coordinator], g)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(byCoordinator)) {
		broker, err := s.broker(id)
		if err != nil {
			return err
		}
		if err := readClassic(broker, byCoordinator[id]); err != nil {
			return err
		}
		if err := readConsumer(broker, byCoordinator[id]); err != nil {
			return err
		}
	}
	return nil
}

func ofKind(groups []*group, kind string) (names []string, byName map[string]*group) {
	byName = map[string]*group{}
	for _, g := range groups {
		if g.kind == kind {
			names, byName[g.name] = append(names, g.name), g
		}
	}
	return names, byName
}

// readClassic asks about groups of the protocol in which members tell each other what they read.
func readClassic(broker *sarama.Broker, groups []*group) error {
	names, byName := ofKind(groups, typeClassic)
	if len(names) == 0 {
		return nil
	}
	response, err := broker.DescribeGroups(&sarama.DescribeGroupsRequest{Version: 5, Groups: names})
	if err != nil {
		return fmt.Errorf("cannot describe consumer groups: %w", err)
	}
	for _, described := range response.Groups {
		g := byName[described.GroupId]
		if g == nil || described.Err != sarama.ErrNoError {
			continue
		}
		g.state = described.State
		for _, member := range described.Members {
			// Other clients than consumers, such as Kafka Connect, say things of their own there.
			metadata, err := member.GetMemberMetadata()
			if err != nil || metadata == nil {
				continue
			}
			for _, topic := range metadata.Topics {
				g.members[topic]++
			}
		}
	}
	return nil
}

// readConsumer asks about groups of the protocol in which the broker says who reads what (KIP-848).
func readConsumer(broker *sarama.Broker, groups []*group) error {
	names, byName := ofKind(groups, typeConsumer)
	if len(names) == 0 {
		return nil
	}
	response, err := broker.ConsumerGroupDescribe(&sarama.ConsumerGroupDescribeRequest{Version: 1, GroupIDs: names})
	if err != nil {
		return fmt.Errorf("cannot describe consumer groups: %w", err)
	}
	for _, described := range response.Groups {
		g := byName[described.GroupID]
		if g == nil || described.ErrorCode != sarama.ErrNoError {
			continue
		}
		g.state = described.GroupState
		for _, member := range described.Members {
			topics := map[string]bool{}
			for _, topic := range member.SubscribedTopicNames {
				topics[topic] = true
			}
			for _, assigned := range member.Assignment.TopicPartitions {
				topics[assigned.TopicName] = true
			}
			for topic := range topics {
				g.members[topic]++
			}
		}
	}
	return nil
}

// guard refuses to delete topics that members of consumer groups read.
func (s *session) guard(topics []string, problems driver.Problems) error {
	if len(topics) == 0 {
		return nil
	}
	groups, err := s.groups()
	if err != nil {
		return fmt.Errorf("cannot find out who reads the topics that are to be deleted: %w", err)
	}
	if err := s.readMembers(groups); err != nil {
		return fmt.Errorf("cannot find out who reads the topics that are to be deleted: %w", err)
	}
	for _, topic := range topics {
		var readers []string
		for _, g := range groups {
			if n := g.members[topic]; n > 0 {
				readers = append(readers, fmt.Sprintf("%q with %d", g.name, n))
			}
		}
		if len(readers) > 0 {
			problems[topic] = fmt.Sprintf("members of consumer groups read it (%s): stop them, or set %s to yes to delete it "+
				"all the same",
				shortened(readers), parameterWhileConsumed)
		}
	}
	return nil
}

// maxNamed is how many names a sentence has.
const maxNamed = 5

// shortened is the first names, and how many there are beside them.
func shortened(names []string) string {
	if len(names) <= maxNamed {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNamed], ", "), len(names)-maxNamed)
}
