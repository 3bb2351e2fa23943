// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/IBM/sarama"

	"github.com/zeroinfra/agents/internal/driver"
	"github.com/zeroinfra/agents/internal/driver/kafka/placement"
)

// everything reads all partitions, with what their topics ask for.
func (s *session) everything() ([]partition, error) {
	all, err := s.allPartitions()
	if err != nil {
		return nil, err
	}
	return all, s.addMinimums(all)
}

func describeCluster(s *session, _ []string) (driver.Table, error) {
	cluster, err := s.brokers()
	if err != nil {
		return driver.Table{}, err
	}
	quorum, err := s.quorum()
	if err != nil {
		return driver.Table{}, err
	}
	all, err := s.everything()
	if err != nil {
		return driver.Table{}, err
	}
	alive, err := s.alive()
	if err != nil {
		return driver.Table{}, err
	}
	offline, behind, below, moving := 0, 0, 0, 0
	for _, p := range all {
		offline += one(p.Leader < 0)
		behind += one(slices.ContainsFunc(p.Target(), func(id int32) bool { return !slices.Contains(p.ISR, id) }))
		below += one(len(p.ISR) < p.MinISR)
		moving += one(p.Moving())
	}
	return tableOf([]string{"cluster", "controller", "epoch", "brokers", "alive", "partitions", "offline",
		"underReplicated", "underMinISR", "reassigning"},
		cluster.ClusterID, number(quorum.leader), number(quorum.epoch), number(len(cluster.Brokers)), number(len(alive)),
		number(len(all)), number(offline), number(behind), number(below), number(moving)), nil
}

// codeMismatchedEndpoint is what a controller says that is asked for brokers; the library has no name for it.
const codeMismatchedEndpoint sarama.KError = 114

// quorumPatience is how long a broker waits for the controllers before it tells its status without them.
const quorumPatience = 2 * time.Second

// describeStatus tells what the node knows of the brokers, which log directories it has where it is one, of which
// release line metadata.version is, and then what the controllers say of the quorum, and in which directory each of its
// members keeps the metadata. The columns brokers and alive are empty where the address is that of a controller that is
// no broker. Those of the quorum, and the state of the throttle, are missing where a broker reaches no controller in
// time: it serves its clients also while no controller answers.
func describeStatus(s *session, node []string) (driver.Table, error) {
	columns, values := []string{"brokers", "alive"}, []string{"", ""}
	cluster, err := s.brokers()
	isBroker := err == nil
	if !isBroker && !isNoBroker(err) {
		return driver.Table{}, err
	}
	patience := s.dialer.left()
	if isBroker {
		patience = min(quorumPatience, patience/2)
		values = []string{number(len(cluster.Brokers)), numbers(notFenced(cluster))}
		if all, offline, err := s.ownLogDirs(); err == nil {
			columns = append(columns, "logDirs", "offlineDirs")
			values = append(values, strings.Join(all, " "), strings.Join(offline, " "))
		}
		if release, err := s.metadataRelease(); err == nil && release != "" {
			columns, values = append(columns, "metadata"), append(values, release)
		}
	}
	quorum, err := s.quorumWithin(patience)
	switch {
	case err == nil:
		columns = append(columns, "controller", "epoch", "highWatermark", "voters", "observers", "directories")
		values = append(values, number(quorum.leader), number(quorum.epoch), number(quorum.highWatermark),
			numbers(nodesOf(quorum.voters)), numbers(nodesOf(quorum.observers)),
			quorum.directories())
		if isBroker && len(node) > 0 {
			if state, err := s.ownThrottle(node[0]); err == nil {
				columns, values = append(columns, "throttle"), append(values, state)
			}
		}
	case !isBroker:
		return driver.Table{}, err
	}
	return tableOf(columns, values...), nil
}

// isNoBroker says whether an answer is that of a controller that is no broker.
func isNoBroker(err error) bool {
	refused := answer{}
	return errors.As(err, &refused) && refused.code == codeMismatchedEndpoint
}

func one(is bool) int {
	if is {
		return 1
	}
	return 0
}

func listBrokers(s *session, _ []string) (driver.Table, error) {
	cluster, err := s.brokers()
	if err != nil {
		return driver.Table{}, err
	}
	all, err := s.allPartitions()
	if err != nil {
		return driver.Table{}, err
	}
	table := driver.Table{Columns: []string{"broker", "host", "port", "rack", "state", "replicas", "leaders"}}
	for _, broker := range cluster.Brokers {
		state, rack := "alive", ""
		if broker.IsFenced {
			state = "fenced"
		}
		if broker.Rack != nil {
			rack = *broker.Rack
		}
		held := placement.Held(all, broker.BrokerID)
		table.Rows = append(table.Rows, row(number(broker.BrokerID), broker.Host, number(broker.Port), rack, state,
			number(held.Replicas), number(held.Leaders)))
	}
	return table, nil
}

func countHeld(s *session, words []string) (driver.Table, error) {
	id, err := brokerOf(words[0])
	if err != nil {
		return driver.Table{}, err
	}
	all, err := s.allPartitions()
	if err != nil {
		return driver.Table{}, err
	}
	held := placement.Held(all, id)
	return tableOf([]string{"replicas", "leaders", "arriving", "departing"},
		number(held.Replicas), number(held.Leaders), number(held.Arriving), number(held.Departing)), nil
}

