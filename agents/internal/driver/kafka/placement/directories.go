// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/dustin/go-humanize"
)

// Directory is a log directory of one broker. Each is on a volume of its own.
type Directory struct {
	Path string
	// Size of the volume and what is Free of it, in bytes; a Size of 0 is not known.
	Size, Free int64
	// State says whether it can be given replicas.
	State DirectoryState
}

// DirectoryState says whether a log directory can be given replicas.
type DirectoryState string

// Values of DirectoryState.
const (
	// Online directories can.
	Online DirectoryState = ""
	// Cordoned directories keep what they have, and nothing is added.
	Cordoned DirectoryState = "cordoned"
	// Emptied directories are to hold nothing.
	Emptied DirectoryState = "emptied"
	// Offline directories can be neither read nor written.
	Offline DirectoryState = "offline"
)

// Stored is a replica in a log directory of the broker.
type Stored struct {
	Topic     string
	Partition int32
	// Directory has it, and Future is where it is being copied to; empty for nowhere.
	Directory, Future string
	// Bytes that it has.
	Bytes int64
}

// place is where it is, or is going to be.
func (s Stored) place() string { return cmp.Or(s.Future, s.Directory) }

// DirectoryMove takes a replica to another log directory of its broker. Where To is From, a move under way ends.
type DirectoryMove struct {
	Topic     string
	Partition int32
	From, To  string
	Bytes     int64
}

const (
	// replicaBytes is added to the bytes of each replica, so that many small ones count, too: its index files.
	replicaBytes = 1 << 20
	// unevenness is the difference between the fullest directory and the emptiest that is left as it is, as a part of what
	// they hold on average.
	unevenness = 0.1
	// reservedParts is of how many parts of a volume moves leave one free, and mostReserved how many bytes at most.
	reservedParts, mostReserved = 20, 4 << 30
)

// PlanDirectories returns the moves between the log directories of one broker after which those that are Emptied hold
// nothing, and the others hold about the same part of their volumes each. Replicas that are moving go on, unless they
// move to a directory that is to be emptied. The error says which replica of such a directory fits in no other.
func PlanDirectories(directories []Directory, replicas []Stored) ([]DirectoryMove, error) {
	p := newVolumes(directories, replicas)
	if err := p.empty(); err != nil {
		return nil, err
	}
	for p.evenOnce() {
	}
	return p.moves(), nil
}

// Reserve is how much of a volume of a size moves leave free, in bytes.
func Reserve(size int64) int64 { return min(size/reservedParts, mostReserved) }

// volume counts what a directory holds while a plan is made.
type volume struct {
	Directory
	// held are the bytes of the replicas that it is to have, and room those that it can still be given.
	held, room int64
	// replicas that can be moved, the largest first.
	replicas []Stored
}

// inOrderOfSize has the largest replica first.
func inOrderOfSize(a, b Stored) int {
	return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
}

func (v *volume) remove(index int) Stored {
	replica := v.replicas[index]
	v.replicas = slices.Delete(v.replicas, index, index+1)
	v.held -= weight(replica)
	if !v.has(replica) {
		v.room += replica.Bytes
	}
	return replica
}

func (v *volume) add(replica Stored) {
	index, _ := slices.BinarySearchFunc(v.replicas, replica, inOrderOfSize)
	v.replicas = slices.Insert(v.replicas, index, replica)
	v.held += weight(replica)
	if !v.has(replica) {
		v.room -= replica.Bytes
	}
}

// has says whether a replica was there before the plan: it takes its room until it has been copied.
func (v *volume) has(replica Stored) bool { return replica.place() == v.Path }

// load is the part of the volume that is held.
func (v *volume) load() float64 { return float64(v.held) / v.size() }

// size of a volume that is not known is that of any other.
func (v *volume) size() float64 { return float64(max(v.Size, 1)) }

func (v *volume) takes(bytes int64) bool {
	return v.State == Online && (v.Size <= 0 || bytes <= v.room)
}

type volumes struct{ all []*volume }

