// SPDX-License-Identifier: Apache-2.0

//go:build processes

package kafka_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/IBM/sarama"

	"github.com/zeroinfra/agents/internal/driver"
	"github.com/zeroinfra/agents/internal/driver/kafka"
)

const canaryTopic = "__zeroinfra_canary"

// awaitRestart asks for so long whether a broker may be restarted.
func (s *server) awaitRestart(broker string, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	return s.driver.AwaitRestart(ctx, broker, patience)
}

// A broker waits for replicas that catch up for as long as that takes, and not for those of a broker that is down.
func TestABrokerWaitsForWhatCatchesUp(t *testing.T) {
	const away = 5 * time.Second
	// The first answer for a follower is not throttled: it is small.
	s := newServer(t, 3, "min.insync.replicas=2", "replica.fetch.max.bytes=1024")
	s.must(kafka.KindTopic, topicOf("orders", driver.Create, "partitions", "1", "replication-factor", "3"))
	s.throttleFollowersOf("orders")
	s.query(kafka.ConfigSet, "2", `{"follower.replication.throttled.rate":"1"}`)
	s.Nodes[1].Kill()
	// It may have been the leader.
	s.until("the broker is down", func(row map[string]string) bool { return row["alive"] == "2" }, "cluster")
	s.produce("orders", 600)
	s.until("the topic cannot do without another one", func(row map[string]string) bool { return row["may"] == "no" },
		"restart", "3")

	const says = "broker 3 is stopped although without broker 3 too few replicas would be in sync of orders-0"
	ctx, cancel := context.WithTimeout(s.Context(), callTime)
	defer cancel()
	err := s.driver.AwaitRestart(ctx, "3", away)
	if err == nil || !strings.Contains(err.Error(), says) || ctx.Err() != nil {
		t.Errorf("with a broker that is down: %v, %v", err, ctx.Err())
	}

	s.Nodes[1].Start()
	s.Nodes[1].Ready()
	s.until("all are there", func(row map[string]string) bool { return row["alive"] == "3" }, "cluster")
	// Longer than what one that is away has.
	ctx, cancel = context.WithTimeout(s.Context(), 20*time.Second)
	defer cancel()
	err = s.driver.AwaitRestart(ctx, "3", away)
	if err == nil || !strings.Contains(err.Error(), says) || ctx.Err() == nil {
		t.Errorf("with a replica that catches up: %v, %v", err, ctx.Err())
	}
	s.query(kafka.ConfigSet, "2", `{"follower.replication.throttled.rate":"1000000000"}`)
	ctx, cancel = context.WithTimeout(s.Context(), callTime)
	defer cancel()
	if err := s.driver.AwaitRestart(ctx, "3", away); err != nil {
		t.Errorf("with a replica that catches up fast: %v", err)
	}
}

// throttleFollowersOf has what followers of a topic that are not in sync are sent be throttled.
func (s *server) throttleFollowersOf(topic string) {
	s.Helper()
	all := "*"
	if err := s.admin().IncrementalAlterConfig(sarama.TopicResource, topic, map[string]sarama.IncrementalAlterConfigsEntry{
		"follower.replication.throttled.replicas": {Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &all},
	}, false); err != nil {
		s.Fatal(err)
	}
}

// A broker stops once the others take records with acks=all, whatever replicas are in sync of the topics of users. The
// topic that this takes is in the way of nobody.
func TestABrokerStopsWhenTheOthersTakeRecords(t *testing.T) {
	// A cluster with an authorizer, where a topic takes no record that says nothing else while one broker is down.
	s := newServer(t, 3, "min.insync.replicas=3")
	if err := s.awaitRestart("1", callTime); err != nil {
		t.Fatal(err)
	}
	if got := s.records(); len(got) != 0 {
		t.Errorf("there is a canary, and nothing that it is for: %v", got)
	}
	s.must(kafka.KindTopic, topicOf("orders", driver.Create, "partitions", "3", "replication-factor", "3", "config",
		`{"min.insync.replicas":"1"}`))
	s.must(kafka.KindTopic, topicOf("alone", driver.Create, "partitions", "3", "replication-factor", "1"))
	if err := s.awaitRestart("1", callTime); err != nil {
		t.Fatal(err)
	}
	before := s.records()
	if len(before) != 3 || before[1] > 0 || before[2] == 0 || before[3] == 0 {
		t.Errorf("by leader, the canary has written %v", before)
	}

	s.Nodes[1].Kill()
	s.until("a broker is down, and the topic can do without another one", func(row map[string]string) bool {
		return row["may"] == "yes"
	}, "restart", "3")
	err := s.awaitRestart("3", 15*time.Second)
	if err == nil || !strings.Contains(err.Error(), "broker 3 is stopped although partition 0 of "+canaryTopic+
		", which broker 1 leads, does not take a record with acks=all") {
		t.Errorf("with a broker that is down: %v", err)
	}

	s.Nodes[1].Start()
	s.Nodes[1].Ready()
	if err := s.awaitRestart("3", callTime); err != nil {
		t.Fatal(err)
	}
	if got := s.records(); len(got) != 3 || got[2] <= before[2] || got[3] != before[3] {
		t.Errorf("by leader, the canary has written %v once all are there, and before %v", got, before)
	}
}

