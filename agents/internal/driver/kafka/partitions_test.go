// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"fmt"
	"testing"

	"github.com/IBM/sarama"

	"github.com/zeroinfra/agents/internal/driver"
)

// TestOtherFactorsGoToBrokersThatStay: one that is cordoned is about to leave, and a topic that the others are too few
// for holds up none.
func TestOtherFactorsGoToBrokersThatStay(t *testing.T) {
	places := placesOf([]*sarama.DescribeClusterBroker{{BrokerID: 0}, {BrokerID: 1}, {BrokerID: 2}, {BrokerID: 3},
		{BrokerID: 4, IsFenced: true}}, []int32{2, 3})
	all := []partition{{Topic: "a", Replicas: []int32{0}}, {Topic: "b", Replicas: []int32{2}},
		{Topic: "c", Replicas: []int32{1}}}
	problems := driver.Problems{}
	moves := movesTo(places, all, map[string]int{"a": 2, "b": 2, "c": 3}, problems)
	if got, want := fmt.Sprint(moves), "[{a 0 [0 1] [1]} {b 0 [2 0] [0]}]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	const want = "partition c-0 needs 3 brokers for its replicas, and 2 can hold them: add brokers, or start those that " +
		"are down"
	if len(problems) != 1 || problems["c"] != want {
		t.Errorf("got %v, want %s", problems, want)
	}
}
