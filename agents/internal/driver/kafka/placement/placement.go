// SPDX-License-Identifier: Apache-2.0

// Package placement plans where the replicas of Kafka's partitions belong, and says which brokers may be restarted or
// removed. It is pure: everything is decided from a State that somebody else has read.
package placement

import (
	"cmp"
	"fmt"
	"slices"
)

// Broker is one that can hold replicas.
type Broker struct {
	ID int32
	// Rack is the failure domain; empty where none is configured, and then each broker counts as a rack of its own.
	Rack string
	// State says whether it can be given replicas.
	State BrokerState
}

// BrokerState says whether a broker can be given replicas.
type BrokerState string

// Values of BrokerState.
const (
	// Alive brokers can.
	Alive BrokerState = ""
	// Fenced brokers are registered and not alive: what they have stays, and nothing is added.
	Fenced BrokerState = "fenced"
	// CordonedBroker is one that is about to leave: what it has stays, and nothing is added.
	CordonedBroker BrokerState = "cordoned"
)

// Partition is one partition as the cluster describes it.
type Partition struct {
	Topic string
	ID    int32
	// Leader is -1 while there is none.
	Leader int32
	// Replicas in order of preference; during a reassignment they include both Adding and Removing.
	Replicas []int32
	// ISR are the replicas that are in sync.
	ISR []int32
	// Offline are replicas whose broker, or whose log directory, is away.
	Offline []int32
	// Adding and Removing are what a reassignment under way adds and removes.
	Adding, Removing []int32
	// MinISR is min.insync.replicas of the topic.
	MinISR int
}

// Target are the replicas that the partition has when its reassignment, if any, is complete.
func (p Partition) Target() []int32 {
	return slices.DeleteFunc(slices.Clone(p.Replicas), func(id int32) bool { return slices.Contains(p.Removing, id) })
}

// Moving says whether a reassignment is under way.
func (p Partition) Moving() bool { return len(p.Adding)+len(p.Removing) > 0 }

// Move is one reassignment.
type Move struct {
	Topic     string
	Partition int32
	// Replicas that the partition is to have, the preferred leader first.
	Replicas []int32
	// Added are those of them that have to copy data.
	Added []int32
}

// Goal is what a plan is for.
type Goal struct {
	// Leaving are brokers that must hold no replicas.
	Leaving []int32
	// Factors are replication factors by topic; a topic that is not named keeps its own.
	Factors map[string]int
	// Balance says how far replicas are moved only to spread them.
	Balance Balance
}

// Balance says whether replicas that could stay are moved to brokers that have fewer.
type Balance string

// Values of Balance.
const (
	// KeepInPlace moves nothing that can stay.
	KeepInPlace Balance = ""
	// Even moves replicas until each partition is on as many racks as it can be, and no broker has two more than another
	// one that could have them.
	Even Balance = "even"
)

// Plan returns the reassignments that reach the goal, in order of topic and partition, with as few copies of data as
// possible. Replicas of one partition are spread over as many racks as there are, and among brokers of equal merit the
// one with the fewest replicas is taken. A partition whose target is already right has no Move, also while its
// reassignment is under way. The error says which goal cannot be reached.
func Plan(brokers []Broker, partitions []Partition, goal Goal) ([]Move, error) {
	p := newPlanner(brokers, goal.Leaving)
	targets := make([][]int32, len(partitions))
	for i, partition := range partitions {
		targets[i] = partition.Target()
		p.count(targets[i], 1)
	}
	order := inOrder(partitions)
	for _, i := range order {
		factor, asked := goal.Factors[partitions[i].Topic]
		if !asked {
			factor = len(targets[i])
		}
		next := p.retarget(partitions[i], targets[i], factor)
		if len(next) < factor || factor < 1 {
			return nil, fmt.Errorf("partition %s-%d needs %d brokers for its replicas, and %d can hold them: add brokers, or "+
				"start those that are down",
				partitions[i].Topic, partitions[i].ID, factor, len(next))
		}
		targets[i] = next
	}
	if goal.Balance == Even {
		for _, i := range order {
			if !partitions[i].Moving() {
				targets[i] = p.spread(partitions[i], targets[i])
			}
		}
		p.even(partitions, targets, order)
	}
	var moves []Move
	for _, i := range order {
		if before := partitions[i].Target(); !slices.Equal(before, targets[i]) {
			added := slices.DeleteFunc(slices.Clone(targets[i]),
				func(id int32) bool { return slices.Contains(partitions[i].Replicas, id) })
			moves = append(moves, Move{partitions[i].Topic, partitions[i].ID, targets[i], added})
		}
	}
	return moves, nil
}

