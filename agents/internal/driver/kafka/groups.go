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

// Types of consumer groups, as brokers name them.
const (
	typeClassic  = "classic"
	typeConsumer = "consumer"
	typeShare    = "share"
	typeStreams  = "streams"
)

// Version from which the list of groups has their types.
const listGroupsVersion = 5

// States of groups: one without members, one that is gone, and one of typeClassic whose members have agreed on who
// reads what. Until then the coordinator tells nobody what they read.
const (
	emptyState  = "Empty"
	deadState   = "Dead"
	stableState = "Stable"
)

// codeNoGroup is GROUP_ID_NOT_FOUND, what Kafka says of a group that went a moment ago.
const codeNoGroup sarama.KError = 69

// group is a consumer group.
type group struct {
	name, state, kind string
	// coordinator is the broker that knows it.
	coordinator int32
	// members by topic that they read or have subscribed to. hidden is why these are not known; empty where they are.
	members map[string]int
	hidden  string
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
		if err := s.readOthers(id, byCoordinator[id]); err != nil {
			return err
		}
	}
	return nil
}

// isThere says whether a description of a group tells of its members, and notes why not.
func (g *group) isThere(problem answer) bool {
	if problem.code != sarama.ErrNoError && problem.code != codeNoGroup {
		g.hidden = problem.Error()
	}
	return problem.code == sarama.ErrNoError
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
		if g := byName[described.GroupId]; g != nil {
			g.readClassic(described)
		}
	}
	return nil
}

func (g *group) readClassic(described *sarama.GroupDescription) {
	if !g.isThere(answer{code: described.Err}) {
		return
	}
	g.state = described.State
	if g.state != stableState && g.state != emptyState && g.state != deadState && described.ProtocolType == typeConsumer {
		g.hidden = "its members agree on who reads what"
	}
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
		if g == nil || !g.isThere(said(described.ErrorCode, described.ErrorMessage)) {
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
	lost, err := s.lostGroups()
	if err != nil {
		return err
	}
	guardBy(slices.Concat(groups, lost), topics, problems)
	return nil
}

// offsetsTopic is where brokers keep what they know of groups.
const offsetsTopic = internalPrefix + "consumer_offsets"

// lostGroups stands for those that no broker knows of at the moment.
func (s *session) lostGroups() ([]*group, error) {
	partitions, err := s.partitions([]string{offsetsTopic})
	if err != nil {
		return nil, err
	}
	leaderless := 0
	for _, p := range partitions {
		leaderless += one(p.Leader < 0)
	}
	if leaderless == 0 {
		return nil, nil
	}
	return []*group{{name: offsetsTopic, hidden: fmt.Sprintf("%d of %d partitions have no leader", leaderless,
		len(partitions))}}, nil
}

// guardBy refuses topics that members of groups read, or may read: those of a group that cannot be told.
func guardBy(groups []*group, topics []string, problems driver.Problems) {
	var hidden []string
	for _, g := range groups {
		if g.hidden != "" {
			hidden = append(hidden, fmt.Sprintf("%q: %s", g.name, g.hidden))
		}
	}
	for _, topic := range topics {
		var readers []string
		for _, g := range groups {
			if n := g.members[topic]; n > 0 {
				readers = append(readers, fmt.Sprintf("%q with %d", g.name, n))
			}
		}
		switch {
		case len(readers) > 0:
			problems[topic] = fmt.Sprintf("members of consumer groups read it (%s): stop them, or set %s to yes to delete it "+
				"all the same", shortened(readers), parameterWhileConsumed)
		case len(hidden) > 0:
			problems[topic] = fmt.Sprintf("consumer groups do not tell at the moment whether they read it (%s): it is tried "+
				"again, or set %s to yes to delete it all the same", shortened(hidden), parameterWhileConsumed)
		}
	}
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
