// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"math"
	"testing"

	"github.com/zeroinfra/agents/internal/driver"
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