// judge says what becomes of partitions while a broker is down.
func (s *session) judge(broker string) (int32, placement.Verdict, error) {
	id, err := brokerOf(broker)
	if err != nil {
		return 0, placement.Verdict{}, err
	}
	all, err := s.everything()
	return id, placement.Restart(withoutCanary(all), id), err
}

func mayRestart(s *session, words []string) (driver.Table, error) {
	id, verdict, err := s.judge(words[0])
	if err != nil {
		return driver.Table{}, err
	}
	may, reason := yes, blocked(verdict, id)
	if reason != "" {
		may = no
	}
	return tableOf([]string{"may", "reason", "blocking", "alone", "unsatisfiable"},
		may, reason, number(len(verdict.Blocking)), shortened(verdict.Alone), shortened(verdict.Unsatisfiable)), nil
}

// isExpendable is for before a broker loses its volumes: it may take long until they are filled again.
func isExpendable(s *session, words []string) (driver.Table, error) {
	id, verdict, err := s.judge(words[0])
	if err != nil {
		return driver.Table{}, err
	}
	switch reason := blocked(verdict, id); {
	case reason != "":
		return driver.Table{}, errors.New(reason)
	case len(verdict.Alone) > 0:
		return driver.Table{}, fmt.Errorf("broker %d has the only replica of %s: give them more replicas", id,
			shortened(verdict.Alone))
	}
	return tableOf([]string{"broker", "state"}, number(id), "expendable"), nil
}

// electPreferred is for after a restart: the broker that was down leads nothing.
func electPreferred(s *session, _ []string) (driver.Table, error) {
	all, err := s.allPartitions()
	if err != nil {
		return driver.Table{}, err
	}
	wanted := map[string][]int32{}
	for _, p := range all {
		// One whose preferred replica is not in sync cannot have it as the leader yet.
		if preferred := p.Replicas[0]; p.Leader != preferred && slices.Contains(p.ISR, preferred) {
			wanted[p.Topic] = append(wanted[p.Topic], p.ID)
		}
	}
	elected, problems, err := s.elect(wanted)
	if err != nil {
		return driver.Table{}, err
	}
	return tableOf([]string{"elected", "problems", "reason"},
		number(elected), number(len(problems)), shortened(problems)), nil
}

// elect has the preferred replicas of partitions, by topic, lead them. It says how many were elected, and what was in
// the way of others.
func (s *session) elect(wanted map[string][]int32) (elected int, problems []string, err error) {
	if len(wanted) == 0 {
		return 0, nil, nil
	}
	lead, err := s.lead()
	if err != nil {
		return 0, nil, err
	}
	response, err := lead.ElectLeaders(&sarama.ElectLeadersRequest{Version: 2, Type: sarama.PreferredElection,
		TopicPartitions: wanted, TimeoutMs: s.milliseconds()})
	if err != nil {
		return 0, nil, fmt.Errorf("cannot elect leaders: %w", err)
	}
	if response.ErrorCode != sarama.ErrNoError {
		return 0, nil, fmt.Errorf("cannot elect leaders: %w", answer{code: response.ErrorCode})
	}
	for topic, results := range response.ReplicaElectionResults {
		for id, result := range results {
			switch result.ErrorCode {
			case sarama.ErrNoError:
				elected++
			case sarama.ErrElectionNotNeeded:
			default:
				problems = append(problems, fmt.Sprintf("%s-%d: %v", topic, id, said(result.ErrorCode, result.ErrorMessage)))
			}
		}
	}
	slices.Sort(problems)
	return elected, problems, nil
}

// unregister refuses what would leave partitions with replicas that nobody has.
func unregister(s *session, words []string) (driver.Table, error) {
	id, err := brokerOf(words[0])
	if err != nil {
		return driver.Table{}, err
	}
	cluster, err := s.brokers()
	if err != nil {
		return driver.Table{}, err
	}
	done := tableOf([]string{"broker", "state"}, number(id), "unregistered")
	index := slices.IndexFunc(cluster.Brokers, func(b *sarama.DescribeClusterBroker) bool { return b.BrokerID == id })
	switch {
	case index < 0:
		return done, nil
	case !cluster.Brokers[index].IsFenced:
		return driver.Table{}, fmt.Errorf("broker %d is alive, and would register again: stop it first", id)
	}
	all, err := s.allPartitions()
	if err != nil {
		return driver.Table{}, err
	}
	if held := placement.Held(all, id); held.Replicas > 0 {
		return driver.Table{}, fmt.Errorf("broker %d holds %d replicas: reassign them first", id, held.Replicas)
	}
	d, err := s.call(keyUnregisterBroker, 0, encoder{}.int32(id).tags())
	if err != nil {
		return driver.Table{}, err
	}
	return done, readWhole(d, fmt.Sprintf("cannot unregister broker %d", id))
}

// readWhole reads the beginning of an answer, which says whether the request as a whole was done; some say no more.
func readWhole(d *decoder, problem string) error {
	d.int32() // How long the broker holds the client back.
	if whole := said(sarama.KError(d.int16()), d.text()); d.err == nil && whole.code != sarama.ErrNoError {
		return fmt.Errorf("%s: %w", problem, whole)
	}
	return d.err
}
