// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/IBM/sarama"

	"github.com/zeroinfra/agents/internal/driver"
)

// offsetFetchVersion asks for many groups at a time.
const offsetFetchVersion = 8

// lag is how far one group is behind with one topic. Partitions of which the group has committed nothing are not
// counted.
type lag struct {
	group, topic, state string
	members, partitions int
	messages            int64
}

func listLag(s *session, words []string) (driver.Table, error) {
	table := driver.Table{Columns: []string{"group", "topic", "state", "members", "partitions", "lag"}}
	all, err := s.lags(words...)
	for _, l := range all {
		table.Rows = append(table.Rows,
			row(l.group, l.topic, l.state, number(l.members), number(l.partitions), number(l.messages)))
	}
	return table, err
}

// sumConsumers is one row, with a text that names the groups that are furthest behind.
func sumConsumers(s *session, words []string) (driver.Table, error) {
	all, err := s.lags(words[0])
	if err != nil {
		return driver.Table{}, err
	}
	slices.SortStableFunc(all, func(a, b lag) int { return cmp.Compare(b.messages, a.messages) })
	members, most, names := 0, int64(0), []string{}
	for _, l := range all {
		members, most = members+l.members, max(most, l.messages)
		names = append(names, fmt.Sprintf("%s: %d", l.group, l.messages))
	}
	return tableOf([]string{"groups", "members", "lag", "byGroup"},
		number(len(all)), number(members), number(most), shortened(names)), nil
}

// lags are those of all groups: with one topic, or with all that they read.
func (s *session) lags(only ...string) (all []lag, err error) {
	groups, err := s.groups()
	if err != nil {
		return nil, err
	}
	groups = slices.DeleteFunc(groups, func(g *group) bool { return g.kind != typeClassic && g.kind != typeConsumer })
	if err := s.readMembers(groups); err != nil {
		return nil, err
	}
	committed, err := s.committed(groups)
	if err != nil {
		return nil, err
	}
	topics := map[string]bool{}
	for _, at := range committed {
		for p := range at {
			if len(only) == 0 || p.topic == only[0] {
				topics[p.topic] = true
			}
		}
	}
	ends, err := s.ends(slices.Sorted(maps.Keys(topics)))
	if err != nil {
		return nil, err
	}
	slices.SortFunc(groups, func(a, b *group) int { return cmp.Compare(a.name, b.name) })
	for _, g := range groups {
		lags, partitions := map[string]int64{}, map[string]int{}
		for p, offset := range committed[g.name] {
			if end, known := ends[p]; known {
				lags[p.topic] += max(end-offset, 0)
				partitions[p.topic]++
			}
		}
		for _, topic := range slices.Sorted(maps.Keys(lags)) {
			all = append(all, lag{group: g.name, topic: topic, state: g.state, members: g.members[topic],
				partitions: partitions[topic], messages: lags[topic]})
		}
	}
	return all, nil
}

// committed are the offsets of groups, by group and partition.
func (s *session) committed(groups []*group) (map[string]map[place]int64, error) {
	requests := map[int32]*sarama.OffsetFetchRequest{}
	for _, g := range groups {
		if requests[g.coordinator] == nil {
			requests[g.coordinator] = &sarama.OffsetFetchRequest{Version: offsetFetchVersion}
		}
		r := requests[g.coordinator]
		r.Groups = append(r.Groups, sarama.OffsetFetchRequestGroup{GroupId: g.name})
	}
	committed := map[string]map[place]int64{}
	for _, id := range slices.Sorted(maps.Keys(requests)) {
		broker, err := s.broker(id)
		if err != nil {
			return nil, err
		}
		response, err := broker.FetchOffset(requests[id])
		if err != nil {
			return nil, fmt.Errorf("cannot read the offsets of consumer groups: %w", err)
		}
		for _, g := range response.Groups {
			if committed[g.GroupId], err = offsetsOf(g); err != nil {
				return nil, err
			}
		}
	}
	return committed, nil
}

// offsetsOf are those that a group has committed; a group that went a moment ago has none. What its coordinator cannot
// tell now is not nothing.
func offsetsOf(g sarama.OffsetFetchResponseGroup) (map[place]int64, error) {
	at := map[place]int64{}
	problem := g.Err
	for topic, blocks := range g.Blocks {
		for partition, block := range blocks {
			problem = cmp.Or(problem, block.Err)
			if block.Offset >= 0 {
				at[place{topic, partition}] = block.Offset
			}
		}
	}
	if problem != sarama.ErrNoError && problem != codeNoGroup {
		return nil, fmt.Errorf("cannot read the offsets of consumer group %q: %w", g.GroupId, answer{code: problem})
	}
	return at, nil
}

// ends are the offsets after the last message of each partition, which its leader knows. A partition without a leader
// has none.
func (s *session) ends(topics []string) (map[place]int64, error) {
	all, err := s.partitions(topics)
	if err != nil {
		return nil, err
	}
	requests := map[int32]*sarama.OffsetRequest{}
	for _, p := range all {
		if p.Leader < 0 {
			continue
		}
		if requests[p.Leader] == nil {
			requests[p.Leader] = sarama.NewOffsetRequest(sarama.MaxVersion)
		}
		requests[p.Leader].AddBlock(p.Topic, p.ID, sarama.OffsetNewest, 1)
	}
	ends := map[place]int64{}
	for _, id := range slices.Sorted(maps.Keys(requests)) {
		broker, err := s.broker(id)
		if err != nil {
			return nil, err
		}
		response, err := broker.GetAvailableOffsets(requests[id])
		if err != nil {
			return nil, fmt.Errorf("cannot read how far partitions are: %w", err)
		}
		for topic, blocks := range response.Blocks {
			for partition, block := range blocks {
				if block.Err == sarama.ErrNoError {
					ends[place{topic, partition}] = block.Offset
				}
			}
		}
	}
	return ends, nil
}
