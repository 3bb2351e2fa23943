// SPDX-License-Identifier: Apache-2.0

//go:build processes

package kafka_test

import (
	"slices"
	"testing"

	"github.com/zeroinfra/agents/internal/driver"
	"github.com/zeroinfra/agents/internal/driver/kafka"
	"github.com/zeroinfra/agents/internal/testkafka"
)

// racked is a cluster of three brokers, of which the second is in rack b and the others are in rack a.
func racked(t *testing.T) *server {
	t.Helper()
	c := testkafka.NewInRacks(t, []string{"a", "b", "a"})
	return &server{c, driverOf(c, testkafka.Admin, testkafka.AdminPassword)}
}

// replicas of a topic, by partition.
func (s *server) replicas(topic string) map[int32][]int32 {
	s.Helper()
	client := s.client()
	defer client.Close()
	ids, err := client.Partitions(topic)
	if err != nil {
		s.Fatal(err)
	}
	replicas := map[int32][]int32{}
	for _, id := range ids {
		if replicas[id], err = client.Replicas(topic, id); err != nil {
			s.Fatal(err)
		}
	}
	return replicas
}

// wantBothRacks fails where a partition of two replicas has both in one rack.
func (s *server) wantBothRacks(what, topic string) {
	s.Helper()
	for id, on := range s.replicas(topic) {
		if len(on) != 2 || on[0]%2 == on[1]%2 {
			s.Errorf("%s: partition %d of %s is on the brokers %v", what, id, topic, on)
		}
	}
}

// Topics that are made, partitions and replicas that are added, and what a reassignment moves, are spread over racks.
func TestReplicasAreSpreadOverRacks(t *testing.T) {
	s := racked(t)
	for _, row := range s.query("brokers") {
		want := "a"
		if row["broker"] == "2" {
			want = "b"
		}
		if row["rack"] != want {
			s.Errorf("got the broker %v, want the rack %s", row, want)
		}
	}
	s.must(kafka.KindTopic, topicOf("orders", driver.Create, "partitions", "4", "replication-factor", "2"))
	s.wantBothRacks("a new topic", "orders")
	s.must(kafka.KindTopic, topicOf("orders", driver.Update, "partitions", "8", "replication-factor", "2"))
	s.wantBothRacks("partitions that were added", "orders")

	s.must(kafka.KindTopic, topicOf("single", driver.Create, "partitions", "4", "replication-factor", "1"))
	s.must(kafka.KindTopic, topicOf("single", driver.Update, "partitions", "4", "replication-factor", "2"))
	s.until("no reassignment", atRest, "cluster")
	s.wantBothRacks("replicas that were added", "single")

	// Somebody has put the replicas of a topic into one rack.
	s.assign("orders", slices.Repeat([][]int32{{1, 3}}, 8))
	s.until("no reassignment", atRest, "cluster")
	if plan := s.query("reassign-plan", `{}`); len(plan) > 0 {
		s.Errorf("without balance %d moves are planned, such as %v", len(plan), plan[0])
	}
	s.until("the spread", func(row map[string]string) bool { return row["phase"] == "Done" }, "reassign-step",
		`{"balance":"even"}`)
	s.wantBothRacks("a rebalance", "orders")

	// What a broker that leaves has goes to the other one of its rack.
	s.until("the broker is empty", func(row map[string]string) bool { return row["phase"] == "Done" }, "reassign-step",
		`{"leaving":[3]}`)
	s.wantBothRacks("a broker that leaves", "orders")
	if held := s.query("holds", "3")[0]; held["replicas"] != "0" {
		s.Errorf("the broker that leaves holds %v", held)
	}
}

func atRest(row map[string]string) bool {
	return row["reassigning"] == "0" && row["underReplicated"] == "0"
}

// assign has the partitions of a topic be on these brokers.
func (s *server) assign(topic string, replicas [][]int32) {
	s.Helper()
	if err := s.admin().AlterPartitionReassignments(topic, replicas); err != nil {
		s.Fatal(err)
	}
}
