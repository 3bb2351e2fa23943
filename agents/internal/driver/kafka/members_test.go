// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"errors"
	"testing"

	"github.com/zeroinfra/agents/internal/driver/kafka/placement"
)

// member of a quorum, with a directory of one byte.
func member(node int32, directory byte, end, fetched int64) quorumMember {
	return quorumMember{node: node, directory: [16]byte{directory}, endOffset: end, fetched: fetched}
}

// stepCase is what a cluster is like, and what is to be done next.
type stepCase struct {
	shape         string
	found         found
	phase, reason string
}

// check fails where something else is to be done.
func (c stepCase) check(t *testing.T) {
	t.Helper()
	sh, err := shapeOf(c.shape)
	if err != nil {
		t.Fatal(err)
	}
	got := next(sh, c.found)
	if got.phase != c.phase || got.reason != c.reason || (got.do != nil) != (c.phase == membersWorking) {
		t.Errorf("got %s: %s", got.phase, got.reason)
	}
}

func TestNextStepOfMembers(t *testing.T) {
	const both = `"roles":["broker","controller"],"domain":"k.shop.svc","port":9093`
	three := `{"members":[["k-0","k-1","k-2"]],"leaving":[],` + both + `}`
	two := `{"members":[["k-0"]],"leaving":["k-1","k-2"],` + both + `}`
	brokers := `{"members":[["k-0","k-1"]],"leaving":["k-2"],"roles":["broker"]}`
	held := []partition{{Topic: "orders", Replicas: []int32{1, 2}, ISR: []int32{1, 2}}}
	voters := []quorumMember{member(0, 1, 900, 50), member(1, 2, 900, 50), member(2, 3, 900, 50)}
	all := []int32{0, 1, 2}
	for name, test := range map[string]stepCase{
		"all are members": {three, found{alive: all, quorum: &quorum{voters: voters}}, membersDone, "all pods are members"},
		"one has yet to come": {three, found{alive: all[:2], quorum: &quorum{voters: voters[:2]}}, membersWaiting,
			"controller 2 has yet to follow the quorum"},
		"one lacks records": {three, found{alive: all, quorum: &quorum{highWatermark: 900, voters: voters[:2],
			observers: []quorumMember{member(2, 3, 100, 50)}}}, membersWaiting, "controller 2 lacks 800 records"},
		"one has caught up": {three, found{alive: all, quorum: &quorum{highWatermark: 900, voters: voters[:2],
			observers: []quorumMember{member(2, 3, 880, 50)}}}, membersWorking, "controller 2 is added to the voters"},
		"one has lost its volume": {three, found{alive: all, quorum: &quorum{voters: voters,
			observers: []quorumMember{member(2, 9, 880, 60)}}}, membersWorking,
			"controller 2 has lost its volume: its former vote is removed"},
		// The leader shows who is gone for minutes.
		"what is left of a former directory": {three, found{alive: all, quorum: &quorum{voters: voters,
			observers: []quorumMember{member(2, 9, 880, 40)}}}, membersDone, "all pods are members"},
		"the leader is left alone": {three, found{alive: all, quorum: &quorum{leader: 2, voters: voters,
			observers: []quorumMember{member(2, 9, 880, 60)}}}, membersDone, "all pods are members"},
		"a broker is not alive": {three, found{alive: all[:2], quorum: &quorum{voters: voters}}, membersWaiting,
			"broker 2 is not alive in the cluster"},
		"what leaves is emptied first": {two, found{alive: all, quorum: &quorum{voters: voters}, partitions: held},
			membersWorking, "brokers 1 2 hold 2 replicas, which move to others"},
		"what leaves has no room": {two, found{alive: all, quorum: &quorum{voters: voters}, partitions: held,
			problem: errors.New("too few")}, membersRefused, "brokers 1 2 hold 2 replicas that fit on no other: too few"},
		"what leaves is being emptied": {two, found{alive: all, quorum: &quorum{voters: voters},
			partitions: []partition{{Topic: "orders", Replicas: []int32{0, 1}, Adding: []int32{0}, Removing: []int32{1}}},
			problem:    errors.New("too few")}, membersWaiting, "brokers 1 2 hold 1 replicas, which move to others"},
		"what leaves has the canary": {two, found{alive: all, quorum: &quorum{voters: voters},
			partitions: canaryPartitions(0, 1, 2)}, membersWorking,
			"topic __zeroinfra_canary is removed, since brokers leave that hold it"},
		"one that stays is cordoned": {three, found{alive: all, cordoned: []int32{1}, quorum: &quorum{voters: voters}},
			membersWorking, "broker 1 stays, and gets new replicas again"},
		"one that leaves is cordoned": {two, found{alive: all, cordoned: []int32{1}, quorum: &quorum{voters: voters[:1]}},
			membersDone, "all pods are members"},
		"moves have ended, and their throttle is on": {three, found{alive: all, throttled: true,
			quorum: &quorum{voters: voters}}, membersWorking, "no replica moves any more, and the throttle is taken off"},
		"one does not say whether its throttle is on": {three, found{alive: all, silent: []int32{2},
			quorum: &quorum{voters: voters}}, membersWaiting, "brokers 2 do not say whether their throttle is on"},
		"what leaves is empty, and the throttle is on": {two, found{alive: all, throttled: true,
			quorum: &quorum{voters: voters}}, membersWorking, "no replica moves any more, and the throttle is taken off"},
		"what leaves moves while the throttle of others is on": {two, found{alive: all, throttled: true,
			quorum: &quorum{voters: voters}, partitions: held, moves: 2}, membersWorking,
			"brokers 1 2 hold 2 replicas, which move to others"},
		"what leaves has no room, and the throttle is on": {two, found{alive: all, throttled: true,
			quorum: &quorum{voters: voters}, partitions: held, moves: 2, problem: errors.New("too few")}, membersWorking,
			"no replica moves any more, and the throttle is taken off"},
		"a broker is away, and the throttle is on": {three, found{alive: all[:2], throttled: true,
			quorum: &quorum{voters: voters}, partitions: held, moves: 2}, membersWorking,
			"no replica moves any more, and the throttle is taken off"},
		"a broker that says nothing holds up no vote": {two, found{alive: all, silent: []int32{0},
			quorum: &quorum{voters: voters}}, membersWorking, "controller 1 votes no more"},
		"then it votes no more": {two, found{alive: all, quorum: &quorum{voters: voters}}, membersWorking,
			"controller 1 votes no more"},
		"then it can go": {two, found{alive: all, quorum: &quorum{voters: voters[:1]}}, membersDone,
			"all pods are members"},
		"brokers do not vote": {brokers, found{alive: all, quorum: &quorum{}}, membersDone, "all pods are members"},
		"one that went is forgotten": {brokers, found{alive: all[:2], fenced: []int32{7}, quorum: &quorum{}},
			membersWorking, "broker 7, which is gone, is unregistered"},
		"one that went has the canary": {brokers, found{alive: all[:2], fenced: []int32{7}, quorum: &quorum{},
			partitions: canaryPartitions(0, 7)}, membersWorking,
			"topic __zeroinfra_canary is removed, since brokers leave that hold it"},
	} {
		t.Run(name, test.check)
	}
}

