// SPDX-License-Identifier: Apache-2.0

//go:build processes

package kafka_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/IBM/sarama"

	"github.com/zeroinfra/agents/internal/driver"
	"github.com/zeroinfra/agents/internal/driver/kafka"
	"github.com/zeroinfra/agents/internal/testkafka"
)

// The shapes of three brokers, and of the last of them leaving.
const (
	threeBrokers = `{"members":[["k-1","k-2","k-3"]],"leaving":[],"roles":["broker"]}`
	oneLeaves    = `{"members":[["k-1","k-2"]],"leaving":["k-3"],"roles":["broker"]}`
)

// Whatever moves replicas is throttled by the parameters of the cluster, and the throttle is taken off when nothing
// moves any more, whoever ended that.
func TestReplicasThatMoveAreThrottled(t *testing.T) { testThrottle(t) }

// The same with Kafka 3.9.
func TestReplicasThatMoveAreThrottledInKafka39(t *testing.T) {
	testkafka.UseKafka39(t)
	testThrottle(t)
}

// throttled is a cluster of three whose replicas move slowly.
type throttled struct {
	*server
	admin sarama.ClusterAdmin
}

func testThrottle(t *testing.T) {
	// The first answer for a follower is not throttled: it is small.
	s := &throttled{server: newServer(t, 3, "replica.fetch.max.bytes=1024")}
	s.admin = s.server.admin()
	s.must(kafka.KindTopic, topicOf("orders", driver.Create, "partitions", "3", "replication-factor", "1"))
	s.produce("orders", 3000)
	s.rate("1")
	s.off("before anything moves")

	// A topic gets more replicas, and whoever looks after it dies.
	s.must(kafka.KindTopic, topicOf("orders", driver.Update, "replication-factor", "2"))
	s.on("1")
	if step := s.query(kafka.MembersPlan, threeBrokers)[0]; step["phase"] != "Done" {
		t.Errorf("while replicas move the members are %v", step)
	}
	s.callOff("orders")
	s.settled(threeBrokers)

	// A broker is to leave, and then stays: what has begun goes on.
	s.query(kafka.MembersStep, oneLeaves)
	s.on("1")
	s.query(kafka.MembersStep, threeBrokers)
	s.on("1")
	s.callOff("orders")
	s.settled(threeBrokers)

	// It leaves, at a rate that lets it.
	s.rate("1000000000")
	s.query(kafka.MembersStep, oneLeaves)
	s.has("1000000000")
	s.until("the broker is empty", done, kafka.MembersStep, oneLeaves)
	if held := s.query("holds", "3")[0]; held["replicas"] != "0" {
		t.Errorf("the broker holds %v", held)
	}
	for id, replicas := range s.replicas("orders") {
		if len(replicas) != 1 {
			t.Errorf("partition %d has got the replicas %v", id, replicas)
		}
	}
	s.off("when the broker is empty")
	if got := s.count("orders"); got != 3000 {
		t.Errorf("%d of 3000 messages are left", got)
	}
	testGoalsOfThrottles(s)
}

// testGoalsOfThrottles: a goal has a throttle of its own, or none.
func testGoalsOfThrottles(s *throttled) {
	s.query(kafka.MembersStep, threeBrokers)
	s.must(kafka.KindTopic, topicOf("bills", driver.Create, "partitions", "1", "replication-factor", "1"))
	s.produce("bills", 1000)
	s.query(kafka.ReassignStep, `{"factors":{"bills":2},"throttle":1}`)
	s.on("1")
	s.query(kafka.ReassignCancel)
	s.off("after a cancel")
	s.rate("1")
	s.query(kafka.ReassignStep, `{"factors":{"bills":2},"throttle":0}`)
	s.until("it moves although all are to be slow", done, kafka.ReassignStep, `{"factors":{"bills":2},"throttle":0}`)
}

// rate sets the parameters of the cluster.
func (s *throttled) rate(rate string) {
	s.Helper()
	s.query(kafka.ConfigSet, "", fmt.Sprintf(
		`{"leader.replication.throttled.rate":%q,"follower.replication.throttled.rate":%[1]q}`, rate))
}

// callOff ends what moves past the driver, as if whoever began it were gone.
func (s *throttled) callOff(topic string) {
	s.Helper()
	if err := s.admin.AlterPartitionReassignments(topic, [][]int32{nil, nil, nil}); err != nil &&
		!strings.Contains(err.Error(), sarama.ErrNoReassignmentInProgress.Error()) {
		s.Fatal(err)
	}
	s.until("nothing moves", func(row map[string]string) bool { return row["reassigning"] == "0" }, "cluster")
}

// settled has the members be looked after until the throttle is off.
func (s *throttled) settled(shape string) {
	s.Helper()
	s.until("the broker says that its throttle is to be taken off",
		func(row map[string]string) bool { return row["throttle"] == "idle" }, "status", "1")
	if step := s.query(kafka.MembersStep, shape)[0]; step["phase"] != "Working" ||
		!strings.Contains(step["reason"], "the throttle is taken off") {
		s.Errorf("the step is %v", step)
	}
	s.off("when nothing moves any more")
	s.until("they are members", done, kafka.MembersPlan, shape)
}

// has waits until brokers have the rate for themselves.
func (s *throttled) has(rate string) {
	s.Helper()
	for _, node := range []string{"1", "2", "3"} {
		s.until("broker "+node+" is throttled",
			func(map[string]string) bool { return s.rates(node) == [2]string{rate, rate} }, "cluster")
	}
}

// on waits until brokers have the rate for themselves, and replicas move.
func (s *throttled) on(rate string) {
	s.Helper()
	s.has(rate)
	s.until("the broker says that it is throttled",
		func(row map[string]string) bool { return row["throttle"] == "moving" }, "status", "1")
}

// off waits until no broker has a rate for itself, and no topic is throttled.
func (s *throttled) off(when string) {
	s.Helper()
	for _, node := range []string{"1", "2", "3"} {
		s.until(when+" broker "+node+" is not throttled",
			func(map[string]string) bool { return s.rates(node) == [2]string{} }, "cluster")
	}
	s.until(when+" no topic is throttled", func(map[string]string) bool { return !s.throttles("orders") }, "cluster")
	s.until(when+" the broker says so", func(row map[string]string) bool { return row["throttle"] == "" }, "status", "1")
}

// replicas of the partitions of a topic.
func (s *throttled) replicas(topic string) map[int32][]int32 {
	s.Helper()
	topics, err := s.admin.DescribeTopics([]string{topic})
	if err != nil {
		s.Fatal(err)
	}
	all := map[int32][]int32{}
	for _, p := range topics[0].Partitions {
		all[p.ID] = p.Replicas
	}
	return all
}

// rates are those that a broker has for itself, of leaders and followers.
func (s *throttled) rates(node string) (rates [2]string) {
	rows, _ := s.ask(driver.ReadOnly, kafka.Config, node)
	for _, row := range rows {
		for i, name := range []string{"leader.replication.throttled.rate", "follower.replication.throttled.rate"} {
			if row["name"] == name && row["source"] == "dynamic-broker" {
				rates[i] = row["value"]
			}
		}
	}
	return rates
}

// throttles says whether replicas of a topic are throttled.
func (s *throttled) throttles(topic string) bool {
	s.Helper()
	entries, err := s.admin.DescribeConfig(sarama.ConfigResource{Type: sarama.TopicResource, Name: topic,
		ConfigNames: []string{"follower.replication.throttled.replicas"}})
	if err != nil {
		s.Fatal(err)
	}
	return len(entries) > 0 && entries[0].Source == sarama.SourceTopic
}