func newVolumes(directories []Directory, replicas []Stored) *volumes {
	p := &volumes{}
	sized := !slices.ContainsFunc(directories, func(d Directory) bool { return d.State != Offline && d.Size <= 0 })
	for _, directory := range directories {
		if !sized {
			directory.Size = 0
		}
		p.all = append(p.all, &volume{Directory: directory,
			room: directory.Free - Reserve(directory.Size)})
	}
	slices.SortFunc(p.all, func(a, b *volume) int { return cmp.Compare(a.Path, b.Path) })
	for _, replica := range replicas {
		from, to := p.at(replica.Directory), p.at(replica.place())
		if from == nil || to == nil || from.State == Offline || to.State == Offline {
			continue
		}
		to.held += weight(replica)
		switch {
		case replica.Future == "", to.State == Emptied:
			to.replicas = append(to.replicas, replica)
		default:
			to.room -= replica.Bytes
		}
	}
	for _, v := range p.all {
		slices.SortFunc(v.replicas, inOrderOfSize)
	}
	return p
}

func weight(replica Stored) int64 { return replica.Bytes + replicaBytes }

func (p *volumes) at(path string) *volume {
	i := slices.IndexFunc(p.all, func(v *volume) bool { return v.Path == path })
	if i < 0 {
		return nil
	}
	return p.all[i]
}

// moves are those of the replicas that are to be elsewhere than they are, or are on their way to.
func (p *volumes) moves() (moves []DirectoryMove) {
	for _, v := range p.all {
		for _, replica := range v.replicas {
			if !v.has(replica) {
				moves = append(moves, DirectoryMove{replica.Topic, replica.Partition, replica.Directory, v.Path, replica.Bytes})
			}
		}
	}
	return moves
}

// takers are the volumes that can be given replicas, the emptiest first.
func (p *volumes) takers() []*volume {
	takers := slices.DeleteFunc(slices.Clone(p.all), func(v *volume) bool { return v.State != Online })
	slices.SortStableFunc(takers, func(a, b *volume) int { return cmp.Compare(a.load(), b.load()) })
	return takers
}

// empty moves all that is in directories which are to hold nothing, the largest replica first. One that was on its way
// there stays where it is, if it can.
func (p *volumes) empty() error {
	for _, from := range p.all {
		for from.State == Emptied && len(from.replicas) > 0 {
			replica := from.replicas[0]
			to := p.at(replica.Directory)
			if to.State != Online {
				to = p.emptiestWith(replica)
			}
			if to == nil {
				return fmt.Errorf("partition %s-%d in %s, which is to be emptied, has %s, and no other log directory of the "+
					"broker has room for that beside the %d %% (%s at most) that stay free: enlarge a volume, or delete what is not "+
					"needed", replica.Topic, replica.Partition, from.Path, humanize.IBytes(uint64(max(replica.Bytes, 0))),
					100/reservedParts, humanize.IBytes(mostReserved))
			}
			to.add(from.remove(0))
		}
	}
	return nil
}

// emptiestWith is the volume that is least full with a replica; nil where none has room for it.
func (p *volumes) emptiestWith(replica Stored) (best *volume) {
	load := func(v *volume) float64 { return v.load() + float64(weight(replica))/v.size() }
	for _, to := range p.all {
		if to.takes(replica.Bytes) && (best == nil || load(to) < load(best)) {
			best = to
		}
	}
	return best
}

// evenOnce makes one move from a fuller directory to an emptier one, where that is worth it.
func (p *volumes) evenOnce() bool {
	takers := p.takers()
	held, size := int64(0), 0.0
	for _, v := range takers {
		held, size = held+v.held, size+v.size()
	}
	least := unevenness * float64(held) / max(size, 1)
	for _, from := range slices.Backward(takers) {
		for _, to := range takers {
			if from.load()-to.load() <= least {
				break
			}
			if i := suitable(from, to); i >= 0 {
				to.add(from.remove(i))
				return true
			}
		}
	}
	return false
}

// suitable is the replica whose move brings the loads of two volumes closest to each other; negative for none. Of the
// difference at most half may be left the other way round, so that nothing moves to and fro.
func suitable(from, to *volume) int {
	ideal := (from.load() - to.load()) / (1/from.size() + 1/to.size())
	best, least := -1, ideal
	for i, replica := range from.replicas {
		off := float64(weight(replica)) - ideal
		if off > ideal/2 || !to.takes(replica.Bytes) {
			continue
		}
		if off = max(off, -off); off < least {
			best, least = i, off
		}
	}
	return best
}
