// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"fmt"
	"slices"
	"strings"

	"github.com/IBM/sarama"
	"github.com/dustin/go-humanize"

	"github.com/zeroinfra/agents/internal/driver"
)

// logDirsVersion of the request has the size of the volumes in the answer.
const logDirsVersion = 4

// logDirs are the log directories of a broker in the order of their paths, without what is in them where topics are
// named. The library asks for all topics where none is named, and takes no null for no partitions.
func logDirs(broker *sarama.Broker, topics ...string) ([]sarama.DescribeLogDirsResponseDirMetadata, error) {
	request := &sarama.DescribeLogDirsRequest{Version: logDirsVersion}
	for _, topic := range topics {
		request.DescribeTopics = append(request.DescribeTopics,
			sarama.DescribeLogDirsRequestTopic{Topic: topic, PartitionIDs: []int32{}})
	}
	response, err := broker.DescribeLogDirs(request)
	if err != nil {
		return nil, err
	}
	if response.ErrorCode != sarama.ErrNoError {
		return nil, said(response.ErrorCode, nil)
	}
	slices.SortFunc(response.LogDirs, func(a, b sarama.DescribeLogDirsResponseDirMetadata) int {
		return strings.Compare(a.Path, b.Path)
	})
	return response.LogDirs, nil
}

// logDirsOf are those of a broker, with what is in them. Nobody else uses its connection.
func (s *session) logDirsOf(id int32) ([]sarama.DescribeLogDirsResponseDirMetadata, error) {
	w, err := s.renewTo(id)
	if err != nil {
		return nil, err
	}
	return logDirs(w.broker)
}

// ownLogDirs are the paths of the log directories of the broker of the pod, and of those which it does not use any more
// since it could not read or write there. No topic is looked at.
func (s *session) ownLogDirs() (all, offline []string, err error) {
	found, err := logDirs(s.local, internalPrefix)
	for _, folder := range found {
		all = append(all, folder.Path)
		if folder.ErrorCode != sarama.ErrNoError {
			offline = append(offline, folder.Path)
		}
	}
	return all, offline, err
}

// listLogDirs has a row for each log directory of each broker.
func listLogDirs(s *session, _ []string) (driver.Table, error) {
	alive, err := s.alive()
	if err != nil {
		return driver.Table{}, err
	}
	table := driver.Table{Columns: []string{"broker", "directory", "state", "replicas", "held", "size", "free"}}
	for _, id := range alive {
		broker, err := s.broker(id)
		if err != nil {
			return driver.Table{}, err
		}
		found, err := logDirs(broker)
		if err != nil {
			return driver.Table{}, fmt.Errorf("cannot read the log directories of broker %d: %w", id, err)
		}
		for _, folder := range found {
			state, replicas, held := "online", 0, int64(0)
			if folder.ErrorCode != sarama.ErrNoError {
				state = "offline"
			}
			for _, topic := range folder.Topics {
				replicas += len(topic.Partitions)
				for _, partition := range topic.Partitions {
					held += partition.Size
				}
			}
			table.Rows = append(table.Rows, row(number(id), folder.Path, state, number(replicas), number(held),
				number(folder.TotalBytes), number(folder.UsableBytes)))
		}
	}
	return table, nil
}

// listedDirs is how many directories a sum tells of one by one.
const listedDirs = 40

// sumLogDirs is one row, with a text for each directory, first those that are offline.
func sumLogDirs(s *session, words []string) (driver.Table, error) {
	all, err := listLogDirs(s, words)
	if err != nil {
		return driver.Table{}, err
	}
	var offline, online []string
	for _, r := range all.Rows {
		name := fmt.Sprintf("broker %s %s", *r[0], *r[1])
		if *r[2] != "online" {
			offline = append(offline, name+": offline")
			continue
		}
		online = append(online, fmt.Sprintf("%s: %s replicas of %s, %s of %s free", name, *r[3], bytesOfText(*r[4]),
			bytesOfText(*r[6]), bytesOfText(*r[5])))
	}
	lines := slices.Concat(offline, online)
	if more := len(lines) - listedDirs; more > 0 {
		lines = append(lines[:listedDirs], fmt.Sprintf("and %d more", more))
	}
	voters, err := s.votersOf()
	if err != nil {
		return driver.Table{}, err
	}
	return tableOf([]string{"directories", "offline", "byBroker", "voters"}, number(len(all.Rows)), number(len(offline)),
		strings.Join(lines, "; "), voters), nil
}

// votersOf are the controllers that vote, for people, each with its directory as in directories. Nobody votes where
// the metadata is in ZooKeeper.
func (s *session) votersOf() (string, error) {
	apart, err := s.withZooKeeper()
	if err != nil || apart {
		return "", err
	}
	quorum, err := s.quorum()
	if err != nil {
		return "", err
	}
	var voters []string
	for _, voter := range quorum.voters {
		voters = append(voters, fmt.Sprintf("%d: %s", voter.node, textOf(voter.directory)))
	}
	return strings.Join(voters, "; "), nil
}

// bytesOfText is a number of bytes for people.
func bytesOfText(number string) string {
	var n uint64
	if _, err := fmt.Sscan(number, &n); err != nil {
		return "?"
	}
	return humanize.IBytes(n)
}
