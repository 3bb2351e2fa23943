// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"math"
	"testing"

	"github.com/IBM/sarama"

	"github.com/zeroinfra/agents/internal/driver"
	"github.com/zeroinfra/agents/internal/driver/kafka/placement"
)

func TestBytesThatATopicIsToKeep(t *testing.T) {
	was := &topic{partitions: []partition{{Replicas: []int32{1, 2, 3}}, {Replicas: []int32{1, 2}}}}
	for name, c := range map[string]struct {
		intent     driver.Intent
		parameters map[string]string
		was        *topic
		want       int64
	}{
		"all is said": {driver.Create,
			map[string]string{"partitions": "4", "replication-factor": "3", "config": `{"retention.bytes":"100"}`}, nil, 1200},
		"the rest is the cluster's": {driver.Create, map[string]string{"config": `{"retention.bytes":"100"}`}, nil, 100},
		"the rest is what there is": {driver.Update, map[string]string{"config": `{"retention.bytes":"100"}`}, was, 600},
		"a compacted topic": {driver.Create,
			map[string]string{"config": `{"retention.bytes":"100","cleanup.policy":"compact"}`}, nil, 0},
		"no limit": {driver.Create, map[string]string{"config": `{"retention.bytes":"-1"}`}, nil, 0},
		"not said": {driver.Create, map[string]string{"partitions": "4"}, nil, 0},
		"too large": {driver.Create, map[string]string{"partitions": "9",
			"config": `{"retention.bytes":"4611686018427387904"}`}, nil, math.MaxInt64},
		"deleted": {driver.Delete, map[string]string{"config": `{"retention.bytes":"100"}`}, was, 0},
	} {
		change := driver.Change{Intent: c.intent, Parameters: c.parameters}
		if got := bytesAsked(change, c.was); got != c.want {
			t.Errorf("%s: got %d, want %d", name, got, c.want)
		}
	}
}

// Brokers that leave are emptied only where the others have room for what they hold.
func TestWhatLeavesNeedsRoom(t *testing.T) {
	const gibi = 1 << 30
	const advice = ": enlarge the volumes, delete what is not needed, or keep the brokers"
	moves := []placement.Move{{Topic: "orders", Added: []int32{0}}, {Topic: "orders", Partition: 1, Added: []int32{0, 1}},
		{Topic: "orders", Partition: 2}, {Topic: "new", Added: []int32{1}}}
	sizes := map[place]int64{{"orders", 0}: 6 * gibi, {"orders", 1}: 3 * gibi, {"orders", 2}: 100 * gibi}
	volume := func(free int64) []sarama.DescribeLogDirsResponseDirMetadata {
		return []sarama.DescribeLogDirsResponseDirMetadata{{TotalBytes: 100 * gibi, UsableBytes: free * gibi},
			{ErrorCode: sarama.ErrKafkaStorageError, TotalBytes: 100 * gibi, UsableBytes: 100 * gibi}}
	}
	for name, c := range map[string]struct {
		free map[int32]int64
		want string
	}{
		"all have room": {map[int32]int64{0: freeIn(volume(13)), 1: freeIn(volume(7))}, ""},
		"one has not": {map[int32]int64{0: freeIn(volume(12)), 1: freeIn(volume(7))},
			"broker 0 would get 9.0 GiB, and its volumes have room for 8.0 GiB" + advice},
		"one is full": {map[int32]int64{1: freeIn(volume(1))},
			"broker 1 would get 3.0 GiB, and its volumes have room for 0 B" + advice},
		"one does not say it": {map[int32]int64{0: freeIn([]sarama.DescribeLogDirsResponseDirMetadata{{}})}, ""},
		"none has answered":   {nil, ""},
	} {
		got := ""
		if err := overfull(bytesAdded(moves, sizes), c.free); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}