func inOrder(partitions []Partition) []int {
	order := make([]int, len(partitions))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(partitions[a].Topic, partitions[b].Topic), cmp.Compare(partitions[a].ID, partitions[b].ID))
	})
	return order
}

// planner counts what the brokers have while a plan is made.
type planner struct {
	racks map[int32]string
	// staying are brokers whose replicas can stay, and takers those of them that can be given some.
	staying  []int32
	takers   []int32
	replicas map[int32]int
	leaders  map[int32]int
}

func newPlanner(brokers []Broker, leaving []int32) *planner {
	p := &planner{racks: map[int32]string{}, replicas: map[int32]int{}, leaders: map[int32]int{}}
	for _, broker := range brokers {
		p.racks[broker.ID] = broker.Rack
		if !slices.Contains(leaving, broker.ID) {
			p.staying = append(p.staying, broker.ID)
			if broker.State == Alive {
				p.takers = append(p.takers, broker.ID)
			}
		}
	}
	slices.Sort(p.takers)
	return p
}

// rack of a broker. Without one it is a rack of its own, and so is a broker that is not known.
func (p *planner) rack(id int32) string {
	if rack := p.racks[id]; rack != "" {
		return "rack " + rack
	}
	return fmt.Sprintf("broker %d", id)
}

// count adds n for each replica and preferred leader of a target.
func (p *planner) count(target []int32, n int) {
	for i, id := range target {
		p.replicas[id] += n
		if i == 0 {
			p.leaders[id] += n
		}
	}
}

// retarget gives one partition its number of replicas on brokers that stay; fewer where there are not enough.
func (p *planner) retarget(partition Partition, target []int32, factor int) []int32 {
	p.count(target, -1)
	next := slices.Clone(target)
	for len(next) > max(factor, 1) {
		i := p.dispensable(partition, next)
		next = slices.Delete(next, i, i+1)
	}
	for i := 0; i < len(next); {
		if slices.Contains(p.staying, next[i]) {
			i++
			continue
		}
		others := without(next, i)
		next = others
		if id, found := p.candidate(others, i); found {
			next = slices.Insert(others, i, id)
			i++
		}
	}
	for len(next) < factor {
		id, found := p.candidate(next, len(next))
		if !found {
			break
		}
		next = append(next, id)
	}
	p.count(next, 1)
	return next
}

// without is a target without the replica at an index.
func without(target []int32, index int) []int32 {
	return slices.Delete(slices.Clone(target), index, index+1)
}

// candidate is the best broker for one more replica beside others, where there is one. At position 0 it is to be the
// preferred leader.
func (p *planner) candidate(others []int32, position int) (int32, bool) {
	used := map[string]int{}
	for _, id := range others {
		used[p.rack(id)]++
	}
	free := slices.DeleteFunc(slices.Clone(p.takers), func(id int32) bool { return slices.Contains(others, id) })
	if len(free) == 0 {
		return 0, false
	}
	return slices.MinFunc(free, func(a, b int32) int {
		leaders := 0
		if position == 0 {
			leaders = cmp.Compare(p.leaders[a], p.leaders[b])
		}
		return cmp.Or(cmp.Compare(used[p.rack(a)], used[p.rack(b)]), leaders, cmp.Compare(p.replicas[a], p.replicas[b]),
			cmp.Compare(a, b))
	}), true
}

