// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func racks(names ...string) []Broker {
	var all []Broker
	for i, name := range names {
		all = append(all, Broker{ID: int32(i), Rack: name})
	}
	return all
}

func TestPlan(t *testing.T) {
	three := racks("a", "b", "c", "a", "b", "c")
	for name, test := range map[string]struct {
		brokers    []Broker
		partitions []Partition
		goal       Goal
		want       string
	}{
		"what is right stays": {three, []Partition{{Topic: "t", Replicas: []int32{0, 1, 2}}}, Goal{}, "[]"},
		"a replica more goes to another rack": {three, []Partition{{Topic: "t", Replicas: []int32{0}}},
			Goal{Factors: map[string]int{"t": 2}},
			"[{t 0 [0 1] [1]}]"},
		"a replica less is taken from the rack that has two": {three,
			[]Partition{{Topic: "t", Replicas: []int32{0, 3, 1}, ISR: []int32{0, 1, 3}, Leader: 0}},
			Goal{Factors: map[string]int{"t": 2}}, "[{t 0 [0 1] []}]"},
		"a replica that is not in sync goes first": {three,
			[]Partition{{Topic: "t", Replicas: []int32{0, 1, 2}, ISR: []int32{0, 2}, Leader: 0}},
			Goal{Factors: map[string]int{"t": 2}}, "[{t 0 [0 2] []}]"},
		"the leader stays": {three, []Partition{{Topic: "t", Replicas: []int32{0, 1, 2}, ISR: []int32{0, 1, 2}, Leader: 2}},
			Goal{Factors: map[string]int{"t": 1}}, "[{t 0 [2] []}]"},
		"what leaves is replaced in its rack and place": {three, []Partition{{Topic: "t", Replicas: []int32{0, 1, 2}}},
			Goal{Leaving: []int32{1}},
			"[{t 0 [0 4 2] [4]}]"},
		"a leaving broker goes before others": {three,
			[]Partition{{Topic: "t", Replicas: []int32{0, 1, 2}, ISR: []int32{0, 1}, Leader: 0}},
			Goal{Leaving: []int32{1}, Factors: map[string]int{"t": 2}}, "[{t 0 [0 2] []}]"},
		"a reassignment under way is not asked for again": {three,
			[]Partition{{Topic: "t", Replicas: []int32{0, 4, 2, 1}, Adding: []int32{4}, Removing: []int32{1}}},
			Goal{Leaving: []int32{1}}, "[]"},
		"a broker that is down keeps what it has, and gets nothing": {[]Broker{{ID: 0}, {ID: 1}, {ID: 2, State: Fenced},
			{ID: 3}},
			[]Partition{{Topic: "t", Replicas: []int32{2, 1}}}, Goal{Leaving: []int32{1}}, "[{t 0 [2 0] [0]}]"},
		"what was on a broker that is not known any more is replaced": {racks("", ""),
			[]Partition{{Topic: "t", Replicas: []int32{0, 7}}}, Goal{}, "[{t 0 [0 1] [1]}]"},
		"new brokers get their share": {racks("", ""),
			[]Partition{{Topic: "t", ID: 0, Replicas: []int32{0}}, {Topic: "t", ID: 1, Replicas: []int32{0}}},
			Goal{Balance: Even}, "[{t 0 [1] [1]}]"},
		"replicas that share a rack are spread over others": {three,
			[]Partition{{Topic: "t", Replicas: []int32{0, 3, 1}, ISR: []int32{0, 1, 3}, Leader: 0}},
			Goal{Balance: Even}, "[{t 0 [0 2 1] [2]}]"},
		"replicas that share a rack stay in place without Even": {three,
			[]Partition{{Topic: "t", Replicas: []int32{0, 3, 1}, ISR: []int32{0, 1, 3}, Leader: 0}}, Goal{}, "[]"},
		"a leader that shares its rack stays": {three,
			[]Partition{{Topic: "t", Replicas: []int32{3, 0}, ISR: []int32{0, 3}, Leader: 0}},
			Goal{Balance: Even}, "[{t 0 [1 0] [1]}]"},
		"more replicas than racks": {racks("a", "a", "b"),
			[]Partition{{Topic: "t", Replicas: []int32{0, 1, 2}, ISR: []int32{0, 1, 2}, Leader: 0}}, Goal{Balance: Even}, "[]"},
		"spreading keeps racks apart": {racks("a", "b", "a"),
			[]Partition{{Topic: "t", ID: 0, Replicas: []int32{0, 1}}, {Topic: "t", ID: 1, Replicas: []int32{0, 1}}},
			Goal{Balance: Even}, "[{t 0 [2 1] [2]}]"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Plan(test.brokers, test.partitions, test.goal)
			if text := fmt.Sprint(got); err != nil || text != test.want {
				t.Errorf("got %s, %v; want %s", text, err, test.want)
			}
		})
	}
}

