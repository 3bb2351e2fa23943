// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files anew")

// story is what is decided, turn by turn, in a world without other faults than those told.
type story struct {
	*world
	shape *Shape
	told  strings.Builder
}

func (s *story) say(format string, args ...any) { fmt.Fprintf(&s.told, format+"\n", args...) }

// play takes turns until the plan is to do nothing.
func (s *story) play() {
	s.Helper()
	s.leaving = s.shape.Leaving
	for range 100 {
		s.turn++
		s.gossip(2)
		views := look(context.Background(), s, s.shape, deeply)
		plan := Decide(s.shape, views)
		s.say("%s: %s", plan.Phase, plan.Reason)
		for _, step := range plan.Steps {
			s.say("  %s", step)
		}
		if plan.Phase != Working {
			s.say("")
			return
		}
		a := &actor{Transport: s, login: func() (string, string, error) { return "", "", nil }, views: map[string]*View{},
			progress: func(int) {}}
		for i := range views {
			a.views[views[i].Member] = &views[i]
		}
		for _, step := range plan.Steps {
			if err := a.act(context.Background(), step); err != nil {
				s.Fatal(err)
			}
		}
	}
	s.Fatal("the story has no end")
}

// begin has three shards with keys.
func (s *story) begin() {
	for i := range 3 {
		s.fresh(fmt.Sprintf("m%d-0", i))
		s.fresh(fmt.Sprintf("m%d-1", i))
	}
	s.shape = simulatedShape([]int{0, 1, 2}, nil)
	s.play()
	s.fill()
}

