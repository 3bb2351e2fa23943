// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/zeroinfra/agents/internal/driver"
	"github.com/zeroinfra/agents/internal/driver/kafka/placement"
)

// shape is what the nodes of one component are to be, as JSON.
type shape struct {
	// Members are the names of the pods that stay, by set, and Leaving of those that are to go. A name ends with a dash
	// and the number of the pod.
	Members [][]string `json:"members"`
	Leaving []string   `json:"leaving"`
	// Roles of the nodes: broker, controller or both.
	Roles []string `json:"roles"`
	// Base is added to the number of a pod and gives its node.id.
	Base int32 `json:"base"`
	// Domain of the pods in DNS, and Port of the listener CONTROLLER: a controller is added to the voters by its address.
	Domain string `json:"domain"`
	Port   uint16 `json:"port"`
	// AtOnce is that of the reassignment that empties brokers that leave.
	AtOnce int `json:"atOnce"`
}

// Roles of a node.
const (
	roleBroker     = "broker"
	roleController = "controller"
)

// Phases of members, as the engine takes them.
const (
	membersDone    = "Done"
	membersWorking = "Working"
	membersWaiting = "Waiting"
	membersRefused = "Refused"
)

// closeBehind is how many records a controller may lack to be added to the voters: the leader adds some each second.
const closeBehind = 100