// dispensable is the index of the replica that is removed first: one on a leaving broker, then one that is not in sync,
// then one whose rack has another one, then one of the broker with the most replicas. The leader goes last.
func (p *planner) dispensable(partition Partition, target []int32) int {
	used := map[string]int{}
	for _, id := range target {
		used[p.rack(id)]++
	}
	rank := func(i int) []int {
		id := target[i]
		return []int{
			truth(slices.Contains(p.staying, id)), truth(id == partition.Leader), truth(slices.Contains(partition.ISR, id)),
			-used[p.rack(id)], -p.replicas[id], -i,
		}
	}
	best := 0
	for i := range target {
		if slices.Compare(rank(i), rank(best)) < 0 {
			best = i
		}
	}
	return best
}

func truth(is bool) int {
	if is {
		return 1
	}
	return 0
}

// spread moves replicas that share their rack with another one of the partition to racks that have none, as long as
// there is a broker. The one that is dispensable moves: not the leader, where another one is in the same rack.
func (p *planner) spread(partition Partition, target []int32) []int32 {
	p.count(target, -1)
	for {
		at := p.crowded(partition, target)
		if at < 0 {
			break
		}
		others := without(target, at)
		to, found := p.candidate(others, at)
		if !found || slices.ContainsFunc(others, func(id int32) bool { return p.rack(id) == p.rack(to) }) {
			break
		}
		target = slices.Insert(others, at, to)
	}
	p.count(target, 1)
	return target
}

// crowded is the index of the replica that is moved first of those that share their rack with another one; negative for
// none.
func (p *planner) crowded(partition Partition, target []int32) int {
	crowd := slices.DeleteFunc(slices.Clone(target), func(id int32) bool {
		return !slices.ContainsFunc(target, func(other int32) bool { return other != id && p.rack(other) == p.rack(id) })
	})
	if len(crowd) == 0 {
		return -1
	}
	return slices.Index(target, crowd[p.dispensable(partition, crowd)])
}

// even moves one replica after the other from the broker with the most to one that has at least two fewer. Each move
// makes the sum of squares of the counts smaller, so that it ends. No move puts replicas of a partition on fewer racks.
func (p *planner) even(partitions []Partition, targets [][]int32, order []int) {
	for p.evenOnce(partitions, targets, order) {
	}
}

func (p *planner) evenOnce(partitions []Partition, targets [][]int32, order []int) bool {
	full := slices.Clone(p.takers)
	slices.SortStableFunc(full, func(a, b int32) int { return cmp.Compare(p.replicas[b], p.replicas[a]) })
	for _, from := range full {
		for _, i := range order {
			at := slices.Index(targets[i], from)
			// What moves already is left alone: another target would copy the same data twice.
			if at < 0 || partitions[i].Moving() {
				continue
			}
			others := without(targets[i], at)
			to, found := p.emptier(others, from)
			if !found {
				continue
			}
			p.count(targets[i], -1)
			targets[i] = slices.Insert(others, at, to)
			p.count(targets[i], 1)
			return true
		}
	}
	return false
}

// emptier is the broker that can have a replica in place of one, and has at least two fewer.
func (p *planner) emptier(others []int32, from int32) (int32, bool) {
	used := map[string]bool{}
	for _, id := range others {
		used[p.rack(id)] = true
	}
	found, best := false, int32(0)
	for _, id := range p.takers {
		worse := used[p.rack(id)] && !used[p.rack(from)]
		if slices.Contains(others, id) || worse || p.replicas[from]-p.replicas[id] < 2 || found &&
			p.replicas[id] >= p.replicas[best] {
			continue
		}
		found, best = true, id
	}
	return best, found
}