// stories by the name of their golden file.
var stories = map[string]func(*story){
	"creation": func(s *story) { s.begin() },
	"scale-out-and-in": func(s *story) {
		s.begin()
		s.told.Reset()
		s.fresh("m3-0")
		s.fresh("m3-1")
		s.shape = simulatedShape([]int{0, 1, 2, 3}, nil)
		s.play()
		s.say("Shard 0 leaves.")
		s.shape = simulatedShape([]int{1, 2, 3}, []int{0})
		s.play()
	},
	"slots-are-held": func(s *story) {
		s.begin()
		s.told.Reset()
		s.fresh("m3-0")
		s.fresh("m3-1")
		s.say("A backup takes the keys.")
		s.shape = simulatedShape([]int{0, 1, 2, 3}, nil)
		s.shape.Moves = MovesHeld
		s.play()
		s.say("A primary loses its volume meanwhile.")
		s.lose(s.members["m1-0"])
		s.play()
		s.say("The backup has ended.")
		s.shape.Moves = MovesAllowed
		s.play()
	},
	"everybody-has-moved": func(s *story) {
		s.begin()
		s.told.Reset()
		for _, name := range s.names {
			s.moved(s.members[name])
		}
		s.play()
	},
	"a-primary-has-lost-its-volume": func(s *story) {
		s.begin()
		s.told.Reset()
		s.lose(s.members["m1-0"])
		s.play()
	},
	"most-primaries-have-lost-their-volumes": func(s *story) {
		s.begin()
		s.told.Reset()
		s.fresh("m1-0")
		s.fresh("m2-0")
		s.play()
	},
	"a-shard-is-lost": func(s *story) {
		s.begin()
		s.told.Reset()
		id := s.members["m1-0"].id
		s.begun = false
		s.fresh("m1-0")
		s.fresh("m1-1")
		s.play()
		s.say("Another one is to be given up, by mistake.")
		s.shape.Goal, s.shape.Abandon = GiveUp, []string{s.members["m0-0"].id}
		s.play()
		s.say("It is given up.")
		s.shape.Abandon = []string{id}
		s.play()
		s.say("It goes on without.")
		s.shape.Goal, s.shape.Abandon = Converge, nil
		s.play()
	},
	"a-member-is-not-seen": func(s *story) {
		s.begin()
		s.told.Reset()
		s.members["m2-1"].up = false
		s.shape = simulatedShape([]int{0, 1}, []int{2})
		s.shape.Shards = append(s.shape.Shards, []string{"m3-0"})
		s.fresh("m3-0")
		s.play()
	},
	"a-primary-yields": func(s *story) {
		s.begin()
		s.told.Reset()
		s.shape.Drain = []string{"m0-0"}
		s.play()
		s.say("Its replica is gone.")
		s.shape.Drain = []string{"m0-1"}
		s.members["m0-0"].up = false
		s.play()
	},
	"a-volume-was-copied": func(s *story) {
		s.begin()
		s.told.Reset()
		s.members["m2-1"].id = s.members["m0-0"].id
		s.play()
	},
	"a-member-is-not-empty": func(s *story) {
		s.begin()
		s.told.Reset()
		s.fresh("m0-2")
		s.members["m0-2"].keys[7] = map[string]bool{"7-key": true}
		s.shape.Shards[0] = append(s.shape.Shards[0], "m0-2")
		s.play()
	},
	"a-primary-is-gone-that-leaves": func(s *story) {
		s.begin()
		s.told.Reset()
		s.fresh("m3-0")
		s.fresh("m3-1")
		s.shape = simulatedShape([]int{0, 1, 2, 3}, nil)
		s.shape.Moves = MovesHeld
		s.play()
		s.say("The shard is not wanted any more, and its primary has lost its volume.")
		s.fresh("m3-0")
		s.shape = simulatedShape([]int{0, 1, 2}, []int{3})
		s.play()
	},
	"fewer-replicas": func(s *story) {
		s.begin()
		for i := range 3 {
			s.fresh(fmt.Sprintf("m%d-2", i))
		}
		s.shape = ofMembers(s.shape, 3)
		s.play()
		s.told.Reset()
		s.handOver(s.members["m0-2"])
		s.handOver(s.members["m1-1"])
		s.shape = ofMembers(s.shape, 2)
		s.play()
		s.say("All come back elsewhere, and the last replicas leave.")
		for _, name := range s.names {
			s.moved(s.members[name])
		}
		s.shape = ofMembers(s.shape, 1)
		s.play()
	},
	"a-primary-leaves-that-nobody-has-copied": func(s *story) {
		s.begin()
		s.handOver(s.members["m0-1"])
		s.fresh("m0-0")
		s.members["m0-0"].stuck = true
		s.play()
		s.told.Reset()
		s.shape = ofMembers(s.shape, 1)
		s.play()
		s.say("The copy is whole, and whoever has it is to be taken out.")
		s.members["m0-0"].stuck = false
		s.shape.Drain = []string{"m0-0"}
		s.play()
		s.say("It is not any more.")
		s.shape.Drain = nil
		s.play()
	},
	"nobody-has-copied-yet": func(s *story) {
		s.begin()
		s.fresh("m1-1")
		s.members["m1-1"].stuck = true
		s.play()
		s.told.Reset()
		id := s.members["m1-0"].id
		s.begun = false
		s.fresh("m1-0")
		s.play()
		s.say("It is given up.")
		s.shape.Goal, s.shape.Abandon = GiveUp, []string{id}
		s.play()
		s.say("It goes on without.")
		s.members["m1-1"].stuck = false
		s.shape.Goal, s.shape.Abandon = Converge, nil
		s.play()
	},
	"replicas-have-restarted": func(s *story) {
		s.begin()
		s.fresh("m1-2")
		s.fresh("m1-3")
		s.shape.Shards[1] = append(s.shape.Shards[1], "m1-2", "m1-3")
		s.play()
		// The first has left and come back, and not copied yet: it has its old offset and nothing else. The second has not
		// the latest.
		bare, behind, best := s.members["m1-1"], s.members["m1-2"], s.members["m1-3"]
		bare.lacking, bare.stuck, bare.linked, bare.keys = true, true, false, map[int]map[string]bool{}
		for slot := range behind.keys {
			delete(behind.keys, slot)
			break
		}
		behind.restart()
		best.restart()
		s.told.Reset()
		s.fresh("m1-0")
		s.play()
	},
	"slots-were-left-open": func(s *story) {
		s.begin()
		s.told.Reset()
		from, to := s.members["m0-0"], s.members["m1-0"]
		for slot := range 3 {
			from.migrating[slot], to.importing[slot] = to.id, from.id
		}
		// The keys of one have moved, and all marks of another whose keys have moved, too, are gone.
		to.keys[0], from.keys[0] = from.keys[0], nil
		to.keys[41], from.keys[41] = from.keys[41], nil
		s.play()
	},
}

func TestStories(t *testing.T) {
	once, open := atOnce, batch
	atOnce, batch = 1, 2048
	t.Cleanup(func() { atOnce, batch = once, open })
	for name, tell := range stories {
		t.Run(name, func(t *testing.T) {
			s := &story{world: &world{T: t, random: rand.New(rand.NewPCG(1, 1)), members: map[string]*node{}, calm: true}}
			tell(s)
			file := filepath.Join("testdata", name+".golden")
			if *update {
				if err := os.MkdirAll("testdata", 0o750); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, []byte(s.told.String()), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if got := s.told.String(); got != string(want) {
				t.Errorf("the story is now:\n%s\nit was:\n%s", got, want)
			}
		})
	}
}
