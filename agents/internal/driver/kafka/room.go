// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strconv"

	"github.com/IBM/sarama"
	"github.com/dustin/go-humanize"

	"github.com/zeroinfra/agents/internal/driver"
)

// Settings by which a topic says how much of it is kept.
const (
	settingRetentionBytes = "retention.bytes"
	settingCleanupPolicy  = "cleanup.policy"
	policyCompact         = "compact"
)

// checkRoom refuses a topic that is to keep more bytes than the volumes of all brokers have together. A topic that is
// there and is to keep no more than before is let through, since volumes may have become fewer.
func checkRoom(s *session, changes []driver.Change, before map[string]*topic, problems driver.Problems) error {
	room := int64(-1)
	for _, change := range changes {
		asked := bytesAsked(change, before[change.Name])
		if asked == 0 || asked <= before[change.Name].bytesKept() {
			continue
		}
		if room < 0 {
			var err error
			if room, err = s.room(change.Name); err != nil {
				return err
			}
		}
		if asked > room {
			problems[change.Name] = fmt.Sprintf("its partitions and their replicas would keep %s by retention.bytes, and the "+
				"volumes of all brokers have %s: lower retention.bytes, or enlarge the volumes", humanize.IBytes(uint64(asked)),
				humanize.IBytes(uint64(room)))
		}
	}
	return nil
}

// bytesAsked is how many bytes all replicas of a topic are to keep at most; 0 where nothing limits them, or nothing is
// asked. What is left to the cluster counts as one, or as what the topic has.
func bytesAsked(change driver.Change, was *topic) int64 {
	if change.Intent == driver.Delete {
		return 0
	}
	// All have been checked.
	partitions, _ := numberOf(change.Parameters, parameterPartitions)
	factor, _ := numberOf(change.Parameters, parameterFactor)
	config, _ := configOf(change.Parameters[parameterConfig])
	if was != nil {
		_, most := was.factors()
		partitions = max(partitions, len(was.partitions))
		if factor == byDefault {
			factor = most
		}
	}
	return bytesOf(config, max(partitions, 1), max(factor, 1))
}

// bytesKept is how many bytes all replicas of a topic keep at most; 0 where nothing limits them.
func (t *topic) bytesKept() int64 {
	if t == nil {
		return 0
	}
	_, most := t.factors()
	return bytesOf(t.config, len(t.partitions), most)
}

func bytesOf(config map[string]string, partitions, factor int) int64 {
	each, err := strconv.ParseInt(config[settingRetentionBytes], 10, 64)
	if err != nil || each <= 0 || config[settingCleanupPolicy] == policyCompact {
		return 0
	}
	high, low := bits.Mul64(uint64(each), uint64(partitions*factor))
	if high > 0 || low > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(low)
}

// room is the size of the volumes of all brokers, in bytes; math.MaxInt64 where one of them does not tell it.
func (s *session) room(topic string) (int64, error) {
	cluster, err := s.brokers()
	if err != nil {
		return 0, err
	}
	total := int64(0)
	for _, known := range cluster.Brokers {
		if known.IsFenced {
			return math.MaxInt64, nil
		}
		broker, err := s.broker(known.BrokerID)
		if err != nil {
			return 0, err
		}
		folders, err := logDirs(broker, topic)
		if refused := (answer{}); err != nil && !errors.As(err, &refused) {
			return 0, fmt.Errorf("cannot read the size of the volumes of broker %d: %w", known.BrokerID, err)
		}
		if len(folders) == 0 {
			return math.MaxInt64, nil
		}
		for _, folder := range folders {
			if folder.ErrorCode != sarama.ErrNoError || folder.TotalBytes <= 0 {
				return math.MaxInt64, nil
			}
			total += folder.TotalBytes
		}
	}
	return total, nil
}
