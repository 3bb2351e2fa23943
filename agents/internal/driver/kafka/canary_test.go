// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"maps"
	"reflect"
	"slices"
	"testing"
)

// canaryPartitions are those of a topic that was made for these brokers, which all lead their own.
func canaryPartitions(brokers ...int32) []partition {
	var all []partition
	replicas := canaryReplicas(brokers)
	for _, id := range slices.Sorted(maps.Keys(replicas)) {
		all = append(all, partition{Topic: canaryTopic, ID: id, Leader: replicas[id][0], Replicas: replicas[id],
			ISR: replicas[id]})
	}
	return all
}

func TestEachBrokerLeadsAPartitionOfTheCanary(t *testing.T) {
	for _, test := range []struct {
		brokers []int32
		want    map[int32][]int32
	}{
		{[]int32{0}, map[int32][]int32{0: {0}}},
		{[]int32{0, 2}, map[int32][]int32{0: {0, 2}, 1: {2, 0}}},
		{[]int32{0, 1, 2, 5}, map[int32][]int32{0: {0, 1, 2}, 1: {1, 2, 5}, 2: {2, 5, 0}, 3: {5, 0, 1}}},
	} {
		if got := canaryReplicas(test.brokers); !reflect.DeepEqual(got, test.want) {
			t.Errorf("of brokers %v: got %v, want %v", test.brokers, got, test.want)
		}
	}
}

func TestTheTopicOfTheCanaryFitsItsBrokers(t *testing.T) {
	for name, test := range map[string]struct {
		partitions []partition
		alive      []int32
		fits       bool
	}{
		"there is none":               {nil, []int32{0, 1, 2}, false},
		"made for them":               {canaryPartitions(0, 1, 2), []int32{0, 1, 2}, true},
		"one is down":                 {canaryPartitions(0, 1, 2), []int32{0, 2}, true},
		"one is new":                  {canaryPartitions(0, 1, 2), []int32{0, 1, 2, 3}, false},
		"made while there were fewer": {canaryPartitions(0, 1), []int32{0, 1, 2}, false},
	} {
		if got := canaryFits(test.partitions, test.alive); got != test.fits {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

func TestWhatACanaryTries(t *testing.T) {
	all := []int32{0, 1, 2}
	changed := func(change func(p *partition)) []partition {
		partitions := canaryPartitions(all...)
		change(&partitions[1])
		return partitions
	}
	for name, test := range map[string]struct {
		partitions []partition
		alive      []int32
		want       canaryTrial
	}{
		"all lead their own": {canaryPartitions(all...), all, canaryTrial{writes: map[int32][]int32{1: {1}, 2: {2}}}},
		"one is down, and others lead": {changed(func(p *partition) { p.Leader, p.ISR = 2, []int32{2, 0} }), []int32{0, 2},
			canaryTrial{writes: map[int32][]int32{2: {1, 2}}}},
		"one is back": {changed(func(p *partition) { p.Leader = 2 }), all, canaryTrial{
			writes: map[int32][]int32{2: {2}}, elect: []int32{1},
			reason: "broker 1 has yet to lead partition 1 of __zeroinfra_canary"}},
		"one is back and copies nothing": {changed(func(p *partition) { p.Leader, p.ISR = 2, []int32{2, 0} }), all,
			canaryTrial{writes: map[int32][]int32{2: {2}},
				reason: "broker 1 is alive, and is not in sync for partition 1 of __zeroinfra_canary"}},
		"one is back, and the one that stops leads": {changed(func(p *partition) { p.Leader = 0 }), all, canaryTrial{
			writes: map[int32][]int32{2: {2}}, elect: []int32{1},
			reason: "broker 1 has yet to lead partition 1 of __zeroinfra_canary"}},
		"nobody leads": {changed(func(p *partition) { p.Leader = -1 }), []int32{0, 2}, canaryTrial{
			writes: map[int32][]int32{2: {2}}, reason: "partition 1 of __zeroinfra_canary has no leader"}},
		// The one that stops cannot be in its own way.
		"the one that stops leads for one that is down": {changed(func(p *partition) { p.Leader, p.ISR = 0, []int32{0} }),
			[]int32{0, 2}, canaryTrial{writes: map[int32][]int32{2: {2}}}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := canaryOf(test.partitions, test.alive, 0); !reflect.DeepEqual(got, test.want) {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}