func TestNextStepOfMembersThatGo(t *testing.T) {
	const both = `"roles":["broker","controller"],"domain":"k.shop.svc","port":9093`
	two := `{"members":[["k-0"]],"leaving":["k-1","k-2"],` + both + `}`
	left := `{"members":[["k-0","k-1"]],"leaving":[],"roles":["broker"]}`
	const haveYet = "brokers 7 are gone, and 1 of their replicas have yet to be copied to others"
	all := []int32{0, 1, 2}
	for name, test := range map[string]stepCase{
		// Nobody else would ever copy what a broker was given while it went.
		"one that went was given something": {left,
			found{alive: all[:2], fenced: []int32{7}, quorum: &quorum{}, moves: 1,
				partitions: []partition{{Topic: "t", Replicas: []int32{0, 7}}}}, membersWorking, haveYet},
		"one that went, and that ZooKeeper has forgotten": {left, found{alive: all[:2], quorum: &quorum{}, moves: 1,
			partitions: []partition{{Topic: "t", Replicas: []int32{0, 7}}}}, membersWorking, haveYet},
		"what one that went was given is copied": {left, found{alive: all[:2], fenced: []int32{7}, quorum: &quorum{},
			partitions: []partition{{Topic: "t", Replicas: []int32{1, 0, 7}, Adding: []int32{1}, Removing: []int32{7}}}},
			membersWaiting, haveYet},
		"what one that went had alone": {left, found{alive: all[:2], fenced: []int32{7}, quorum: &quorum{},
			partitions: []partition{{Topic: "t", Leader: -1, Replicas: []int32{0, 7}, Adding: []int32{0},
				Removing: []int32{7}}}}, membersWaiting, haveYet +
			": 1 partitions have no leader that could be copied from: add as many brokers again, or delete the topics"},
		"what one that went had holds up none that leaves": {
			`{"members":[["k-0"]],"leaving":["k-1"],"roles":["broker"]}`, found{alive: all[:2], fenced: []int32{7},
				quorum: &quorum{}, partitions: []partition{{Topic: "t", Replicas: []int32{0, 7}}}}, membersDone,
			"all pods are members"},
		"one that leaves and is empty gets nothing any more": {
			`{"members":[["k-0"]],"leaving":["k-1","k-2"],"roles":["broker"]}`, found{alive: all, cordoned: []int32{},
				open: []int32{1, 2}, quorum: &quorum{}}, membersWorking, "brokers 1 2 leave, and get no new replicas"},
		"the vote of one that is down is taken first": {two, found{alive: all, quorum: &quorum{voters: []quorumMember{
			member(0, 1, 900, 50_000), member(1, 2, 900, 50_000), member(2, 3, 900, 30_000)}}}, membersWorking,
			"controller 2 votes no more"},
		"a vote that the others cannot do without": {`{"members":[["k-0","k-1","k-2"]],"leaving":["k-3","k-4"],` +
			`"roles":["controller"],"base":1000}`, found{quorum: &quorum{leader: 1003, voters: []quorumMember{
			member(1000, 1, 900, 30_000), member(1001, 2, 900, -1), member(1002, 3, 900, 49_000),
			member(1003, 4, 900, 50_000), member(1004, 5, 900, 49_500)}}}, membersWaiting,
			"controller 1004 votes until most of the others follow the leader: see why they do not"},
	} {
		t.Run(name, test.check)
	}
}

