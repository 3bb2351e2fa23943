// SPDX-License-Identifier: Apache-2.0

//go:build processes

package kafka_test

import (
	"context"
	"testing"

	"github.com/zeroinfra/agents/internal/driver"
	"github.com/zeroinfra/agents/internal/driver/kafka"
	"github.com/zeroinfra/agents/internal/testkafka"
)

// migration is a cluster of Kafka 3.9 and the driver of its broker.
type migration struct {
	*server
	zooKeeper *testkafka.ZooKeeper
}

// TestMigrationFromZooKeeper has a broker of Kafka 3.9 with ZooKeeper follow a controller, go back, and follow one
// again: topics with their records, users, quotas and access rules are what they were, and can be changed in each
// stage.
func TestMigrationFromZooKeeper(t *testing.T) {
	z := testkafka.NewZooKeeper(t)
	m := &migration{&server{&testkafka.Cluster{T: t, Nodes: []*testkafka.Node{{Address: z.Client}}},
		kafka.New(kafka.Options{Address: z.Internal, Username: testkafka.Internal,
			Password: func() (string, error) { return testkafka.InternalPassword, nil }})}, z}
	z.Broker(testkafka.StageZooKeeper)
	m.answers()
	m.fill()
	m.holds("with-zookeeper", 300)

	z.StartController(testkafka.StageMigrating)
	z.Broker(testkafka.StageMigrating)
	z.Tool("migrated")
	m.answers()
	m.holds("while-migrating", 600)
	z.Broker(testkafka.StageMigrated)
	m.answers()
	m.holds("migrated", 900)
	if rows := m.query("quorum"); len(rows) == 0 || rows[0]["node"] != "1000" || rows[0]["leader"] != "yes" {
		t.Errorf("the quorum is %v", rows)
	}

	z.Broker(testkafka.StageMigrating)
	m.answers()
	z.Stop("controller")
	z.Tool("withdraw")
	z.Broker(testkafka.StageZooKeeper)
	m.answers()
	m.holds("with-zookeeper-again", 1200)
	z.StartController(testkafka.StageMigrating)
	z.Refused("controller", "migration that was taken back")
	z.RemoveController()

	z.StartController(testkafka.StageMigrating)
	z.Broker(testkafka.StageMigrating)
	z.Tool("migrated")
	z.Broker(testkafka.StageMigrated)
	m.answers()
	z.StartController(testkafka.StageApart)
	z.Stop("zookeeper")
	m.answers()
	m.holds("without-zookeeper", 1500)
}

// answers waits until the broker serves, and whoever is the controller takes changes.
func (m *migration) answers() {
	m.Helper()
	m.until("the broker serves", func(row map[string]string) bool {
		return row["alive"] == "0" && row["controller"] != ""
	}, "status")
	ctx, cancel := context.WithTimeout(m.Context(), callTime)
	defer cancel()
	if err := m.driver.SetPassword(ctx, testkafka.Admin, testkafka.AdminPassword); err != nil {
		m.Fatal(err)
	}
}

// fill makes what has to outlive the migration.
func (m *migration) fill() {
	m.Helper()
	m.must(kafka.KindTopic, topicOf("orders", driver.Create, "partitions", "2", "replication-factor", "1",
		"config", `{"retention.ms":"3600000"}`, "access", `{"User:alice":["read"]}`))
	m.must(kafka.KindTopic, topicOf("orders", driver.Update, "partitions", "3", "replication-factor", "1",
		"config", `{"retention.ms":"3600000"}`, "access", `{"User:alice":["read"]}`))
	m.must(kafka.KindUser, changeOf("alice", driver.Create, "a password of hers"))
	m.must(kafka.KindQuota, changeOf("user/alice", driver.Create, "", "producer-byte-rate", "1048576"))
}

// holds looks at that, sends further records, of which there are so many then, and makes and removes what is of a stage
// alone.
func (m *migration) holds(stage string, records int64) {
	m.Helper()
	// A broker that was just started with ZooKeeper has yet to be told of topics by the controller.
	m.until("the broker knows of the topic", func(row map[string]string) bool {
		return row["partitions"] != "0" && row["offline"] == "0"
	}, "cluster")
	m.has(kafka.KindTopic, "orders", map[string]string{"partitions": "3", "replication-factor": "1",
		"config": `{"retention.ms":"3600000"}`, "access": `{"User:alice":["read"]}`})
	m.has(kafka.KindQuota, "user/alice", map[string]string{"producer-byte-rate": "1048576", "consumer-byte-rate": "",
		"request-percentage": "", "controller-mutation-rate": ""})
	if state := m.observe(kafka.KindUser, driver.Query{Name: "alice", Password: "a password of hers"}); state == nil {
		m.Errorf("%s: alice is gone", stage)
	}
	m.produce("orders", 300)
	if got := m.count("orders"); got != records {
		m.Errorf("%s: the topic has %d records, want %d", stage, got, records)
	}
	m.must(kafka.KindTopic, topicOf(stage, driver.Create, "partitions", "1", "replication-factor", "1"))
	m.must(kafka.KindUser, changeOf(stage, driver.Create, "another password"))
	m.must(kafka.KindTopic, topicOf(stage, driver.Delete))
	m.must(kafka.KindUser, changeOf(stage, driver.Delete, ""))
	m.gone(kafka.KindTopic, stage)
	m.gone(kafka.KindUser, stage)
}
