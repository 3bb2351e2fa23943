// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/IBM/sarama"
)

const (
	// canaryTopic has the records by which the driver tries whether the cluster takes writes. Its name begins as those of
	// Kafka's own topics do: no KafkaTopic can have it, and tools leave it out by default.
	canaryTopic = internalPrefix + "zeroinfra_canary"
	// canaryFactor is the replication factor where there are brokers enough.
	canaryFactor = 3
	// canaryTime is what one canary has, until a broker that is the reason for a failure counts as one.
	canaryTime = 20 * time.Second
	// canaryTimeout is what replicas in sync have to acknowledge a record.
	canaryTimeout = 5 * time.Second
	// canaryFetch is how many bytes of a partition are read at most.
	canaryFetch = 64 << 10
)

// canarySettings keep the topic small. The value of min.insync.replicas is left to the cluster: it is what producers
// with acks=all depend on.
var canarySettings = map[string]string{
	"cleanup.policy":      "delete",
	"retention.ms":        "3600000",
	"segment.bytes":       "1048576",
	"segment.index.bytes": "65536",
}

// withoutCanary leaves out the topic of the canary, which holds nothing of anybody.
func withoutCanary(partitions []partition) []partition {
	return slices.DeleteFunc(slices.Clone(partitions), func(p partition) bool { return p.Topic == canaryTopic })
}

// canaryReplicas are the replicas of the partitions of the canary's topic: each broker is the preferred leader of one.
func canaryReplicas(alive []int32) map[int32][]int32 {
	replicas := map[int32][]int32{}
	for i := range alive {
		for j := range min(canaryFactor, len(alive)) {
			replicas[int32(i)] = append(replicas[int32(i)], alive[(i+j)%len(alive)])
		}
	}
	return replicas
}

// canaryFits says whether each broker is the preferred leader of a partition that has replicas enough. A partition of a
// broker that is down is left where it is.
func canaryFits(partitions []partition, alive []int32) bool {
	for _, p := range partitions {
		if len(p.Target()) < min(canaryFactor, len(alive)) {
			return false
		}
	}
	return !slices.ContainsFunc(alive, func(id int32) bool {
		return !slices.ContainsFunc(partitions, func(p partition) bool { return p.Replicas[0] == id })
	})
}

// canaryTrial is what a canary is to do.
type canaryTrial struct {
	// writes are partitions that a record is written to and read from, by their leader.
	writes map[int32][]int32
	// elect are partitions whose preferred leader is in sync and does not lead.
	elect []int32
	// reason is why no record would say anything yet; empty where there is none.
	reason string
}

// canaryOf decides on what to try before a broker stops: whether each of the others that is alive leads, and takes
// records. What the one that stops leads itself is left out: others lead that once it is away, and where it can take no
// records its restart is the remedy.
func canaryOf(partitions []partition, alive []int32, stopping int32) canaryTrial {
	trial := canaryTrial{writes: map[int32][]int32{}}
	for _, p := range partitions {
		preferred := p.Replicas[0]
		switch is := slices.Contains(alive, preferred); {
		case preferred == stopping, !is && p.Leader == stopping:
		case p.Leader == preferred, !is && p.Leader >= 0:
			trial.writes[p.Leader] = append(trial.writes[p.Leader], p.ID)
		case !is:
			trial.reason = fmt.Sprintf("partition %d of %s has no leader", p.ID, canaryTopic)
		case slices.Contains(p.ISR, preferred):
			trial.elect = append(trial.elect, p.ID)
			trial.reason = fmt.Sprintf("broker %d has yet to lead partition %d of %s", preferred, p.ID, canaryTopic)
		default:
			trial.reason = fmt.Sprintf("broker %d is alive, and is not in sync for partition %d of %s", preferred, p.ID,
				canaryTopic)
		}
	}
	return trial
}

// canary says why a broker must not stop now although enough replicas are in sync: a record with acks=all is not taken
// by a partition that another broker leads, or is not read back from there. The reason is empty where all take one. It
// tries for canaryTime: leaders move while brokers come and go.
func (d *Driver) canary(ctx context.Context, stopping int32) (reason string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, canaryTime, fmt.Errorf("no answer within %s", canaryTime))
	defer cancel()
	for {
		var now string
		err = d.with(ctx, func(s *session) (err error) {
			now, err = s.canary(stopping)
			return err
		})
		if err == nil && now == "" {
			return "", nil
		}
		// What was cut off tells less than what was seen before.
		if ctx.Err() == nil || reason == "" {
			reason = now
		}
		select {
		case <-ctx.Done():
			if reason != "" {
				return reason, nil
			}
			return "", err
		case <-time.After(awaitPause):
		}
	}
}

// canary tries once.
func (s *session) canary(stopping int32) (reason string, err error) {
	alive, err := s.alive()
	if err != nil || len(alive) < 2 {
		// No other broker could take over, whatever is waited for.
		return "", err
	}
	slices.Sort(alive)
	partitions, err := s.partitions([]string{canaryTopic})
	switch {
	case err != nil:
		return "", err
	case !canaryFits(partitions, alive):
		return fmt.Sprintf("topic %s was made a moment ago", canaryTopic), s.makeCanary(partitions, alive)
	}
	trial := canaryOf(partitions, alive, stopping)
	if len(trial.elect) > 0 {
		// Whether it came about shows in the next look.
		_, _, err := s.elect(map[string][]int32{canaryTopic: trial.elect})
		return trial.reason, err
	}
	if trial.reason != "" {
		return trial.reason, nil
	}
	for _, leader := range slices.Sorted(maps.Keys(trial.writes)) {
		if reason := s.writeAndRead(leader, trial.writes[leader]); reason != "" {
			return reason, nil
		}
	}
	return "", nil
}