func TestShapesThatAreNone(t *testing.T) {
	for _, text := range []string{`{`, `{"roles":["voter"]}`, `{"members":[["k"]]}`, `{"other":1}`} {
		if sh, err := shapeOf(text); err == nil {
			t.Errorf("%s is taken for %+v", text, sh)
		}
	}
}

func TestNodesAreNumberedFromTheirBase(t *testing.T) {
	sh := shape{Base: controllerBase}
	if id, err := sh.node("kafka-controller-main-2"); err != nil || id != 1002 || !sh.isOf(id) || sh.isOf(2) {
		t.Errorf("got %d, %v", id, err)
	}
}

// A move that has just ended may show as replicas of before and after, and none under way.
func TestMovesOfPartitionsThatTwoLooksSawAlike(t *testing.T) {
	seen := []partition{{Topic: "orders", ID: 0, Replicas: []int32{1, 3}}, {Topic: "orders", ID: 1, Replicas: []int32{3}},
		{Topic: "orders", ID: 2, Replicas: []int32{3}}, {Topic: "bills", ID: 0, Replicas: []int32{3}}}
	now := []partition{{Topic: "orders", ID: 0, Replicas: []int32{1}}, {Topic: "orders", ID: 1, Replicas: []int32{3}},
		{Topic: "orders", ID: 2, Replicas: []int32{3}, Adding: []int32{2}}}
	moves := []placement.Move{{Topic: "orders", Partition: 0}, {Topic: "orders", Partition: 1},
		{Topic: "orders", Partition: 2}, {Topic: "bills", Partition: 0}}
	if same := sameMoves(moves, seen, now); len(same) != 1 || same[0].Topic != "orders" || same[0].Partition != 1 {
		t.Errorf("got %+v", same)
	}
}
