// SPDX-License-Identifier: Apache-2.0

//go:build processes

package kafka_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zeroinfra/agents/internal/driver"
	"github.com/zeroinfra/agents/internal/driver/kafka"
	"github.com/zeroinfra/agents/internal/testkafka"
)

// A broker has partitions in each of its log directories. One that it cannot write to any more is told as offline, and
// the broker serves on from the others.
func TestLogDirs(t *testing.T) {
	folder := t.TempDir()
	first, second := filepath.Join(folder, "first"), filepath.Join(folder, "second")
	s := newServer(t, 1, "log.dirs="+first+","+second)
	const topics = 4
	for i := range topics {
		s.must(kafka.KindTopic, topicOf(fmt.Sprintf("topic-%d", i), driver.Create, "partitions", "1",
			"replication-factor", "1"))
	}
	held := map[string]string{}
	for _, row := range s.query(kafka.LogDirs) {
		held[row["directory"]] = row["state"] + " " + row["replicas"]
		if row["size"] == "0" || row["free"] == "0" {
			t.Errorf("the sizes are %v", row)
		}
	}
	if half := fmt.Sprintf("online %d", topics/2); held[first] != half || held[second] != half {
		t.Errorf("the directories hold %v, want %s each", held, half)
	}
	status := s.query(kafka.Status)[0]
	if status["logDirs"] != first+" "+second || status["offlineDirs"] != "" {
		t.Errorf("the status is %v", status)
	}

	if err := os.Rename(second, second+".lost"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(second, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	// Kafka finds out when it makes a log there.
	for i := range 2 {
		s.change(kafka.KindTopic, topicOf(fmt.Sprintf("more-%d", i), driver.Create, "partitions", "1",
			"replication-factor", "1"))
	}
	status = s.until("a directory is offline", func(row map[string]string) bool { return row["offlineDirs"] != "" },
		kafka.Status)
	if status["offlineDirs"] != second || status["logDirs"] != first+" "+second || status["alive"] != "1" {
		t.Errorf("the status is %v", status)
	}
	sum := s.query(kafka.LogDirsSum)[0]
	if sum["directories"] != "2" || sum["offline"] != "1" || sum["voters"] != "1: "+s.Nodes[0].Directory ||
		!strings.Contains(sum["byBroker"], "; broker 1 "+first+": ") ||
		!strings.HasPrefix(sum["byBroker"], "broker 1 "+second+": offline; ") {
		t.Errorf("the sum is %v", sum)
	}

	s.Nodes[0].Kill()
	s.Nodes[0].Start()
	s.Nodes[0].Ready()
	if status := s.query(kafka.Status)[0]; status["offlineDirs"] != second || status["alive"] != "1" {
		t.Errorf("after a restart the status is %v", status)
	}
}

// A broker that has lost one of its directories copies what was there from the others once that is formatted anew, and
// no record is lost.
func TestALostLogDirIsFilledAgain(t *testing.T) {
	s := newServer(t, 3, "log.dirs="+testkafka.FolderOfNode+"/data,"+testkafka.FolderOfNode+"/more",
		"min.insync.replicas=2")
	s.must(kafka.KindTopic, topicOf("orders", driver.Create, "partitions", "6", "replication-factor", "3"))
	s.produce("orders", 600)
	node := s.Nodes[2]
	lost := filepath.Join(node.Folder(), "more")
	replicas := func() string {
		for _, row := range s.query(kafka.LogDirs) {
			if row["directory"] == lost {
				return row["state"] + " " + row["replicas"]
			}
		}
		return "not there"
	}
	if got := replicas(); !strings.HasPrefix(got, "online ") || got == "online 0" {
		t.Fatalf("the directory is %s", got)
	}
	node.Kill()
	if err := os.RemoveAll(lost); err != nil {
		t.Fatal(err)
	}
	node.FormatAgain()
	node.Start()
	node.Ready()
	s.until("all replicas are in sync", func(row map[string]string) bool {
		return row["alive"] == "3" && row["underReplicated"] == "0" && row["offline"] == "0"
	}, "cluster")
	if got := replicas(); !strings.HasPrefix(got, "online ") {
		t.Errorf("the directory is %s", got)
	}
	s.produce("orders", 60)
	if got := s.count("orders"); got != 660 {
		t.Errorf("%d of 660 records are there", got)
	}
}
