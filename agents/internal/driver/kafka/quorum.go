// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/IBM/sarama"

	"github.com/zeroinfra/agents/internal/driver"
)

// metadataTopic is the topic of the controllers.
const metadataTopic = "__cluster_metadata"

// quorum of the controllers.
type quorum struct {
	leader, epoch     int32
	highWatermark     int64
	voters, observers []quorumMember
}

// quorumMember is a controller, or a broker that follows.
type quorumMember struct {
	node      int32
	directory [16]byte
	endOffset int64
	// fetched is when it last asked the leader, and caughtUp when it last had all; -1 where the leader does not know.
	fetched, caughtUp int64
}

// quorum asks the leader: a broker hands the question on, and a controller that is not the leader says only that.
func (s *session) quorum() (*quorum, error) { return s.quorumWithin(s.dialer.left()) }

// quorumWithin is quorum with a time of its own for each question. After one that took longer the session is of no use.
func (s *session) quorumWithin(limit time.Duration) (*quorum, error) {
	apart, err := s.withZooKeeper()
	switch {
	case err != nil:
		return nil, err
	case apart:
		return s.controllerAlone()
	}
	q, err := s.askQuorum(limit)
	if refused := (answer{}); !errors.As(err, &refused) || refused.code != sarama.ErrNotLeaderForPartition {
		return q, err
	}
	if err := s.turnToLeader(); err != nil {
		return nil, err
	}
	return s.askQuorum(limit)
}

func (s *session) askQuorum(limit time.Duration) (*quorum, error) {
	body := encoder{}.length(1).text(metadataTopic).length(1).int32(0).tags().tags().tags()
	d, err := s.callWithin(limit, keyDescribeQuorum, describeQuorumVersion, body)
	if err != nil {
		return nil, err
	}
	return readQuorum(d)
}

// controllers are all that the cluster knows; only a controller can be asked.
func (s *session) controllers() (*sarama.DescribeClusterResponse, error) {
	response, err := s.local.DescribeCluster(&sarama.DescribeClusterRequest{Version: 2,
		EndpointType: sarama.DescribeClusterEndpointTypeControllers})
	if err != nil {
		return nil, fmt.Errorf("cannot describe the controllers: %w", err)
	}
	if response.Err != sarama.ErrNoError {
		return nil, fmt.Errorf("cannot describe the controllers: %w", said(response.Err, response.ErrorMessage))
	}
	return response, nil
}

// clusterID is the identifier of the cluster, as a broker tells it, or a controller that is none.
func (s *session) clusterID() (string, error) {
	cluster, err := s.brokers()
	if isNoBroker(err) {
		cluster, err = s.controllers()
	}
	if err != nil {
		return "", err
	}
	return cluster.ClusterID, nil
}

// turnToLeader has later calls go to the controller that leads.
func (s *session) turnToLeader() error {
	response, err := s.controllers()
	if err != nil {
		return err
	}
	for _, controller := range response.Brokers {
		if controller.BrokerID == response.ControllerID {
			return s.redirect(net.JoinHostPort(controller.Host, strconv.Itoa(int(controller.Port))))
		}
	}
	return errors.New("no controller leads at the moment: ask again")
}

func readQuorum(d *decoder) (*quorum, error) {
	if whole := said(sarama.KError(d.int16()), d.text()); whole.code != sarama.ErrNoError {
		return nil, fmt.Errorf("cannot describe the quorum: %w", whole)
	}
	var q *quorum
	var refused error
	d.each(func() {
		d.text()
		d.each(func() {
			d.int32()
			if one := said(sarama.KError(d.int16()), d.text()); one.code != sarama.ErrNoError {
				refused = fmt.Errorf("cannot describe the quorum: %w", one)
			}
			q = &quorum{leader: d.int32(), epoch: d.int32(), highWatermark: d.int64(), voters: membersOf(d),
				observers: membersOf(d)}
			d.tags()
		})
		d.tags()
	})
	switch {
	case refused != nil:
		return nil, refused
	case d.err != nil:
		return nil, d.err
	case q == nil:
		return nil, errAnswer
	}
	return q, nil
}

func membersOf(d *decoder) (all []quorumMember) {
	d.each(func() {
		all = append(all, quorumMember{node: d.int32(), directory: d.uuid(), endOffset: d.int64(), fetched: d.int64(),
			caughtUp: d.int64()})
		d.tags()
	})
	return all
}

// nodesOf are the numbers of members, in order.
func nodesOf(members []quorumMember) (ids []int32) {
	for _, member := range members {
		ids = append(ids, member.node)
	}
	slices.Sort(ids)
	return ids
}

// directories are the members, each with a colon and the identifier of the directory that it keeps the metadata in: a
// controller that has lost its volume comes back with another one (KIP-853). Of a directory that is gone the leader
// tells for minutes: the one that asked last is that of the member. Those of a static quorum have none.
func (q *quorum) directories() string {
	all := slices.Concat(q.voters, q.observers)
	var directories []string
	for _, id := range slices.Compact(nodesOf(all)) {
		if last, _ := latest(all, id); last.directory != [16]byte{} {
			directories = append(directories, number(id)+":"+textOf(last.directory))
		}
	}
	return strings.Join(directories, " ")
}

