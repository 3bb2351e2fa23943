// SPDX-License-Identifier: Apache-2.0

//go:build processes

package kafka_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/IBM/sarama"

	"github.com/zeroinfra/agents/internal/driver"
	"github.com/zeroinfra/agents/internal/driver/kafka"
)

const (
	even = `{"balance":"even"}`
	// slowly lets each broker copy one fetch, which is smaller than a replica of the test, about every ten seconds.
	slowly     = `{"balance":"even","throttle":1}`
	slowRate   = "replica.alter.log.dirs.io.max.bytes.per.second"
	partitions = 8
	// perPartition records of recordSize bytes are larger than what one fetch takes.
	perPartition, recordSize = 30, 100 << 10
)

// A volume that was added is filled by a rebalance, which takes a throttle, outlives the broker and can be cancelled;
// and one that is to be taken out or replaced is emptied. No record is lost on the way.
func TestReplicasMoveBetweenVolumes(t *testing.T) {
	folder := t.TempDir()
	v := &volumes{newServer(t, 1, "log.dirs="+filepath.Join(folder, "first")+","+filepath.Join(folder, "second")),
		filepath.Join(folder, "first"), filepath.Join(folder, "second")}
	v.query(kafka.ConfigSet, "1", fmt.Sprintf(`{"cordoned.log.dirs":%q}`, v.second))
	v.must(kafka.KindTopic, topicOf("orders", driver.Create, "partitions", fmt.Sprint(partitions), "replication-factor",
		"1"))
	v.fill("orders")
	v.hold(partitions, 0)
	if row := v.query(kafka.ReassignStep, even)[0]; row["phase"] != "Done" {
		t.Errorf("with a cordoned directory: %v", row)
	}
	v.query(kafka.ConfigSet, "1", `{"cordoned.log.dirs":null}`)
	plan := v.query(kafka.ReassignPlan, even)
	if len(plan) != partitions/2 || plan[0]["from"] != "1 "+v.first || plan[0]["to"] != "1 "+v.second {
		t.Fatalf("the plan is %v", plan)
	}

	testVolumesThrottled(v)

	v.untilDone()
	v.hold(partitions/2, partitions/2)
	goal := fmt.Sprintf(`{"emptied":{"directory":%q,"broker":"1"}}`, v.second)
	v.until("the directory is empty", done, kafka.ReassignStep, goal)
	v.hold(partitions, 0)
	for _, wrong := range []string{`{"directory":"/nowhere","broker":""}`, fmt.Sprintf(`{"directory":%q,"broker":"7"}`,
		v.second)} {
		if _, err := v.ask(driver.ReadWrite, kafka.ReassignStep, `{"emptied":`+wrong+`}`); err == nil ||
			!strings.Contains(err.Error(), "name one that LogDirs lists") {
			t.Errorf("%s: got %v", wrong, err)
		}
	}
	v.unthrottled()
	if got := v.count("orders"); got != partitions*perPartition {
		t.Errorf("%d of %d records are there", got, partitions*perPartition)
	}
}

// testVolumesThrottled: moves that hardly get on are still under way after the broker was killed, and end when they are
// cancelled.
func testVolumesThrottled(v *volumes) {
	first := v.query(kafka.ReassignStep, slowly)[0]
	if first["phase"] != "Moving" || first["begun"] != fmt.Sprint(partitions/2) || first["left"] != "0" {
		v.Fatalf("the first step is %v", first)
	}
	if got := v.rate(); got != "1" {
		v.Errorf("the throttle is %q", got)
	}
	v.Nodes[0].Kill()
	v.Nodes[0].Start()
	v.Nodes[0].Ready()
	row := v.until("the broker says what it copies", func(row map[string]string) bool { return row["moving"] != "0" },
		kafka.ReassignStep, slowly)
	if row["phase"] != "Moving" || row["begun"] != "0" {
		v.Errorf("after a restart the step is %v", row)
	}
	if row := v.query(kafka.ReassignCancel)[0]; row["cancelled"] == "0" {
		v.Errorf("the cancel is %v", row)
	}
	if row := v.query(kafka.ReassignCancel)[0]; row["cancelled"] != "0" {
		v.Errorf("the second cancel is %v", row)
	}
	v.unthrottled()
}

// untilDone has a rebalance go on to its end, and looks at what it says on the way.
func (v *volumes) untilDone() {
	v.Helper()
	ctx, cancel := context.WithTimeout(v.Context(), callTime)
	defer cancel()
	var said []string
	if _, err := v.driver.Query(ctx, driver.Statement{Text: kafka.Reassign, Arguments: []string{even},
		Access: driver.ReadWrite, Report: func(table driver.Table) {
			said = append(said, table.Columns[0]+": "+*table.Rows[0][0])
		}}); err != nil {
		v.Fatal(err)
	}
	want := fmt.Sprintf("progress: %d of %[1]d moves between volumes to go", partitions/2)
	if len(said) == 0 || !strings.HasPrefix(said[0], want) {
		v.Errorf("on the way it said %q, want %q first", said, want)
	}
}

func done(row map[string]string) bool { return row["phase"] == "Done" }

// volumes are the two log directories of the one broker.
type volumes struct {
	*server
	first, second string
}

// hold fails where the directories do not hold so many replicas of the topic.
func (v *volumes) hold(first, second int) {
	v.Helper()
	held := map[string]string{}
	for _, row := range v.query(kafka.LogDirs) {
		held[row["directory"]] = row["replicas"]
	}
	if held[v.first] != fmt.Sprint(first) || held[v.second] != fmt.Sprint(second) {
		v.Errorf("the directories hold %v, want %d and %d", held, first, second)
	}
}

// rate is the throttle of the broker; empty for none.
func (v *volumes) rate() string {
	v.Helper()
	for _, row := range v.query(kafka.Config, "1") {
		if row["name"] == slowRate {
			return row["value"]
		}
	}
	return ""
}

func (v *volumes) unthrottled() {
	v.Helper()
	if got := v.rate(); got != "" {
		v.Errorf("a throttle of %s is left", got)
	}
}

// fill writes as much to each partition.
func (v *volumes) fill(topic string) {
	v.Helper()
	client := v.client()
	defer client.Close()
	client.Config().Producer.Partitioner = sarama.NewManualPartitioner
	producer, err := sarama.NewSyncProducerFromClient(client)
	if err != nil {
		v.Fatal(err)
	}
	defer producer.Close()
	for i := range partitions * perPartition {
		if _, _, err := producer.SendMessage(&sarama.ProducerMessage{Topic: topic, Partition: int32(i % partitions),
			Value: sarama.ByteEncoder(make([]byte, recordSize))}); err != nil {
			v.Fatal(err)
		}
	}
}
