// SPDX-License-Identifier: Apache-2.0

//go:build processes

package kafka_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/zeroinfra/agents/internal/driver"
	"github.com/zeroinfra/agents/internal/driver/kafka"
	"github.com/zeroinfra/agents/internal/testkafka"
)

func TestEntitiesOfARealKafka(t *testing.T) {
	s := newServer(t, 1)
	for name, test := range map[string]func(*server){
		"topics": testTopics, "access": testAccess, "quotas": testQuotas, "users": testUsers, "many topics": testManyTopics,
	} {
		t.Run(name, func(t *testing.T) {
			cluster := *s.Cluster
			cluster.T = t
			test(&server{&cluster, s.driver})
		})
	}
}

func testTopics(s *server) {
	s.gone(kafka.KindTopic, "orders")
	s.must(kafka.KindTopic, topicOf("orders", driver.Create, "partitions", "3", "replication-factor", "1", "config",
		`{"retention.ms":"3600000","cleanup.policy":"compact"}`))
	want := map[string]string{"partitions": "3", "replication-factor": "1",
		"config": `{"cleanup.policy":"compact","retention.ms":"3600000"}`, "access": ""}
	s.has(kafka.KindTopic, "orders", want)
	// Made again, it stays.
	s.must(kafka.KindTopic, topicOf("orders", driver.Create, "partitions", "3", "config", want["config"]))
	s.must(kafka.KindTopic, topicOf("orders", driver.Update, "partitions", "5", "config", `{"retention.ms":"7200000"}`))
	s.has(kafka.KindTopic, "orders",
		map[string]string{"partitions": "5", "replication-factor": "1", "config": `{"retention.ms":"7200000"}`, "access": ""})
	s.must(kafka.KindTopic, topicOf("orders", driver.Update))
	s.has(kafka.KindTopic, "orders",
		map[string]string{"partitions": "5", "replication-factor": "1", "config": "", "access": ""})

	s.refused(kafka.KindTopic, topicOf("orders", driver.Update, "partitions", "4"),
		"Kafka cannot take any away: set partitions to 5 or more")
	s.refused(kafka.KindTopic, topicOf("orders", driver.Update, "replication-factor", "3"),
		"needs as many brokers, and 1 are alive")
	s.refused(kafka.KindTopic, topicOf("orders", driver.Update, "config", `{"retention.msec":"1"}`),
		"Unknown topic config name: retention.msec")
	s.refused(kafka.KindTopic, topicOf("orders", driver.Update, "config", `{"retention.ms":"soon"}`),
		"Invalid value soon for configuration retention.ms")
	s.refused(kafka.KindTopic, topicOf("orders", driver.Update, "config", `{"retention.ms":1}`),
		"must be a JSON object of texts")
	s.refused(kafka.KindTopic, topicOf("orders", driver.Update, "config", `{"min.insync.replicas":"2"}`),
		"min.insync.replicas is 2, and each partition has 1 replicas: lower it")
	s.refused(kafka.KindTopic, topicOf("safe", driver.Create, "config", `{"min.insync.replicas":"2"}`),
		"min.insync.replicas is 2, and each partition has 1 replicas: lower it")
	s.gone(kafka.KindTopic, "safe")
	s.refused(kafka.KindTopic, topicOf("wide", driver.Create, "replication-factor", "3"),
		"replication factor of 3 cannot be reached")
	s.refused(kafka.KindTopic, topicOf("no/slash", driver.Create), "Topic name is invalid")
	s.refused(kafka.KindTopic, topicOf("__consumer_offsets", driver.Delete), "is Kafka's own")
	s.refused(kafka.KindTopic, topicOf("odd", driver.Create, "config", `{"retention.msec":"1"}`),
		"Unknown topic config name: retention.msec")
	s.gone(kafka.KindTopic, "odd")
	s.has(kafka.KindTopic, "orders",
		map[string]string{"partitions": "5", "replication-factor": "1", "config": "", "access": ""})

	// Of a number the broker has one form.
	s.must(kafka.KindTopic, topicOf("orders", driver.Update, "config", `{"min.cleanable.dirty.ratio":"0.250"}`))
	s.has(kafka.KindTopic, "orders", map[string]string{"partitions": "5", "replication-factor": "1",
		"config": `{"min.cleanable.dirty.ratio":"0.25"}`, "access": ""})
	s.must(kafka.KindTopic, topicOf("orders", driver.Delete))
	s.gone(kafka.KindTopic, "orders")
	s.must(kafka.KindTopic, topicOf("orders", driver.Delete))
}