func TestPlanRefusesAFactorWithoutBrokers(t *testing.T) {
	_, err := Plan(racks("a", "b"), []Partition{{Topic: "t", Replicas: []int32{0, 1}}}, Goal{Leaving: []int32{1}})
	if err == nil || !strings.Contains(err.Error(),
		"partition t-0 needs 2 brokers for its replicas, and 1 can hold them") {
		t.Errorf("got %v", err)
	}
}

// TestPlansAreSafe draws clusters and goals, and checks what every plan promises.
func TestPlansAreSafe(t *testing.T) {
	for seed := range uint64(400) {
		draw := rand.New(rand.NewPCG(seed, 7))
		brokers, partitions := drawCluster(draw)
		goal := Goal{Factors: map[string]int{}}
		for _, broker := range brokers {
			if draw.IntN(4) == 0 && len(goal.Leaving) < len(brokers)-3 {
				goal.Leaving = append(goal.Leaving, broker.ID)
			}
		}
		if draw.IntN(2) == 0 {
			goal.Factors["t0"] = 1 + draw.IntN(3)
		}
		if draw.IntN(2) == 0 {
			goal.Balance = Even
		}
		moves, err := Plan(brokers, partitions, goal)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		after := apply(partitions, moves)
		checkPlan(t, seed, brokers, partitions, after, goal)
		// A plan for what it leads to has nothing to do: whoever was stopped can go on.
		again, err := Plan(brokers, after, goal)
		if err != nil || len(again) > 0 {
			t.Errorf("seed %d: a second plan moves %v, %v", seed, again, err)
		}
	}
}

func drawCluster(draw *rand.Rand) ([]Broker, []Partition) {
	var brokers []Broker
	count := 4 + draw.IntN(5)
	for id := range count {
		brokers = append(brokers, Broker{ID: int32(id), Rack: []string{"a", "b", "c"}[id%3]})
	}
	var partitions []Partition
	for topic := range 3 {
		factor := 1 + draw.IntN(3)
		for id := range 1 + draw.IntN(8) {
			var replicas []int32
			for _, index := range draw.Perm(count)[:factor] {
				replicas = append(replicas, int32(index))
			}
			partitions = append(partitions,
				Partition{Topic: fmt.Sprintf("t%d", topic), ID: int32(id), Leader: replicas[0], Replicas: replicas, ISR: replicas})
		}
	}
	return brokers, partitions
}

func apply(partitions []Partition, moves []Move) []Partition {
	after := slices.Clone(partitions)
	for _, move := range moves {
		i := slices.IndexFunc(after, func(p Partition) bool { return p.Topic == move.Topic && p.ID == move.Partition })
		after[i].Replicas, after[i].ISR = move.Replicas, move.Replicas
	}
	return after
}

