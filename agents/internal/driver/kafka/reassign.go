// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/IBM/sarama"

	"github.com/zeroinfra/agents/internal/driver"
	"github.com/zeroinfra/agents/internal/driver/kafka/placement"
)

// goal of a reassignment, as JSON.
type goal struct {
	// Leaving are brokers that are to hold nothing.
	Leaving []int32 `json:"leaving"`
	// Factors are replication factors by topic.
	Factors map[string]int `json:"factors"`
	// Balance is "even" to spread replicas over all brokers, and over the volumes of each.
	Balance placement.Balance `json:"balance"`
	// Emptied is a log directory whose replicas are to move to others of the same broker.
	Emptied emptied `json:"emptied"`
	// AtOnce is how many partitions may be under way at a time; 0 for atOnce.
	AtOnce int `json:"atOnce"`
	// Throttle is how many bytes a second each broker may send, and how many it may receive, for replicas that are not in
	// sync, and how many it may copy between its volumes; 0 for any number, nil for what the parameters of the cluster
	// say.
	Throttle *int64 `json:"throttle"`
}

// maxPlanned is how many moves a plan tells, so that what it says can be passed on.
const maxPlanned = 200

// atOnce is how many partitions are under way at a time where nobody says another number.
const atOnce = 20

// Phases of a reassignment.
const (
	phaseMoving = "Moving"
	phaseDone   = "Done"
)