func testAccess(s *server) {
	asked := `{"User:alice":["read","write"],"User:bob":["describe"]}`
	s.must(kafka.KindTopic, topicOf("a", driver.Create, "access", asked))
	s.must(kafka.KindTopic, topicOf("b", driver.Create, "access", `{"User:alice":["read"]}`))
	access := func(topic, want string) {
		s.Helper()
		if state := s.observe(kafka.KindTopic, driver.Query{Name: topic}); state == nil ||
			state.Parameters["access"] != want {
			s.Errorf("%s: got %+v, want %s", topic, state, want)
		}
	}
	groups := func(want int) {
		s.Helper()
		if rows := s.query("access", "group"); len(rows) != want {
			s.Errorf("the rules for groups are %v, want %d", rows, want)
		}
	}
	access("a", asked)
	groups(2)
	s.must(kafka.KindTopic, topicOf("a", driver.Update, "access", `{"User:bob":["read"]}`))
	access("a", `{"User:bob":["read"]}`)
	access("b", `{"User:alice":["read"]}`)
	groups(4)
	// A topic goes with its rules, and whoever reads nothing more loses the groups.
	s.must(kafka.KindTopic, topicOf("b", driver.Delete))
	groups(2)
	s.must(kafka.KindTopic, topicOf("a", driver.Delete))
	groups(0)
	if rows := s.query("access", "topic"); len(rows) != 0 {
		s.Errorf("rules for topics are left: %v", rows)
	}
	s.refused(kafka.KindTopic, topicOf("c", driver.Create, "access", `{"alice":["read"]}`),
		"it must have a type and a name, such as User:alice")
	s.refused(kafka.KindTopic, topicOf("c", driver.Create, "access", `{"User:alice":["alter"]}`),
		"must be one of describe, read, write")
	s.gone(kafka.KindTopic, "c")
}

func testQuotas(s *server) {
	want := map[string]string{"producer-byte-rate": "1048576", "consumer-byte-rate": "", "request-percentage": "12.5",
		"controller-mutation-rate": ""}
	for _, name := range []string{"user/alice", "client/app", "user/alice/client/app", "user/*", "client/*",
		"user/*/client/*"} {
		s.gone(kafka.KindQuota, name)
		s.must(kafka.KindQuota,
			changeOf(name, driver.Create, "", "producer-byte-rate", "1048576", "request-percentage", "12.5"))
		s.has(kafka.KindQuota, name, want)
	}
	s.must(kafka.KindQuota, changeOf("user/alice", driver.Update, "", "consumer-byte-rate", "2048"))
	s.has(kafka.KindQuota, "user/alice", map[string]string{"producer-byte-rate": "", "consumer-byte-rate": "2048",
		"request-percentage": "", "controller-mutation-rate": ""})
	s.has(kafka.KindQuota, "user/*", want)
	for _, name := range []string{"user/alice", "client/app", "user/alice/client/app", "user/*", "client/*",
		"user/*/client/*"} {
		s.must(kafka.KindQuota, changeOf(name, driver.Delete, ""))
		s.gone(kafka.KindQuota, name)
	}
	s.refused(kafka.KindQuota, changeOf("alice", driver.Create, "", "consumer-byte-rate", "1"),
		"must be user/<name>, client/<id> or")
	s.refused(kafka.KindQuota, changeOf("user/alice", driver.Create, ""), "a quota without a limit is none")
	s.refused(kafka.KindQuota, changeOf("user/alice", driver.Create, "", "consumer-byte-rate", "-1"),
		"must be a number above 0")
}

func testUsers(s *server) {
	s.must(kafka.KindUser, changeOf("alice", driver.Create, "hunter22", "iterations", "8192"))
	s.has(kafka.KindUser, "alice", map[string]string{"iterations": "8192"})
	password := func(password string, want driver.Password) {
		s.Helper()
		if state := s.observe(kafka.KindUser, driver.Query{Name: "alice", Password: password}); state == nil ||
			state.Password != want {
			s.Errorf("with %q got %+v, want %s", password, state, want)
		}
	}
	password("hunter22", driver.SamePassword)
	password("hunter23", driver.OtherPassword)
	s.must(kafka.KindUser, changeOf("alice", driver.Update, "hunter23"))
	password("hunter23", driver.SamePassword)
	password("hunter22", driver.OtherPassword)
	if _, err := driverOf(s.Cluster, "alice", "hunter22").Observe(s.Context(), kafka.KindTopic,
		[]driver.Query{{Name: "x"}}); err == nil ||
		!strings.Contains(err.Error(), "cannot log in to Kafka") || strings.Contains(err.Error(), "hunter") {
		s.Errorf("with a wrong password: %v", err)
	}
	s.refused(kafka.KindUser, changeOf(testkafka.Admin, driver.Delete, ""), "is the instance's own")
	s.refused(kafka.KindUser, changeOf("carol", driver.Create, "pw", "iterations", "1"), "from 4096 to 16384")
	s.must(kafka.KindUser, changeOf("alice", driver.Delete, ""))
	s.gone(kafka.KindUser, "alice")
	s.must(kafka.KindUser, changeOf("alice", driver.Delete, ""))
}

// testManyTopics: one call makes them all, and tells of the one that cannot be.
func testManyTopics(s *server) {
	ctx, cancel := context.WithTimeout(s.Context(), callTime)
	defer cancel()
	var creations, deletions []driver.Change
	for i := range 200 {
		name := fmt.Sprintf("many-%d", i)
		creations, deletions = append(creations, topicOf(name, driver.Create, "config", `{"retention.ms":"1000"}`)),
			append(deletions, topicOf(name, driver.Delete))
	}
	creations = append(creations, topicOf("many-broken", driver.Create, "config", `{"retention.ms":"x"}`))
	problems, err := s.driver.Change(ctx, kafka.KindTopic, creations)
	if err != nil || len(problems) != 1 || problems["many-broken"] == "" {
		s.Fatalf("got %v, %v", problems, err)
	}
	if problems, err := s.driver.Change(ctx, kafka.KindTopic, deletions); err != nil || len(problems) > 0 {
		s.Fatalf("got %v, %v", problems, err)
	}
	s.gone(kafka.KindTopic, "many-7")
}
