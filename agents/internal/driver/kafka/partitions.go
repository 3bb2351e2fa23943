// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/IBM/sarama"

	"github.com/zeroinfra/agents/internal/driver"
	"github.com/zeroinfra/agents/internal/driver/kafka/placement"
)

// partition of a topic as the cluster describes it.
type partition = placement.Partition

const settingMinISR = "min.insync.replicas"

// partitions are those of the topics that are there.
func (s *session) partitions(topics []string) ([]partition, error) {
	if len(topics) == 0 {
		// To the library that would be all topics.
		return nil, nil
	}
	return s.readPartitions(topics)
}

// allPartitions are those of all topics.
func (s *session) allPartitions() ([]partition, error) { return s.readPartitions(nil) }

func (s *session) readPartitions(topics []string) ([]partition, error) {
	s.renew()
	response, err := s.local.GetMetadata(&sarama.MetadataRequest{Version: 11, Topics: topics})
	if err != nil {
		return nil, fmt.Errorf("cannot read the topics: %w", err)
	}
	var all []partition
	for _, topic := range response.Topics {
		switch {
		case topic.Err == sarama.ErrUnknownTopicOrPartition || topic.Err == sarama.ErrInvalidTopic:
			continue
		case topic.Err != sarama.ErrNoError:
			return nil, fmt.Errorf("cannot read topic %q: %w", topic.Name, answer{code: topic.Err})
		}
		for _, p := range topic.Partitions {
			all = append(all, partition{Topic: topic.Name, ID: p.ID, Leader: p.Leader, Replicas: p.Replicas, ISR: p.Isr,
				Offline: p.OfflineReplicas})
		}
	}
	slices.SortFunc(all,
		func(a, b partition) int { return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.ID, b.ID)) })
	return all, s.addMoves(all)
}

// reassignments are those that are under way.
func (s *session) reassignments() (map[place]partition, error) {
	// Null has the controller tell of all topics.
	d, err := s.call(keyListPartitionReassignments, 0, encoder{}.int32(s.milliseconds()).null().tags())
	if err != nil {
		return nil, err
	}
	return readMoving(d)
}

// addMoves adds what reassignments are under way.
func (s *session) addMoves(all []partition) error {
	moving, err := s.reassignments()
	if err != nil {
		return err
	}
	for i, p := range all {
		if move, is := moving[place{p.Topic, p.ID}]; is {
			// It is of a later moment than the metadata of the broker.
			all[i].Replicas, all[i].Adding, all[i].Removing = move.Replicas, move.Adding, move.Removing
		}
	}
	return nil
}

// place of a partition.
type place struct {
	topic string
	id    int32
}

func readMoving(d *decoder) (map[place]partition, error) {
	if err := readWhole(d, "cannot read the reassignments"); err != nil {
		return nil, err
	}
	moving := map[place]partition{}
	d.each(func() {
		topic := d.text()
		d.each(func() {
			p := partition{ID: d.int32(), Replicas: d.int32s(), Adding: d.int32s(), Removing: d.int32s()}
			d.tags()
			if topic != nil {
				moving[place{*topic, p.ID}] = p
			}
		})
		d.tags()
	})
	return moving, d.err
}

// addMinimums adds min.insync.replicas of the topics.
func (s *session) addMinimums(all []partition) error {
	topics := map[string]int{}
	for _, p := range all {
		topics[p.Topic] = 0
	}
	err := s.eachConfig(slices.Sorted(maps.Keys(topics)), []string{settingMinISR},
		func(topic string, entries []*sarama.ConfigEntry) (err error) {
			for _, entry := range entries {
				if topics[topic], err = strconv.Atoi(entry.Value); err != nil {
					return fmt.Errorf("%s of topic %q is %q", settingMinISR, topic, entry.Value)
				}
			}
			return nil
		})
	if err != nil {
		return err
	}
	for i, p := range all {
		all[i].MinISR = topics[p.Topic]
	}
	return nil
}