func goalOf(text string) (goal, error) {
	var g goal
	decoder := json.NewDecoder(bytes.NewReader([]byte(text)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&g); err != nil {
		return goal{}, fmt.Errorf("the goal must be JSON such as {\"leaving\":[3],\"atOnce\":10,\"throttle\":10485760}: %w",
			err)
	}
	if g.AtOnce < 0 || g.Throttle != nil && *g.Throttle < 0 ||
		g.Balance != placement.KeepInPlace && g.Balance != placement.Even {
		return goal{}, fmt.Errorf("the goal %s has a number below 0, or a balance that is not %q", text, placement.Even)
	}
	g.AtOnce = cmp.Or(g.AtOnce, atOnce)
	return g, nil
}

// plan reads the cluster, and decides what leads to the goal.
func (s *session) plan(g goal) ([]partition, []placement.Move, error) {
	all, err := s.allPartitions()
	if err != nil {
		return nil, nil, err
	}
	places, err := s.places()
	if err != nil {
		return nil, nil, err
	}
	moves, err := placement.Plan(places, all, placement.Goal{Leaving: g.Leaving, Factors: g.Factors, Balance: g.Balance})
	return all, moves, err
}

func planReassignment(s *session, words []string) (driver.Table, error) {
	g, err := goalOf(words[0])
	if err != nil {
		return driver.Table{}, err
	}
	all, moves, err := s.plan(g)
	if err != nil {
		return driver.Table{}, err
	}
	before := map[place]partition{}
	for _, p := range all {
		before[place{p.Topic, p.ID}] = p
	}
	table := driver.Table{Columns: []string{"topic", "partition", "from", "to", "copies", "moves"}}
	for _, move := range moves[:min(len(moves), maxPlanned)] {
		from := before[place{move.Topic, move.Partition}].Target()
		table.Rows = append(table.Rows, row(move.Topic, number(move.Partition), numbers(from), numbers(move.Replicas),
			number(len(move.Added)), number(len(moves))))
	}
	if len(moves) > 0 || g.Balance != placement.Even && g.Emptied.Directory == "" {
		return table, nil
	}
	return s.tellVolumes(g, table)
}

// tellVolumes adds what moves between the volumes of brokers.
func (s *session) tellVolumes(g goal, table driver.Table) (driver.Table, error) {
	plan, err := s.planVolumes(g)
	if err != nil {
		return driver.Table{}, err
	}
	chosen, begun, left := inTurn(plan.moves, maxPlanned)
	for _, of := range chosen {
		for _, move := range of.moves {
			table.Rows = append(table.Rows, row(move.Topic, number(move.Partition), number(of.broker)+" "+move.From,
				number(of.broker)+" "+move.To, "1", number(begun+left)))
		}
	}
	return table, nil
}

// reassignPause is between two steps.
const reassignPause = 2 * time.Second

// reassignUntilDone takes steps. When its time is over, what is under way goes on, and another call carries on with it.
func reassignUntilDone(s *session, words []string) (driver.Table, error) {
	g, err := goalOf(words[0])
	if err != nil {
		return driver.Table{}, err
	}
	forecast := forecast{now: time.Now}
	for {
		s.renew()
		s.forget()
		state, err := s.stepTo(g)
		if err != nil || state.phase == phaseDone {
			return state.table(), err
		}
		if sentence := forecast.says(state); sentence != "" && s.report != nil {
			s.report(tableOf([]string{driver.Progress}, sentence))
		}
		select {
		case <-s.ctx.Done():
			return state.table(), context.Cause(s.ctx)
		case <-time.After(reassignPause):
		}
	}
}

func stepReassignment(s *session, words []string) (driver.Table, error) {
	g, err := goalOf(words[0])
	if err != nil {
		return driver.Table{}, err
	}
	state, err := s.stepTo(g)
	if err != nil {
		return driver.Table{}, err
	}
	return state.table(), nil
}

// stepTo begins as many moves as may be under way. How far it is can be read from the cluster alone, so that whoever
// dies in between goes on.
func (s *session) stepTo(g goal) (reassignment, error) {
	all, moves, err := s.plan(g)
	if err != nil {
		return reassignment{}, err
	}
	moving := 0
	for _, p := range all {
		moving += one(p.Moving())
	}
	if len(moves) == 0 && moving == 0 {
		return s.endWithVolumes(g, all)
	}
	begin, err := s.unchanged(moves[:min(len(moves), max(g.AtOnce-moving, 0))], all)
	if err != nil {
		return reassignment{}, err
	}
	// Where nothing begins a broker that does not answer now can wait for the next step.
	if err := s.throttle(all, begin, g.Throttle); err != nil && len(begin) > 0 {
		return reassignment{}, err
	}
	refused, err := s.submit(begin)
	if err != nil {
		return reassignment{}, err
	}
	for _, topic := range slices.Sorted(maps.Keys(refused)) {
		return reassignment{}, fmt.Errorf("cannot reassign partitions of %q: %w", topic, refused[topic])
	}
	return reassignment{phaseMoving, betweenBrokers, len(begin), moving + len(begin), len(moves) - len(begin), nil}, nil
}

// moveLag is how long a broker may take to hear what the controller has changed.
const moveLag = 300 * time.Millisecond

// unchanged are the moves of partitions that are still as they were seen. One whose move has just ended may have been
// seen with the replicas of before and after, by a broker that has yet to hear that, and with no move under way, by the
// controller: it would be given as many replicas as that for good.
func (s *session) unchanged(moves []placement.Move, seen []partition) ([]placement.Move, error) {
	if len(moves) == 0 {
		return nil, nil
	}
	select {
	case <-s.ctx.Done():
		return nil, context.Cause(s.ctx)
	case <-time.After(moveLag):
	}
	now, err := s.allPartitions()
	if err != nil {
		return nil, err
	}
	return sameMoves(moves, seen, now), nil
}

// sameMoves are the moves of partitions that two looks saw alike.
func sameMoves(moves []placement.Move, seen, now []partition) (same []placement.Move) {
	former := map[place]partition{}
	for _, p := range seen {
		former[place{p.Topic, p.ID}] = p
	}
	alike := map[place]bool{}
	for _, p := range now {
		was := former[place{p.Topic, p.ID}]
		alike[place{p.Topic, p.ID}] = slices.Equal(was.Replicas, p.Replicas) && slices.Equal(was.Adding, p.Adding) &&
			slices.Equal(was.Removing, p.Removing)
	}
	for _, move := range moves {
		if alike[place{move.Topic, move.Partition}] {
			same = append(same, move)
		}
	}
	return same
}

// endWithVolumes goes on with the volumes of each broker once the brokers have what they are to have.
func (s *session) endWithVolumes(g goal, all []partition) (reassignment, error) {
	state, err := s.stepVolumes(g)
	if err != nil || state.phase == phaseMoving {
		return state, err
	}
	return state, s.unthrottle(all)
}

// cancelReassignment has partitions keep the replicas that they had, and these the directories where they are.
func cancelReassignment(s *session, _ []string) (driver.Table, error) {
	all, err := s.allPartitions()
	if err != nil {
		return driver.Table{}, err
	}
	var moves []placement.Move
	for _, p := range all {
		if p.Moving() {
			moves = append(moves, placement.Move{Topic: p.Topic, Partition: p.ID})
		}
	}
	refused, err := s.submit(moves)
	if err != nil {
		return driver.Table{}, err
	}
	for _, topic := range slices.Sorted(maps.Keys(refused)) {
		if refused[topic].code != sarama.ErrNoReassignmentInProgress {
			return driver.Table{}, fmt.Errorf("cannot cancel the reassignment of %q: %w", topic, refused[topic])
		}
	}
	volumes, err := s.cancelVolumes()
	if err != nil {
		return driver.Table{}, err
	}
	return tableOf([]string{"cancelled"}, number(len(moves)+volumes)), s.unthrottle(all)
}
