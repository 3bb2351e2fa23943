// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"slices"
)

// Verdict says whether a broker may be restarted now, and what that means for single partitions.
type Verdict struct {
	// Blocking are partitions whose in-sync replicas would be fewer than min.insync.replicas: producers with acks=all
	// would fail.
	Blocking []string
	// Lost are those of them that waiting does not help: too few of their other replicas are there to catch up.
	Lost []string
	// Alone are partitions with a replication factor of 1 on this broker. They are away while it restarts, whatever
	// anybody waits for.
	Alone []string
	// Unsatisfiable are partitions of a replication factor below min.insync.replicas: producers with acks=all fail as it
	// is.
	Unsatisfiable []string
}

// MayRestart says that no partition is in the way.
func (v Verdict) MayRestart() bool { return len(v.Blocking) == 0 }

// Restart judges the restart of one broker. A replica that a reassignment removes is not counted as in sync: it can
// leave at any moment.
func Restart(partitions []Partition, broker int32) Verdict {
	var v Verdict
	for _, partition := range partitions {
		if !slices.Contains(partition.ISR, broker) {
			// It is no loss for this partition.
			continue
		}
		name := fmt.Sprintf("%s-%d", partition.Topic, partition.ID)
		left := 0
		for _, id := range partition.ISR {
			if id != broker && !slices.Contains(partition.Removing, id) {
				left++
			}
		}
		factor, needed := len(partition.Target()), max(1, partition.MinISR)
		if factor < partition.MinISR {
			needed = 1
		}
		switch {
		case factor <= 1 && len(partition.Replicas) <= 1:
			v.Alone = append(v.Alone, name)
		// Without a single replica in sync the partition is offline, whatever min.insync.replicas says.
		case left > 0 && factor < partition.MinISR:
			v.Unsatisfiable = append(v.Unsatisfiable, name)
		case left < needed:
			v.Blocking = append(v.Blocking, name)
			if others(partition, broker) < needed {
				v.Lost = append(v.Lost, name)
			}
		}
	}
	return v
}

// others are how many replicas a partition can come to have in sync on other brokers, as long as nobody comes back.
func others(partition Partition, broker int32) (n int) {
	for _, id := range partition.Target() {
		if id != broker && !slices.Contains(partition.Offline, id) {
			n++
		}
	}
	return n
}

// Holding is what a broker has of a cluster's partitions.
type Holding struct {
	// Replicas that it has, or is to have.
	Replicas int
	// Leaders are partitions that it leads.
	Leaders int
	// Arriving and Departing are replicas that a reassignment adds there and removes from there.
	Arriving, Departing int
}

// Held counts what a broker has.
func Held(partitions []Partition, broker int32) Holding {
	var h Holding
	for _, partition := range partitions {
		h.Replicas += truth(slices.Contains(partition.Replicas, broker))
		h.Leaders += truth(partition.Leader == broker)
		h.Arriving += truth(slices.Contains(partition.Adding, broker))
		h.Departing += truth(slices.Contains(partition.Removing, broker))
	}
	return h
}