// places are the brokers that can hold replicas. Those that are cordoned keep what they have.
func (s *session) places() ([]placement.Broker, error) {
	cluster, err := s.brokers()
	if err != nil {
		return nil, err
	}
	return placesOf(cluster.Brokers, s.ownSettings(notFenced(cluster)).cordoned), nil
}

func placesOf(brokers []*sarama.DescribeClusterBroker, cordoned []int32) (all []placement.Broker) {
	for _, broker := range brokers {
		place := placement.Broker{ID: broker.BrokerID}
		switch {
		case broker.IsFenced:
			place.State = placement.Fenced
		case slices.Contains(cordoned, broker.BrokerID):
			place.State = placement.CordonedBroker
		}
		if broker.Rack != nil {
			place.Rack = *broker.Rack
		}
		all = append(all, place)
	}
	return all
}

// reassign begins to bring topics to other replication factors, and returns what the cluster says against it, by topic.
// A topic that there are not brokers enough for has a problem, and holds up no other.
func (s *session) reassign(factors map[string]int, problems driver.Problems) (map[string]answer, error) {
	// With partitions that were added a moment ago.
	all, err := s.partitions(slices.Sorted(maps.Keys(factors)))
	if err != nil {
		return nil, err
	}
	places, err := s.places()
	if err != nil {
		return nil, err
	}
	moves := movesTo(places, all, factors, problems)
	if err := s.throttle(nil, moves, nil); err != nil {
		return nil, err
	}
	return s.submit(moves)
}

// movesTo are the moves of topics to other replication factors.
func movesTo(places []placement.Broker, all []partition, factors map[string]int,
	problems driver.Problems) []placement.Move {
	byTopic := map[string][]partition{}
	for _, p := range all {
		byTopic[p.Topic] = append(byTopic[p.Topic], p)
	}
	possible := make([]partition, 0, len(all))
	for topic, own := range byTopic {
		if _, err := placement.Plan(places, own, placement.Goal{Factors: factors}); err != nil {
			problems[topic] = err.Error()
			continue
		}
		possible = append(possible, own...)
	}
	// What each of them can have by itself they can have together.
	moves, _ := placement.Plan(places, possible, placement.Goal{Factors: factors})
	return moves
}

// submit has the controller begin moves, and returns what it says against them, by topic. A move without replicas
// cancels the one that is under way.
func (s *session) submit(moves []placement.Move) (map[string]answer, error) {
	if len(moves) == 0 {
		return nil, nil
	}
	byTopic := map[string][]placement.Move{}
	for _, move := range moves {
		byTopic[move.Topic] = append(byTopic[move.Topic], move)
	}
	body := encoder{}.int32(s.milliseconds()).length(len(byTopic))
	for _, topic := range slices.Sorted(maps.Keys(byTopic)) {
		body = body.text(topic).length(len(byTopic[topic]))
		for _, move := range byTopic[topic] {
			body = body.int32(move.Partition)
			if move.Replicas == nil {
				body = body.null().tags()
				continue
			}
			body = body.length(len(move.Replicas))
			for _, id := range move.Replicas {
				body = body.int32(id)
			}
			body = body.tags()
		}
		body = body.tags()
	}
	d, err := s.call(keyAlterPartitionReassignments, 0, body.tags())
	if err != nil {
		return nil, err
	}
	return readReassignments(d)
}

func readReassignments(d *decoder) (map[string]answer, error) {
	if err := readWhole(d, "cannot reassign partitions"); err != nil {
		return nil, err
	}
	refused := map[string]answer{}
	d.each(func() {
		topic := d.text()
		d.each(func() {
			d.int32()
			one := said(sarama.KError(d.int16()), d.text())
			d.tags()
			if one.code != sarama.ErrNoError && topic != nil {
				refused[*topic] = one
			}
		})
		d.tags()
	})
	return refused, d.err
}