func shapeOf(text string) (shape, error) {
	var sh shape
	decoder := json.NewDecoder(bytes.NewReader([]byte(text)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&sh); err != nil {
		return shape{}, fmt.Errorf("the shape must be JSON such as {\"members\":[[\"kafka-0\"]],\"leaving\":[],"+
			"\"roles\":[\"broker\"]}: %w", err)
	}
	for _, role := range sh.Roles {
		if role != roleBroker && role != roleController {
			return shape{}, fmt.Errorf("%q is no role of a node: it must be %s or %s", role, roleBroker, roleController)
		}
	}
	for _, name := range slices.Concat(slices.Concat(sh.Members...), sh.Leaving) {
		if _, err := sh.node(name); err != nil {
			return shape{}, err
		}
	}
	return sh, nil
}

// node is the node.id of a pod.
func (sh shape) node(pod string) (int32, error) {
	number, err := strconv.ParseInt(pod[strings.LastIndex(pod, "-")+1:], 10, 31)
	if err != nil {
		return 0, fmt.Errorf("%q is no name of a pod: it must end with a dash and a number", pod)
	}
	return sh.Base + int32(number), nil
}

// nodes are the node.ids of pods; shapeOf has seen that they have one.
func (sh shape) nodes(pods []string) (ids []int32) {
	for _, pod := range pods {
		id, _ := sh.node(pod)
		ids = append(ids, id)
	}
	return ids
}

// isOf says whether a node is of the component: its brokers and controllers are told apart by their numbers.
func (sh shape) isOf(id int32) bool { return id >= sh.Base && (sh.Base > 0 || id < controllerBase) }

// controllerBase is from where controllers that are no brokers are numbered.
const controllerBase = 1000

// found is what the cluster says.
type found struct {
	alive, fenced []int32
	// cordoned are brokers that get no new replicas; nil where Kafka cannot do that. open are those that leave, still get
	// some, and can be cordoned.
	cordoned, open []int32
	// throttled says that the throttle of moves that have ended is on, and silent are brokers that do not say whether
	// theirs is.
	throttled  bool
	silent     []int32
	quorum     *quorum
	partitions []partition
	// moves is how many moves of replicas have yet to begin, and problem why what leaving brokers hold fits on no other.
	moves   int
	problem error
}

// memberStep is what is to be done next. Without do there is nothing to do now.
type memberStep struct {
	phase, reason string
	do            func(*session) error
	// goesOn says that the next step can be taken at once.
	goesOn bool
}

func waitFor(format string, arguments ...any) memberStep {
	return memberStep{phase: membersWaiting, reason: fmt.Sprintf(format, arguments...)}
}

func work(reason string, do func(*session) error) memberStep {
	return memberStep{phase: membersWorking, reason: reason, do: do}
}

// look reads what the shape is about.
func (s *session) look(sh shape) (found, error) {
	var f found
	var err error
	if f.quorum, err = s.quorum(); err != nil || !slices.Contains(sh.Roles, roleBroker) {
		return f, err
	}
	s.forget()
	cluster, err := s.brokers()
	if err != nil {
		return f, err
	}
	for _, broker := range cluster.Brokers {
		switch {
		case !sh.isOf(broker.BrokerID):
		case broker.IsFenced:
			f.fenced = append(f.fenced, broker.BrokerID)
		default:
			f.alive = append(f.alive, broker.BrokerID)
		}
	}
	own := s.ownSettings(notFenced(cluster))
	f.cordoned, f.silent = own.cordoned, own.silent
	f.open = s.cordonable(f.toCordon(sh.nodes(sh.Leaving)))
	if f.partitions, err = s.allPartitions(); err != nil {
		return f, err
	}
	if f.throttled, err = s.idleThrottle(f.partitions, own.throttled); err != nil {
		return f, err
	}
	leaving := sh.nodes(sh.Leaving)
	if len(leaving) == 0 {
		leaving = sh.gone(f)
	}
	if len(leaving) == 0 {
		return f, nil
	}
	places := placesOf(cluster.Brokers, f.cordoned)
	moves, problem := placement.Plan(places, withoutCanary(f.partitions), placement.Goal{Leaving: leaving})
	if f.moves, f.problem = len(moves), problem; problem == nil {
		f.problem = s.lacksRoom(moves, leaving)
	}
	return f, nil
}

// gone are brokers without a pod that are to have replicas all the same: they were given some while they went, where
// Kafka cannot cordon, or their pods were made no more.
func (sh shape) gone(f found) (ids []int32) {
	known := slices.Concat(sh.nodes(slices.Concat(sh.Members...)), sh.nodes(sh.Leaving), f.alive)
	for _, p := range withoutCanary(f.partitions) {
		for _, id := range p.Replicas {
			if sh.isOf(id) && !slices.Contains(known, id) && !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
	}
	slices.Sort(ids)
	return ids
}

// next decides on one step: first all that stay are members, then what leaves is emptied, then it votes no more.
func next(sh shape, f found) memberStep {
	staying, leaving := sh.nodes(slices.Concat(sh.Members...)), sh.nodes(sh.Leaving)
	var steps []func() memberStep
	if slices.Contains(sh.Roles, roleController) {
		steps = append(steps, func() memberStep { return joins(sh, staying, f.quorum) })
	}
	if slices.Contains(sh.Roles, roleBroker) {
		steps = append(steps,
			func() memberStep { return unthrottles(staying, f) },
			func() memberStep { return serves(staying, f) },
			func() memberStep { return welcomes(staying, f) },
			func() memberStep { return releases(slices.Concat(staying, leaving), leaving, f) },
			func() memberStep { return drains(sh, leaving, f) },
			func() memberStep { return forgets(slices.Concat(staying, leaving), f) })
	}
	if slices.Contains(sh.Roles, roleController) {
		steps = append(steps, func() memberStep { return leaves(leaving, f.quorum) })
	}
	if slices.Contains(sh.Roles, roleBroker) {
		steps = append(steps,
			func() memberStep { return replaces(sh, f) },
			func() memberStep { return hears(f) })
	}
	for _, step := range steps {
		if s := step(); s.phase != "" {
			return s
		}
	}
	return memberStep{phase: membersDone, reason: "all pods are members"}
}

// joins has controllers vote. One that has lost its volume comes with another directory: its former vote is taken away
// first, so that the voters are never more than the nodes.
func joins(sh shape, staying []int32, q *quorum) memberStep {
	for _, id := range staying {
		observer, follows := latest(q.observers, id)
		voter, votes := latest(q.voters, id)
		switch {
		case !votes && !follows:
			return waitFor("controller %d has yet to follow the quorum", id)
		// What is left of a directory that is gone shows for minutes: the one that asks is the node's.
		case votes && (!follows || voter.directory == observer.directory || voter.node == q.leader ||
			voter.fetched >= observer.fetched):
			continue
		case votes:
			return work(fmt.Sprintf("controller %d has lost its volume: its former vote is removed", id),
				func(s *session) error { return s.dropVoter(voter) })
		}
		if behind := q.end() - observer.endOffset; behind > closeBehind {
			return waitFor("controller %d lacks %d records", id, behind)
		}
		pod := slices.Concat(sh.Members...)[slices.Index(staying, id)]
		listener := fmt.Sprintf("CONTROLLER://%s.%s:%d", pod, sh.Domain, sh.Port)
		step := work(fmt.Sprintf("controller %d is added to the voters", id), func(s *session) error {
			_, err := addVoter(s, []string{number(id), textOf(observer.directory), listener})
			return err
		})
		step.goesOn = true
		return step
	}
	return memberStep{}
}

// latest is the member with a number that asked the leader last.
func latest(members []quorumMember, id int32) (last quorumMember, is bool) {
	for _, member := range members {
		if member.node == id && (!is || member.fetched > last.fetched) {
			last, is = member, true
		}
	}
	return last, is
}

func (s *session) dropVoter(m quorumMember) error {
	_, err := removeVoter(s, []string{number(m.node), textOf(m.directory)})
	return err
}

// serves waits for brokers that are not there.
func serves(staying []int32, f found) memberStep {
	for _, id := range staying {
		if !slices.Contains(f.alive, id) {
			return waitFor("broker %d is not alive in the cluster", id)
		}
	}
	return memberStep{}
}

// welcomes has brokers get new replicas that were to leave and stay, or are back: Kafka keeps the setting.
func welcomes(staying []int32, f found) memberStep {
	for _, id := range staying {
		if slices.Contains(f.cordoned, id) {
			return work(fmt.Sprintf("broker %d stays, and gets new replicas again", id),
				func(s *session) error { return s.uncordon(id) })
		}
	}
	return memberStep{}
}

// releases removes the topic of the canary where brokers that leave, or that are gone, have replicas of it: its
// replication factor is for the brokers that there were.
func releases(known, leaving []int32, f found) memberStep {
	for _, p := range f.partitions {
		if p.Topic == canaryTopic && slices.ContainsFunc(p.Replicas, func(id int32) bool {
			return slices.Contains(leaving, id) || slices.Contains(f.fenced, id) && !slices.Contains(known, id)
		}) {
			return work("topic "+canaryTopic+" is removed, since brokers leave that hold it",
				(*session).removeCanary)
		}
	}
	return memberStep{}
}

// drains empties brokers that leave. They get no new replicas meanwhile, nor when they are empty and about to go, where
// Kafka can do that.
func drains(sh shape, leaving []int32, f found) memberStep {
	replicas := heldBy(leaving, f)
	switch {
	case replicas == 0 && len(f.open) > 0:
		return work(fmt.Sprintf("brokers %s leave, and get no new replicas", numbers(f.open)),
			func(s *session) error { return s.cordon(f.open) })
	case replicas == 0:
		return memberStep{}
	// While a partition is moved it has the replicas of before and after.
	case f.problem != nil && slices.ContainsFunc(f.partitions, partition.Moving):
		return waitFor("brokers %s hold %d replicas, which move to others", numbers(leaving), replicas)
	case f.problem != nil:
		return memberStep{phase: membersRefused, reason: fmt.Sprintf("brokers %s hold %d replicas that fit on no other: %v",
			numbers(leaving), replicas, f.problem)}
	}
	return work(fmt.Sprintf("brokers %s hold %d replicas, which move to others", numbers(leaving), replicas),
		func(s *session) error {
			if err := s.cordon(f.open); err != nil {
				return err
			}
			_, err := s.stepTo(sh.emptied(leaving))
			return err
		})
}

// unthrottles takes the throttle off when all has moved, and also where the move was called off, or whoever asked for
// it is gone. It comes first: what else waits would leave replicas slow that only catch up.
func unthrottles(staying []int32, f found) memberStep {
	if moves := f.moves > 0 && f.problem == nil && serves(staying, f).phase == ""; moves || !f.throttled {
		return memberStep{}
	}
	return work("no replica moves any more, and the throttle is taken off", func(s *session) error {
		if moves, err := s.reassignments(); err != nil || len(moves) > 0 {
			return err
		}
		return s.unthrottle(f.partitions)
	})
}

// hears waits for brokers that do not say whether their throttle is on.
func hears(f found) memberStep {
	if f.throttled || len(f.silent) == 0 {
		return memberStep{}
	}
	return waitFor("brokers %s do not say whether their throttle is on", numbers(f.silent))
}

// heldBy counts the replicas that brokers have and get.
func heldBy(ids []int32, f found) (replicas int) {
	for _, id := range ids {
		held := placement.Held(f.partitions, id)
		replicas += held.Replicas + held.Arriving
	}
	return replicas
}

// emptied is the goal that brokers hold nothing.
func (sh shape) emptied(ids []int32) goal {
	return goal{Leaving: ids, AtOnce: cmp.Or(sh.AtOnce, atOnce)}
}

// replaces has others hold what brokers that are gone are to have: nobody else would ever copy that. It holds up none
// that leaves, since what no other has is not there before such a broker comes back.
func replaces(sh shape, f found) memberStep {
	gone := sh.gone(f)
	if len(gone) == 0 || len(sh.Leaving) > 0 {
		return memberStep{}
	}
	leaderless := 0
	for _, p := range f.partitions {
		isThere := func(id int32) bool { return slices.Contains(gone, id) }
		leaderless += one(p.Leader < 0 && slices.ContainsFunc(p.Replicas, isThere))
	}
	reason := fmt.Sprintf("brokers %s are gone, and %d of their replicas have yet to be copied to others", numbers(gone),
		heldBy(gone, f))
	switch {
	case f.problem != nil:
		return waitFor("%s: %v", reason, f.problem)
	case f.moves > 0:
		return work(reason, func(s *session) error {
			_, err := s.stepTo(sh.emptied(gone))
			return err
		})
	case leaderless > 0:
		return waitFor("%s: %d partitions have no leader that could be copied from: add as many brokers again, or delete "+
			"the topics", reason, leaderless)
	}
	return waitFor("%s", reason)
}

// forgets unregisters brokers whose pods are gone.
func forgets(known []int32, f found) memberStep {
	for _, id := range f.fenced {
		if slices.Contains(known, id) || placement.Held(f.partitions, id).Replicas > 0 {
			continue
		}
		return work(fmt.Sprintf("broker %d, which is gone, is unregistered", id),
			func(s *session) error {
				_, err := unregister(s, []string{number(id)})
				return err
			})
	}
	return memberStep{}
}

// leaves takes the votes of controllers that go, one at a time, and none without which too few of the others would
// follow the leader: nothing could change then, the voters included.
func leaves(leaving []int32, q *quorum) memberStep {
	step := memberStep{}
	for _, voter := range q.voters {
		switch {
		case !slices.Contains(leaving, voter.node):
		case q.worksWithout(voter):
			return work(fmt.Sprintf("controller %d votes no more", voter.node),
				func(s *session) error { return s.dropVoter(voter) })
		default:
			step = waitFor("controller %d votes until most of the others follow the leader: see why they do not",
				voter.node)
		}
	}
	return step
}

func told(step memberStep) driver.Table {
	return tableOf([]string{"phase", "reason"}, step.phase, step.reason)
}

// stepOf reads the cluster and decides.
func (s *session) stepOf(text string) (memberStep, error) {
	sh, err := shapeOf(text)
	if err != nil {
		return memberStep{}, err
	}
	f, err := s.look(sh)
	if err != nil {
		return memberStep{}, err
	}
	return next(sh, f), nil
}

// planMembers says what stepMembers would do.
func planMembers(s *session, words []string) (driver.Table, error) {
	step, err := s.stepOf(words[0])
	if err != nil {
		return driver.Table{}, err
	}
	return told(step), nil
}

// stepMembers takes one step, and those that can follow at once: all controllers of a cluster that is being made become
// voters in one call. Whatever is done shows in the cluster, so that whoever dies in between goes on.
func stepMembers(s *session, words []string) (driver.Table, error) {
	for last := ""; ; {
		step, err := s.stepOf(words[0])
		switch {
		case err != nil:
			return driver.Table{}, err
		case step.do == nil || step.reason == last:
			return told(step), nil
		}
		if err := step.do(s); err != nil {
			return driver.Table{}, fmt.Errorf("%s: %w", step.reason, err)
		}
		if !step.goesOn {
			return told(step), nil
		}
		last = step.reason
	}
}
