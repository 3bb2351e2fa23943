// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/IBM/sarama"
	"github.com/dustin/go-humanize"

	"github.com/zeroinfra/agents/internal/driver/kafka/placement"
)

// lacksRoom says which broker has not the room for what moves off the brokers that leave would bring it; nil where all
// have, or where it cannot be judged.
func (s *session) lacksRoom(moves []placement.Move, leaving []int32) error {
	if len(moves) == 0 {
		return nil
	}
	sizes, free := map[place]int64{}, map[int32]int64{}
	for _, id := range leaving {
		// What a broker that is down holds is not known.
		folders, err := s.logDirsOf(id)
		if err != nil {
			continue
		}
		for _, replica := range storedIn(id, folders).replicas {
			sizes[place{replica.Topic, replica.Partition}] = replica.Bytes
		}
	}
	for id := range bytesAdded(moves, sizes) {
		folders, err := s.logDirsOf(id)
		if err != nil {
			continue
		}
		free[id] = freeIn(folders)
	}
	return overfull(bytesAdded(moves, sizes), free)
}

// bytesAdded is how many bytes moves bring to each broker, as far as the sizes of partitions are known.
func bytesAdded(moves []placement.Move, sizes map[place]int64) map[int32]int64 {
	added := map[int32]int64{}
	for _, move := range moves {
		for _, id := range move.Added {
			added[id] += sizes[place{move.Topic, move.Partition}]
		}
	}
	return added
}

// freeIn is what may be added to the directories of a broker; math.MaxInt64 where one does not tell it.
func freeIn(folders []sarama.DescribeLogDirsResponseDirMetadata) (free int64) {
	for _, folder := range folders {
		switch {
		case folder.ErrorCode != sarama.ErrNoError:
		case folder.TotalBytes <= 0:
			return math.MaxInt64
		default:
			free += max(folder.UsableBytes-placement.Reserve(folder.TotalBytes), 0)
		}
	}
	return free
}

func overfull(added, free map[int32]int64) error {
	for _, id := range slices.Sorted(maps.Keys(added)) {
		if room, known := free[id]; known && added[id] > room {
			return fmt.Errorf("broker %d would get %s, and its volumes have room for %s: enlarge the volumes, delete what is "+
				"not needed, or keep the brokers", id, humanize.IBytes(uint64(added[id])), humanize.IBytes(uint64(room)))
		}
	}
	return nil
}