// end is the largest offset of a voter: that of the leader.
func (q *quorum) end() int64 {
	end := q.highWatermark
	for _, member := range q.voters {
		if member.node == q.leader {
			end = max(end, member.endOffset)
		}
	}
	return end
}

// followTime is how long ago a voter that follows has asked the leader at most, in milliseconds. It asks it twice a
// second.
const followTime = 10_000

// worksWithout says whether most of the other voters follow the leader, so that these can go on without one. Times are
// those of the leader, which has just asked itself.
func (q *quorum) worksWithout(leaving quorumMember) bool {
	now := int64(0)
	for _, member := range slices.Concat(q.voters, q.observers) {
		now = max(now, member.fetched)
	}
	others, follow := 0, 0
	for _, voter := range q.voters {
		if voter.node == leaving.node && voter.directory == leaving.directory {
			continue
		}
		others++
		follow += one(voter.node == q.leader || voter.fetched >= 0 && voter.fetched >= now-followTime)
	}
	return 2*follow > others
}

func listQuorum(s *session, _ []string) (driver.Table, error) {
	q, err := s.quorum()
	if err != nil {
		return driver.Table{}, err
	}
	table := driver.Table{Columns: []string{"node", "directory", "role", "leader", "epoch", "highWatermark", "endOffset",
		"lag", "caughtUpMillisAgo"}}
	now := time.Now().UnixMilli()
	add := func(role string, members []quorumMember) {
		for _, member := range members {
			leads, ago := no, ""
			if member.node == q.leader && role == "voter" {
				leads, ago = yes, "0"
			} else if member.caughtUp >= 0 {
				ago = number(max(now-member.caughtUp, 0))
			}
			table.Rows = append(table.Rows,
				row(number(member.node), textOf(member.directory), role, leads, number(q.epoch), number(q.highWatermark),
					number(member.endOffset), number(max(q.end()-member.endOffset, 0)), ago))
		}
	}
	add("voter", q.voters)
	add("observer", q.observers)
	return table, nil
}

// voterOf reads a node and its directory, and asks which cluster they are of.
func (s *session) voterOf(words []string) (cluster string, node int32, directory [16]byte, err error) {
	if node, err = brokerOf(words[0]); err != nil {
		return "", 0, directory, err
	}
	if directory, err = parseID(words[1]); err != nil {
		return "", 0, directory, err
	}
	cluster, err = s.clusterID()
	return cluster, node, directory, err
}

// addVoter makes an observer with this directory a voter. It must have caught up: the leader waits for it, and says so
// if it does not.
func addVoter(s *session, words []string) (driver.Table, error) {
	cluster, node, directory, err := s.voterOf(words)
	if err != nil {
		return driver.Table{}, err
	}
	listeners := strings.Split(words[2], ",")
	body := encoder{}.text(cluster).int32(s.milliseconds()).int32(node).uuid(directory).length(len(listeners))
	for _, word := range listeners {
		name, address, ok := strings.Cut(word, "://")
		host, port, err := net.SplitHostPort(address)
		n, wrong := strconv.ParseUint(port, 10, 16)
		if !ok || err != nil || wrong != nil {
			return driver.Table{}, fmt.Errorf("%q is no listener: it must be NAME://host:port", word)
		}
		body = body.text(name).text(host).int16(int16(uint16(n))).tags()
	}
	return s.changeVoter(keyAddRaftVoter, body.tags(), node, directory)
}

// removeVoter leaves the node an observer until it is stopped.
func removeVoter(s *session, words []string) (driver.Table, error) {
	cluster, node, directory, err := s.voterOf(words)
	if err != nil {
		return driver.Table{}, err
	}
	return s.changeVoter(keyRemoveRaftVoter, encoder{}.text(cluster).int32(node).uuid(directory).tags(), node,
		directory)
}

// Codes of the quorum that the library has no names for.
const (
	codeDuplicateVoter sarama.KError = 126
	codeVoterNotFound  sarama.KError = 127
)

// changeVoter asks for a change, and tells the voters that there are then. One that was made before is no problem.
func (s *session) changeVoter(key int16, body encoder, node int32, directory [16]byte) (driver.Table, error) {
	d, err := s.call(key, 0, body)
	if err != nil {
		return driver.Table{}, err
	}
	d.int32() // How long the broker holds the client back.
	whole := said(sarama.KError(d.int16()), d.text())
	if d.err != nil {
		return driver.Table{}, d.err
	}
	q, err := s.quorum()
	if err != nil {
		return driver.Table{}, err
	}
	is := false
	for _, member := range q.voters {
		is = is || member.node == node && member.directory == directory
	}
	made := whole.code == codeDuplicateVoter && key == keyAddRaftVoter && is || whole.code == codeVoterNotFound &&
		key == keyRemoveRaftVoter && !is
	if whole.code != sarama.ErrNoError && !made {
		return driver.Table{}, fmt.Errorf("cannot change the voters: %w", whole)
	}
	table := driver.Table{Columns: []string{"node", "directory"}}
	for _, member := range q.voters {
		table.Rows = append(table.Rows, row(number(member.node), textOf(member.directory)))
	}
	return table, nil
}
