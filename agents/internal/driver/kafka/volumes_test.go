// SPDX-License-Identifier: Apache-2.0

//go:build processes

package kafka_test

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/IBM/sarama"

	"github.com/zeroinfra/agents/internal/driver"
	"github.com/zeroinfra/agents/internal/driver/kafka"
	"github.com/zeroinfra/agents/internal/testkafka"
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
// and one that is to be replaced is emptied. No record is lost on the way.
func TestReplicasMoveBetweenVolumes(t *testing.T) {
	v := newVolumes(t)
	testVolumes(v)
	testCordonedVolume(v)
}

// The same with Kafka 3.9, which knows of no cordoned directories.
func TestReplicasMoveBetweenVolumesOfKafka39(t *testing.T) {
	testkafka.UseKafka39(t)
	testVolumes(newVolumes(t))
}

func newVolumes(t *testing.T) *volumes {
	t.Helper()
	folder := t.TempDir()
	first, second := filepath.Join(folder, "first"), filepath.Join(folder, "second")
	return &volumes{newServer(t, 1, "log.dirs="+first+","+second), first, second}
}

func testVolumes(v *volumes) {
	v.must(kafka.KindTopic, topicOf("orders", driver.Create, "partitions", fmt.Sprint(partitions), "replication-factor",
		"1"))
	v.fill("orders")
	v.hold(partitions/2, partitions/2)
	v.empty()
	v.until("the plan has half of them move", func(row map[string]string) bool {
		return row["moves"] == fmt.Sprint(partitions/2) && row["from"] == "1 "+v.first && row["to"] == "1 "+v.second
	}, kafka.ReassignPlan, even)
	testVolumesThrottled(v)
	v.untilDone()
	v.hold(partitions/2, partitions/2)
	for _, wrong := range []string{`{"directory":"/nowhere","broker":""}`, fmt.Sprintf(`{"directory":%q,"broker":"7"}`,
		v.second)} {
		v.poll(wrong+" is refused", func() (bool, string) {
			_, err := v.ask(driver.ReadWrite, kafka.ReassignStep, `{"emptied":`+wrong+`}`)
			return err != nil && strings.Contains(err.Error(), "name one that LogDirs lists"), fmt.Sprint(err)
		})
	}
	v.throttled("")
	if got := v.count("orders"); got != partitions*perPartition {
		v.Errorf("%d of %d records are there", got, partitions*perPartition)
	}
}

// empty has the second directory hold nothing.
func (v *volumes) empty() {
	v.Helper()
	goal := fmt.Sprintf(`{"emptied":{"directory":%q,"broker":"1"}}`, v.second)
	v.until("the directory is empty", done, kafka.ReassignStep, goal)
	v.hold(partitions, 0)
}

// testCordonedVolume: what is cordoned is given nothing.
func testCordonedVolume(v *volumes) {
	setting := func(row map[string]string) bool { return row["name"] == "cordoned.log.dirs" }
	v.until("one is cordoned", setting, kafka.ConfigSet, "1", fmt.Sprintf(`{"cordoned.log.dirs":%q}`, v.second))
	v.empty()
	v.until("nothing is to be moved", done, kafka.ReassignStep, even)
	v.hold(partitions, 0)
}

// testVolumesThrottled: moves that hardly get on are still under way after the broker was killed, and end when they are
// cancelled.
func testVolumesThrottled(v *volumes) {
	v.until("moves begin", func(row map[string]string) bool {
		return row["phase"] == "Moving" && row["between"] == "volumes" && row["begun"] == fmt.Sprint(partitions/2) &&
			row["left"] == "0"
	}, kafka.ReassignStep, slowly)
	v.throttled("1")
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
	v.throttled("")
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
	// Some have come to an end before the rest was cancelled.
	if !slices.ContainsFunc(said, func(text string) bool {
		return strings.HasPrefix(text, "progress: ") && strings.Contains(text, " moves between volumes to go")
	}) {
		v.Errorf("on the way it said %q", said)
	}
}

func done(row map[string]string) bool { return row["phase"] == "Done" }

// volumes are the two log directories of the one broker.
type volumes struct {
	*server
	first, second string
}

// hold waits until the directories hold so many replicas of the topic.
func (v *volumes) hold(first, second int) {
	v.Helper()
	want := map[string]string{v.first: fmt.Sprint(first), v.second: fmt.Sprint(second)}
	v.poll(fmt.Sprintf("the directories hold %v", want), func() (bool, string) {
		held := map[string]string{}
		rows, err := v.ask(driver.ReadOnly, kafka.LogDirs)
		for _, row := range rows {
			held[row["directory"]] = row["replicas"]
		}
		return maps.Equal(held, want), fmt.Sprintf("they hold %v: %v", held, err)
	})
}

// throttled waits until the broker has a throttle; empty for none.
func (v *volumes) throttled(want string) {
	v.Helper()
	v.poll(fmt.Sprintf("the throttle is %q", want), func() (bool, string) {
		rows, err := v.ask(driver.ReadOnly, kafka.Config, "1")
		got := ""
		for _, row := range rows {
			if row["name"] == slowRate {
				got = row["value"]
			}
		}
		return err == nil && got == want, fmt.Sprintf("it is %q: %v", got, err)
	})
}

// poll looks until something is as wanted: on a busy machine the one broker is fenced now and then.
func (v *volumes) poll(what string, look func() (is bool, saw string)) {
	v.Helper()
	deadline := time.Now().Add(patience)
	for {
		is, saw := look()
		if is {
			return
		}
		if time.Now().After(deadline) {
			v.Fatalf("%s: after %v %s", what, patience, saw)
		}
		time.Sleep(200 * time.Millisecond)
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