// A broker that leaves is emptied of the canary as well, gets no replica of it when it stops, and none of new topics.
func TestABrokerThatLeavesGetsNoReplica(t *testing.T) {
	s := newServer(t, 3, "min.insync.replicas=1")
	s.must(kafka.KindTopic, topicOf("orders", driver.Create, "partitions", "3", "replication-factor", "2"))
	if err := s.awaitRestart("1", callTime); err != nil {
		t.Fatal(err)
	}
	if got := s.records(); len(got) != 3 {
		t.Errorf("by leader, the canary has written %v", got)
	}
	const shape = `{"members":[["k-1","k-2"]],"leaving":["k-3"],"roles":["broker"]}`
	if first := s.query(kafka.MembersStep, shape)[0]; !strings.Contains(first["reason"], canaryTopic+" is removed") {
		s.Errorf("the first step is %v", first)
	}
	s.until("the broker is empty", func(row map[string]string) bool { return row["phase"] == "Done" }, kafka.MembersStep,
		shape)
	testCordoned(s)
	s.until("it leaves again", func(row map[string]string) bool { return row["phase"] == "Done" }, kafka.MembersStep,
		shape)
	if err := s.awaitRestart("3", callTime); err != nil {
		s.Error(err)
	}
	if held := s.query("holds", "3")[0]; held["replicas"] != "0" {
		s.Errorf("the broker that leaves holds %v", held)
	}
	s.until("it stays", func(row map[string]string) bool { return row["phase"] == "Done" }, kafka.MembersStep,
		`{"members":[["k-1","k-2","k-3"]],"leaving":[],"roles":["broker"]}`)
	testGone(s)
}

// testCordoned: a broker that leaves gets no new replicas, and does once it stays.
func testCordoned(s *server) {
	cordoned := func() string {
		for _, row := range s.query(kafka.Config, "3") {
			if row["name"] == "cordoned.log.dirs" {
				return row["value"]
			}
		}
		return ""
	}
	if got := cordoned(); got != "*" {
		s.Errorf("of the broker that leaves are cordoned: %q", got)
	}
	s.must(kafka.KindTopic, topicOf("later", driver.Create, "partitions", "12", "replication-factor", "2"))
	if held := s.query("holds", "3")[0]; held["replicas"] != "0" {
		s.Errorf("the broker that leaves has got %v", held)
	}
	const shape = `{"members":[["k-1","k-2","k-3"]],"leaving":[],"roles":["broker"]}`
	s.until("it stays", func(row map[string]string) bool { return row["phase"] == "Done" }, kafka.MembersStep, shape)
	if got := cordoned(); got != "" {
		s.Errorf("of the broker that stays are cordoned: %q", got)
	}
	// It holds nothing, and could be given something until its pod is gone.
	s.until("it leaves at once", func(row map[string]string) bool { return row["phase"] == "Done" }, kafka.MembersStep,
		`{"members":[["k-1","k-2"]],"leaving":["k-3"],"roles":["broker"]}`)
	if got := cordoned(); got != "*" {
		s.Errorf("of the broker that leaves and is empty are cordoned: %q", got)
	}
	s.until("it stays again", func(row map[string]string) bool { return row["phase"] == "Done" }, kafka.MembersStep, shape)
}

// testGone: what a broker that is gone was given is copied to others, and the broker forgotten then.
func testGone(s *server) {
	s.must(kafka.KindTopic, topicOf("given", driver.Create, "partitions", "6", "replication-factor", "2"))
	if held := s.query("holds", "3")[0]; held["replicas"] == "0" {
		s.Fatal("the broker that goes has been given nothing")
	}
	s.Nodes[2].Kill()
	s.until("the broker is gone", func(row map[string]string) bool { return row["alive"] == "2" }, "cluster")
	const shape = `{"members":[["k-1","k-2"]],"leaving":[],"roles":["broker"]}`
	s.until("the broker is replaced", func(row map[string]string) bool { return row["phase"] == "Done" },
		kafka.MembersStep, shape)
	if held := s.query("holds", "3")[0]; held["replicas"] != "0" {
		s.Errorf("the broker that is gone is to have %v", held)
	}
	if told := s.query("cluster")[0]; told["brokers"] != "2" {
		s.Errorf("with a broker that is to be forgotten the cluster is %v", told)
	}
}

// records are how many the canary has written to the partition that each broker leads; none where it has no topic.
func (s *server) records() map[int32]int64 {
	s.Helper()
	client := s.client()
	defer client.Close()
	ids, err := client.Partitions(canaryTopic)
	if err != nil {
		return nil
	}
	written := map[int32]int64{}
	for _, id := range ids {
		offset, err := client.GetOffset(canaryTopic, id, sarama.OffsetNewest)
		if err != nil {
			s.Fatal(err)
		}
		leader, err := client.Leader(canaryTopic, id)
		if err != nil {
			s.Fatal(err)
		}
		written[leader.ID()] += offset
	}
	return written
}
