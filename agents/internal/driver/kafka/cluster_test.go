// SPDX-License-Identifier: Apache-2.0

//go:build processes

package kafka_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/IBM/sarama"

	"github.com/zeroinfra/agents/internal/driver"
	"github.com/zeroinfra/agents/internal/driver/kafka"
)

// patience with what a cluster of three does by itself.
const patience = 4 * time.Minute

// until asks again until a row is as wanted.
func (s *server) until(what string, wanted func(map[string]string) bool, text string,
	arguments ...string) map[string]string {
	s.Helper()
	deadline := time.Now().Add(patience)
	for {
		rows, err := s.ask(driver.ReadWrite, text, arguments...)
		if err == nil && len(rows) > 0 && wanted(rows[0]) {
			return rows[0]
		}
		if time.Now().After(deadline) {
			s.Fatalf("%s: after %v %s gives %v, %v", what, patience, text, rows, err)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

func TestAClusterOfThree(t *testing.T) {
	s := newServer(t, 3, "min.insync.replicas=1")
	s.must(kafka.KindTopic, topicOf("orders", driver.Create, "partitions", "6", "replication-factor", "1"))
	s.produce("orders", 600)
	testQuorum(s)
	testFactor(s)
	testConfig(s)
	testLagAndGuard(s)
	testRestart(s)
	testDrain(s)
}

func testQuorum(s *server) {
	rows := s.query("quorum")
	leaders, directories := 0, map[string]string{}
	for _, row := range rows {
		directories[row["node"]] = row["directory"]
		if row["leader"] == "yes" {
			leaders++
		}
		if row["role"] != "voter" || row["epoch"] == "0" {
			s.Errorf("got the member %v", row)
		}
	}
	if len(rows) != 3 || leaders != 1 {
		s.Fatalf("the quorum is %v", rows)
	}
	for _, node := range s.Nodes {
		if got := directories[fmt.Sprint(node.ID)]; got != node.Directory {
			s.Errorf("node %d has the directory %q, want %q", node.ID, got, node.Directory)
		}
	}
	cluster := s.query("cluster")[0]
	if cluster["cluster"] != s.ID || cluster["alive"] != "3" || cluster["offline"] != "0" {
		s.Errorf("the cluster is %v", cluster)
	}
	status := s.query("status")[0]
	if status["controller"] != cluster["controller"] || status["alive"] != "1 2 3" || status["metadata"] != "4.4" {
		s.Errorf("the status is %v", status)
	}
	controller := &server{s.Cluster,
		kafka.New(kafka.Options{Address: s.Nodes[0].Controller, Password: func() (string, error) { return "", nil }})}
	if asked := controller.query("status")[0]; asked["controller"] != cluster["controller"] ||
		asked["epoch"] != status["epoch"] || asked["brokers"] != "" {
		s.Errorf("the status of a controller is %v", asked)
	}
	// A voter of this number is there already, and one of this directory is not.
	if _, err := s.ask(driver.ReadWrite, "voter-remove", "1", s.Nodes[1].Directory); err != nil {
		s.Errorf("to remove a voter that is none: %v", err)
	}
	if _, err := s.ask(driver.ReadOnly, "voter-remove", "1", s.Nodes[0].Directory); err == nil ||
		!strings.Contains(err.Error(), "does more than read") {
		s.Errorf("a query that only reads removes a voter: %v", err)
	}
}

func testFactor(s *server) {
	s.must(kafka.KindTopic, topicOf("orders", driver.Update, "partitions", "6", "replication-factor", "3", "config",
		`{"min.insync.replicas":"2"}`))
	if state := s.observe(kafka.KindTopic, driver.Query{Name: "orders"}); state.Parameters["replication-factor"] != "3" {
		s.Errorf("got %+v", state)
	}
	s.until("all replicas in sync", func(row map[string]string) bool {
		return row["reassigning"] == "0" && row["underReplicated"] == "0"
	}, "cluster")
	if state := s.observe(kafka.KindTopic, driver.Query{Name: "orders"}); state.Pending != "" {
		s.Errorf("when all is done it tells %q", state.Pending)
	}
	s.must(kafka.KindTopic,
		topicOf("orders", driver.Update, "replication-factor", "2", "config", `{"min.insync.replicas":"2"}`))
	for _, row := range s.query("brokers") {
		if row["replicas"] == "0" || row["rack"] != "rack-"+row["broker"] {
			s.Errorf("the replicas are uneven: %v", row)
		}
	}
	s.must(kafka.KindTopic,
		topicOf("orders", driver.Update, "replication-factor", "3", "config", `{"min.insync.replicas":"2"}`))
	s.until("all replicas in sync", func(row map[string]string) bool {
		return row["reassigning"] == "0" && row["underReplicated"] == "0"
	}, "cluster")
}

func testConfig(s *server) {
	// That of another broker than the driver's.
	rows := s.query("config-set", "2", `{"background.threads":"12","log.cleaner.threads":null}`)
	if len(rows) != 2 || rows[0]["value"] != "12" || rows[0]["source"] != "dynamic-broker" {
		s.Errorf("got %v", rows)
	}
	s.query("config-set", "", `{"message.max.bytes":"2000000"}`)
	found := false
	for _, row := range s.query("config", "3") {
		found = found || row["name"] == "message.max.bytes" && row["value"] == "2000000" && row["source"] == "dynamic-default"
	}
	if !found {
		s.Error("broker 3 has not what all are to have")
	}
	s.query("config-set", "2", `{"background.threads":null}`)
	s.query("config-set", "", `{"message.max.bytes":null}`)
	if _, err := s.ask(driver.ReadWrite, "config-set", "2", `{"no.such.setting":"x","node.id":"9"}`); err == nil ||
		!strings.Contains(err.Error(), "node.id") {
		s.Errorf("a setting that cannot be changed: %v", err)
	}
}

func testLagAndGuard(s *server) {
	stop := s.consume("readers", "orders")
	s.until("the group has read all", func(row map[string]string) bool {
		return row["lag"] == "0" && row["members"] == "1" && row["partitions"] == "6"
	}, "lag", "orders")
	s.refused(kafka.KindTopic, topicOf("orders", driver.Delete),
		`members of consumer groups read it ("readers" with 1): stop them`)
	stop()
	s.produce("orders", 60)
	s.until("the group is behind", func(row map[string]string) bool { return row["lag"] == "60" && row["members"] == "0" },
		"lag", "orders")
	if row := s.query("consumers", "orders")[0]; row["groups"] != "1" || row["members"] != "0" || row["lag"] != "60" ||
		row["byGroup"] != "readers: 60" {
		s.Errorf("the consumers are %v", row)
	}
	s.refused(kafka.KindTopic, topicOf("large", driver.Create, "partitions", "6", "replication-factor", "3", "config",
		`{"retention.bytes":"1152921504606846976"}`), "lower retention.bytes, or enlarge the volumes")
	s.gone(kafka.KindTopic, "large")
	s.must(kafka.KindTopic, topicOf("large", driver.Create, "partitions", "6", "replication-factor", "3", "config",
		`{"retention.bytes":"1048576"}`))
	s.refused(kafka.KindTopic, topicOf("large", driver.Update, "config", `{"retention.bytes":"144115188075855872"}`),
		"EiB by retention.bytes")
	s.must(kafka.KindTopic, topicOf("large", driver.Delete))
}

func testRestart(s *server) {
	s.must(kafka.KindTopic, topicOf("alone", driver.Create, "partitions", "3", "replication-factor", "1"))
	row := s.query("restart", "3")[0]
	if row["may"] != "yes" || !strings.HasPrefix(row["alone"], "alone-") {
		s.Errorf("with all in sync: %v", row)
	}
	if _, err := s.ask(driver.ReadOnly, "expendable", "3"); err == nil ||
		!strings.Contains(err.Error(), "broker 3 has the only replica of alone-") {
		s.Errorf("a broker with the only replica is expendable: %v", err)
	}
	s.Nodes[1].Kill()
	row = s.until("a broker that is down blocks others", func(row map[string]string) bool { return row["may"] == "no" },
		"restart", "3")
	if !strings.Contains(row["reason"], "orders-0") {
		s.Errorf("got %v", row)
	}
	if _, err := s.ask(driver.ReadOnly, "expendable", "3"); err == nil || !strings.Contains(err.Error(), "orders-0") {
		s.Errorf("a broker whose data others lack is expendable: %v", err)
	}
	if _, err := s.ask(driver.ReadWrite, "unregister", "2"); err == nil ||
		!strings.Contains(err.Error(), "reassign them first") {
		s.Errorf("a broker that holds replicas is unregistered: %v", err)
	}
	s.Nodes[1].Start()
	s.Nodes[1].Ready()
	s.until("all are in sync again", func(row map[string]string) bool { return row["may"] == "yes" }, "restart", "3")
	s.query("elect-preferred")
	for _, row := range s.query("brokers") {
		if row["leaders"] == "0" {
			s.Errorf("broker %s leads nothing", row["broker"])
		}
	}
}

// testDrain: a broker is emptied with a throttle, step by step and as if each were made by somebody new; then it goes
// for good.
func testDrain(s *server) {
	// Two brokers are left for two replicas.
	for _, topic := range []string{"orders", "__consumer_offsets"} {
		s.query("reassign-step", fmt.Sprintf(`{"factors":{%q:2}}`, topic))
	}
	done := func(row map[string]string) bool { return row["phase"] == "Done" }
	s.until("fewer replicas", done, "reassign-step", `{"factors":{"orders":2,"__consumer_offsets":2}}`)
	const goal = `{"leaving":[3],"atOnce":2,"throttle":1048576}`
	if rows := s.query("reassign-plan", goal); len(rows) == 0 {
		s.Error("there is nothing to move")
	}
	first := s.query("reassign-step", goal)[0]
	if first["begun"] != "2" {
		s.Errorf("the first step begins %v", first)
	}
	s.query("reassign-cancel")
	s.until("nothing moves", func(row map[string]string) bool { return row["reassigning"] == "0" }, "cluster")
	s.until("the broker is empty", done, "reassign-step", goal)
	if held := s.query("holds", "3")[0]; held["replicas"] != "0" {
		s.Fatalf("the broker holds %v", held)
	}
	for _, row := range s.query("config", "1") {
		if strings.Contains(row["name"], "throttled.rate") {
			s.Errorf("a throttle is left: %v", row)
		}
	}
	if got := s.count("orders"); got != 660 {
		s.Errorf("%d of 660 messages are left", got)
	}
	if _, err := s.ask(driver.ReadWrite, "unregister", "3"); err == nil || !strings.Contains(err.Error(), "is alive") {
		s.Errorf("a broker that is alive is unregistered: %v", err)
	}
	s.query("voter-remove", "3", s.Nodes[2].Directory)
	s.Nodes[2].Kill()
	s.until("the broker is gone", func(row map[string]string) bool { return row["state"] == "unregistered" }, "unregister",
		"3")
	s.until("two are left", func(row map[string]string) bool { return row["brokers"] == "2" }, "cluster")
	voters := 0
	for _, row := range s.query("quorum") {
		// Who was removed is an observer for a while.
		if row["role"] == "voter" {
			voters++
		}
	}
	if voters != 2 {
		s.Errorf("%d voters are left, want 2", voters)
	}
	s.must(kafka.KindTopic, topicOf("orders", driver.Delete, "delete-while-consumed", "yes"))
}

func (s *server) client() sarama.Client {
	s.Helper()
	client, err := kafka.ClientForTests(s.Nodes[0].Address, s.CAFile)
	if err != nil {
		s.Fatal(err)
	}
	return client
}

// admin asks and changes the cluster past the driver, until the test ends.
func (s *server) admin() sarama.ClusterAdmin {
	s.Helper()
	admin, err := sarama.NewClusterAdminFromClient(s.client())
	if err != nil {
		s.Fatal(err)
	}
	// It closes the client, too.
	s.Cleanup(func() { _ = admin.Close() })
	return admin
}

// produce writes messages evenly, each acknowledged by all replicas in sync.
func (s *server) produce(topic string, messages int) {
	s.Helper()
	client := s.client()
	defer client.Close()
	producer, err := sarama.NewSyncProducerFromClient(client)
	if err != nil {
		s.Fatal(err)
	}
	defer producer.Close()
	for i := range messages {
		if _, _, err := producer.SendMessage(&sarama.ProducerMessage{Topic: topic, Key: sarama.StringEncoder(fmt.Sprint(i)),
			Value: sarama.StringEncoder("x")}); err != nil {
			s.Fatal(err)
		}
	}
}

// count is how many messages a topic has.
func (s *server) count(topic string) int64 {
	s.Helper()
	client := s.client()
	defer client.Close()
	ids, err := client.Partitions(topic)
	if err != nil {
		s.Fatal(err)
	}
	total := int64(0)
	for _, id := range ids {
		offset, err := client.GetOffset(topic, id, sarama.OffsetNewest)
		if err != nil {
			s.Fatal(err)
		}
		total += offset
	}
	return total
}

// reader commits what it reads.
type reader struct{}

func (reader) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (reader) Cleanup(sarama.ConsumerGroupSession) error { return nil }
func (reader) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		session.MarkMessage(message, "")
	}
	return nil
}

// consume has a member of a group read a topic until it is stopped.
func (s *server) consume(group, topic string) (stop func()) {
	s.Helper()
	client := s.client()
	members, err := sarama.NewConsumerGroupFromClient(group, client)
	if err != nil {
		s.Fatal(err)
	}
	ctx, cancel := context.WithCancel(s.Context())
	ended := make(chan error, 1)
	go func() {
		var err error
		for ctx.Err() == nil && err == nil {
			err = members.Consume(ctx, []string{topic}, reader{})
		}
		ended <- err
	}()
	return func() {
		s.Helper()
		cancel()
		if err := <-ended; err != nil {
			s.Error(err)
		}
		_ = members.Close()
		_ = client.Close()
	}
}