// makeCanary makes the topic, anew where it has partitions that do not fit the brokers.
func (s *session) makeCanary(there []partition, alive []int32) error {
	if len(there) > 0 {
		if err := s.removeCanary(); err != nil {
			return err
		}
	}
	lead, err := s.lead()
	if err != nil {
		return err
	}
	detail := &sarama.TopicDetail{NumPartitions: byDefault, ReplicationFactor: byDefault,
		ReplicaAssignment: canaryReplicas(alive), ConfigEntries: map[string]*string{}}
	for name, value := range canarySettings {
		detail.ConfigEntries[name] = &value
	}
	response, err := lead.CreateTopics(sarama.NewCreateTopicsRequest(sarama.MaxVersion,
		map[string]*sarama.TopicDetail{canaryTopic: detail}, s.timeout(), false))
	if err != nil {
		return fmt.Errorf("cannot create topic %s: %w", canaryTopic, err)
	}
	problem := response.TopicErrors[canaryTopic]
	if problem == nil || problem.Err == sarama.ErrNoError || problem.Err == sarama.ErrTopicAlreadyExists {
		return nil
	}
	return fmt.Errorf("cannot create topic %s: %w", canaryTopic, said(problem.Err, problem.ErrMsg))
}

// removeCanary removes the topic, so that it keeps no broker from leaving. The next canary makes it again.
func (s *session) removeCanary() error {
	lead, err := s.lead()
	if err != nil {
		return err
	}
	response, err := lead.DeleteTopics(&sarama.DeleteTopicsRequest{Version: 5, Topics: []string{canaryTopic},
		Timeout: s.timeout()})
	if err != nil {
		return fmt.Errorf("cannot delete topic %s: %w", canaryTopic, err)
	}
	if code := response.TopicErrorCodes[canaryTopic]; code != sarama.ErrNoError &&
		code != sarama.ErrUnknownTopicOrPartition {
		return fmt.Errorf("cannot delete topic %s: %w", canaryTopic, said(code, response.TopicErrorMessages[canaryTopic]))
	}
	return nil
}

// writeAndRead writes a record to partitions of one leader, with acks=all, and reads it back. It returns what is wrong.
func (s *session) writeAndRead(leader int32, ids []int32) (reason string) {
	broker, err := s.broker(leader)
	if err != nil {
		return fmt.Sprintf("partition %d of %s is led by broker %d, which cannot be asked: %v", ids[0], canaryTopic, leader,
			s.cause(err))
	}
	text := rand.Text()
	request := &sarama.ProduceRequest{Version: 7, RequiredAcks: sarama.WaitForAll,
		Timeout: int32(min(canaryTimeout, s.timeout()).Milliseconds())}
	now := time.Now()
	for _, id := range ids {
		request.AddBatch(canaryTopic, id, &sarama.RecordBatch{Version: 2, FirstTimestamp: now, MaxTimestamp: now,
			ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1, Records: []*sarama.Record{{Value: []byte(text)}}})
	}
	written, err := broker.Produce(request)
	if err != nil {
		return fmt.Sprintf("broker %d does not answer to a record for partition %d of %s: %v", leader, ids[0], canaryTopic,
			s.cause(err))
	}
	offsets := map[int32]int64{}
	for _, id := range ids {
		block := written.GetBlock(canaryTopic, id)
		if block == nil {
			return errAnswer.Error()
		}
		if block.Err != sarama.ErrNoError {
			return fmt.Sprintf("partition %d of %s, which broker %d leads, does not take a record with acks=all: %v", id,
				canaryTopic, leader, said(block.Err, block.ErrorMessage))
		}
		offsets[id] = block.Offset
	}
	return s.readBack(broker, leader, offsets, text)
}

// readBack reads a record at an offset of each partition.
func (s *session) readBack(broker *sarama.Broker, leader int32, offsets map[int32]int64, text string) (reason string) {
	request := &sarama.FetchRequest{Version: 11, MinBytes: 1, MaxBytes: int32(len(offsets)) * canaryFetch,
		MaxWaitTime: int32(canaryTimeout.Milliseconds()), SessionEpoch: -1}
	for id, offset := range offsets {
		request.AddBlock(canaryTopic, id, offset, canaryFetch, -1)
	}
	read, err := broker.Fetch(request)
	if err != nil {
		return fmt.Sprintf("broker %d does not give back a record of %s: %v", leader, canaryTopic, s.cause(err))
	}
	for _, id := range slices.Sorted(maps.Keys(offsets)) {
		problem := errors.New("it is not there")
		if block := read.GetBlock(canaryTopic, id); block != nil && block.Err != sarama.ErrNoError {
			problem = said(block.Err, nil)
		} else if block != nil && hasRecord(block, offsets[id], text) {
			continue
		}
		return fmt.Sprintf("partition %d of %s, which broker %d leads, does not give back a record that was acknowledged: %v",
			id, canaryTopic, leader, problem)
	}
	return ""
}

func hasRecord(block *sarama.FetchResponseBlock, offset int64, text string) bool {
	for _, records := range block.RecordsSet {
		if records.RecordBatch == nil {
			continue
		}
		for _, record := range records.RecordBatch.Records {
			if records.RecordBatch.FirstOffset+record.OffsetDelta == offset && string(record.Value) == text {
				return true
			}
		}
	}
	return false
}

// cause of an error: where the time of the call is over, the closed connection says nothing.
func (s *session) cause(err error) error {
	if s.ctx.Err() != nil {
		return context.Cause(s.ctx)
	}
	return err
}