func checkPlan(t *testing.T, seed uint64, brokers []Broker, before, after []Partition, goal Goal) {
	t.Helper()
	rackOf := func(id int32) string { return brokers[id].Rack }
	left := map[string]bool{}
	counts := map[int32]int{}
	for _, broker := range brokers {
		if !slices.Contains(goal.Leaving, broker.ID) {
			left[broker.Rack], counts[broker.ID] = true, 0
		}
	}
	for i, partition := range after {
		factor, asked := goal.Factors[partition.Topic]
		if !asked {
			factor = len(before[i].Replicas)
		}
		if ids := slices.Compact(slices.Sorted(slices.Values(partition.Replicas))); len(ids) != factor ||
			len(partition.Replicas) != factor {
			t.Errorf("seed %d: %s-%d has replicas %v, want %d", seed, partition.Topic, partition.ID, partition.Replicas, factor)
		}
		spread, was := map[string]bool{}, map[string]bool{}
		for _, id := range partition.Replicas {
			spread[rackOf(id)] = true
			if _, stays := counts[id]; !stays {
				t.Errorf("seed %d: %s-%d is on broker %d, which leaves", seed, partition.Topic, partition.ID, id)
			}
			counts[id]++
		}
		kept := 0
		for _, id := range before[i].Replicas {
			if _, stays := counts[id]; stays {
				was[rackOf(id)] = true
				kept++
			}
		}
		// What is added goes to new racks as long as there are some; what stays was not put there by this plan.
		want := min(len(was)+max(factor-kept, 0), len(left), factor)
		if goal.Balance == Even {
			want = min(len(left), factor)
		}
		if len(spread) < want {
			t.Errorf("seed %d: %s-%d is on %d racks, want %d: %v before, %v after", seed, partition.Topic, partition.ID,
				len(spread), want, before[i].Replicas, partition.Replicas)
		}
		if goal.Balance == KeepInPlace {
			for _, id := range before[i].Replicas {
				if _, stays := counts[id]; stays && kept <= factor && !slices.Contains(partition.Replicas, id) {
					t.Errorf("seed %d: %s-%d left broker %d without need", seed, partition.Topic, partition.ID, id)
				}
			}
		}
	}
}

func TestRestart(t *testing.T) {
	for name, test := range map[string]struct {
		partition Partition
		want      string
	}{
		"enough replicas stay": {Partition{Replicas: []int32{0, 1, 2}, ISR: []int32{0, 1, 2}, MinISR: 2},
			"{[] [] [] []}"},
		"one would be too few, and another catches up": {Partition{Replicas: []int32{0, 1, 2}, ISR: []int32{0, 1},
			MinISR: 2}, "{[t-0] [] [] []}"},
		"one would be too few, and another is away": {Partition{Replicas: []int32{0, 1, 2}, ISR: []int32{0, 1},
			Offline: []int32{2}, MinISR: 2}, "{[t-0] [t-0] [] []}"},
		"none can be spared": {Partition{Replicas: []int32{0, 1, 2}, ISR: []int32{0, 1, 2}, MinISR: 3},
			"{[t-0] [t-0] [] []}"},
		"it is not in sync anyway": {Partition{Replicas: []int32{0, 1, 2}, ISR: []int32{1, 2}, MinISR: 2},
			"{[] [] [] []}"},
		"it is the last one in sync": {Partition{Replicas: []int32{0, 1}, ISR: []int32{0}, MinISR: 0},
			"{[t-0] [] [] []}"},
		"it is the last one that is there": {Partition{Replicas: []int32{0, 1}, ISR: []int32{0}, Offline: []int32{1}},
			"{[t-0] [t-0] [] []}"},
		"a sole replica blocks nothing": {Partition{Replicas: []int32{0}, ISR: []int32{0}, MinISR: 1}, "{[] [] [t-0] []}"},
		"a factor below the minimum": {Partition{Replicas: []int32{0, 1}, ISR: []int32{0, 1}, MinISR: 3},
			"{[] [] [] [t-0]}"},
		"the last one in sync of a factor below the minimum": {Partition{Replicas: []int32{0, 1}, ISR: []int32{0}, MinISR: 3},
			"{[t-0] [] [] []}"},
		"a replica that goes is no support": {Partition{Replicas: []int32{0, 1, 2, 3}, ISR: []int32{0, 1, 2},
			Adding: []int32{3}, Removing: []int32{2}, MinISR: 2}, "{[t-0] [] [] []}"},
		"a sole replica on the move": {Partition{Replicas: []int32{1, 0}, ISR: []int32{0}, Adding: []int32{1},
			Removing: []int32{0}, MinISR: 1}, "{[t-0] [] [] []}"},
	} {
		t.Run(name, func(t *testing.T) {
			test.partition.Topic = "t"
			if got := fmt.Sprint(Restart([]Partition{test.partition}, 0)); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func TestHeld(t *testing.T) {
	got := Held([]Partition{
		{Leader: 1, Replicas: []int32{1, 2}},
		{Leader: 2, Replicas: []int32{2, 3, 1}, Adding: []int32{1}, Removing: []int32{2}},
	}, 1)
	if want := (Holding{Replicas: 2, Leaders: 1, Arriving: 1}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
