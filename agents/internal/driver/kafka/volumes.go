// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/IBM/sarama"

	"github.com/zeroinfra/agents/internal/driver/kafka/placement"
)

// emptied names a log directory that is to hold nothing.
type emptied struct {
	// Directory is its path; empty for none.
	Directory string `json:"directory"`
	// Broker is the number of the broker that has it, as a text; empty for all that have one of that path.
	Broker string `json:"broker"`
}

func (e emptied) is(broker int32, path string) bool {
	return e.Directory == path && (e.Broker == "" || e.Broker == number(broker))
}

// volumesOf is what the log directories of a broker hold.
type volumesOf struct {
	broker      int32
	directories []placement.Directory
	replicas    []placement.Stored
}

// volumes reads the log directories of the brokers that are alive, and says which ones are not. A broker that has one
// alone is left out, and where all have one alone it does not matter who is alive.
func (s *session) volumes() (all []volumesOf, down []int32, err error) {
	cluster, err := s.brokers()
	if err != nil {
		return nil, nil, err
	}
	for _, broker := range cluster.Brokers {
		id := broker.BrokerID
		if broker.IsFenced {
			down = append(down, id)
			continue
		}
		found, err := s.logDirsOf(id)
		if err != nil {
			return nil, nil, fmt.Errorf("cannot read the log directories of broker %d: %w", id, err)
		}
		if len(found) > 1 {
			all = append(all, storedIn(id, found))
		}
	}
	if len(all) == 0 && len(down) < len(cluster.Brokers) {
		down = nil
	}
	return all, down, nil
}

func storedIn(broker int32, found []sarama.DescribeLogDirsResponseDirMetadata) volumesOf {
	v := volumesOf{broker: broker}
	futures := map[place]string{}
	for _, folder := range found {
		directory := placement.Directory{Path: folder.Path, Size: folder.TotalBytes, Free: folder.UsableBytes}
		if folder.ErrorCode != sarama.ErrNoError {
			directory.State = placement.Offline
		}
		v.directories = append(v.directories, directory)
		for _, topic := range folder.Topics {
			for _, p := range topic.Partitions {
				if p.IsTemporary {
					futures[place{topic.Topic, p.PartitionID}] = folder.Path
					continue
				}
				v.replicas = append(v.replicas, placement.Stored{Topic: topic.Topic, Partition: p.PartitionID,
					Directory: folder.Path, Bytes: p.Size})
			}
		}
	}
	for i, replica := range v.replicas {
		v.replicas[i].Future = futures[place{replica.Topic, replica.Partition}]
	}
	return v
}

// moving are the replicas that are on their way to another directory, as moves that end that.
func (v volumesOf) moving() (back []placement.DirectoryMove) {
	for _, replica := range v.replicas {
		if replica.Future != "" {
			back = append(back, placement.DirectoryMove{Topic: replica.Topic, Partition: replica.Partition,
				From: replica.Directory, To: replica.Directory, Bytes: replica.Bytes})
		}
	}
	return back
}

// volumeMoves are those of one broker.
type volumeMoves struct {
	broker int32
	moves  []placement.DirectoryMove
}

// volumesPlan is what is to be done between the volumes of brokers.
type volumesPlan struct {
	moves []volumeMoves
	// moving counts the replicas that are on their way already.
	moving int
	// down are brokers that nobody can ask.
	down []int32
}

// planVolumes decides which replicas change their directories.
func (s *session) planVolumes(g goal) (volumesPlan, error) {
	all, down, err := s.volumes()
	if err != nil {
		return volumesPlan{}, err
	}
	plan := volumesPlan{down: down}
	// One that is down may have it.
	known := g.Emptied.Directory == "" || len(down) > 0
	for _, v := range all {
		cordoned, err := s.cordonSetting(v.broker)
		if err != nil && !errors.Is(err, errNoCordon) {
			return volumesPlan{}, fmt.Errorf("cannot read which log directories of broker %d are cordoned: %w", v.broker, err)
		}
		for i := range v.directories {
			directory := &v.directories[i]
			switch {
			case directory.State == placement.Offline:
			case g.Emptied.is(v.broker, directory.Path):
				directory.State, known = placement.Emptied, true
			case cordoned.value == allLogDirs || slices.Contains(strings.Split(cordoned.value, ","), directory.Path):
				directory.State = placement.Cordoned
			}
		}
		moves, err := placement.PlanDirectories(v.directories, v.replicas)
		if err != nil {
			return volumesPlan{}, fmt.Errorf("broker %d: %w", v.broker, err)
		}
		plan.moving += len(v.moving())
		if len(moves) > 0 {
			plan.moves = append(plan.moves, volumeMoves{v.broker, moves})
		}
	}
	if !known {
		return volumesPlan{}, fmt.Errorf("no broker that is to empty it, is alive and has another log directory has %s "+
			"online: name one that LogDirs lists", g.Emptied.Directory)
	}
	return plan, nil
}

// inTurn takes so many moves at most, one of each broker after the other.
func inTurn(plans []volumeMoves, most int) (chosen []volumeMoves, begun, left int) {
	for _, plan := range plans {
		chosen = append(chosen, volumeMoves{broker: plan.broker})
		left += len(plan.moves)
	}
	for turn := 0; begun < most && begun < left; turn++ {
		for i, plan := range plans {
			if turn < len(plan.moves) && begun < most {
				chosen[i].moves = append(chosen[i].moves, plan.moves[turn])
				begun++
			}
		}
	}
	return chosen, begun, left - begun
}

// stepVolumes begins as many moves between the directories of brokers as may be under way. What is under way shows in
// the cluster: brokers that restart go on with it, and one that is down is waited for.
func (s *session) stepVolumes(g goal) (reassignment, error) {
	if g.Balance != placement.Even && g.Emptied.Directory == "" {
		return reassignment{phase: phaseDone}, nil
	}
	plan, err := s.planVolumes(g)
	if err != nil {
		return reassignment{}, err
	}
	chosen, begun, left := inTurn(plan.moves, max(g.AtOnce-plan.moving, 0))
	if begun+plan.moving > 0 {
		if err := s.throttleVolumes(g.Throttle); err != nil {
			return reassignment{}, err
		}
	}
	for _, plan := range chosen {
		if err := s.moveBetweenVolumes(plan); err != nil {
			return reassignment{}, err
		}
	}
	if plan.moving+begun+left+len(plan.down) == 0 {
		return reassignment{phase: phaseDone}, nil
	}
	return reassignment{phaseMoving, betweenVolumes, begun, plan.moving + begun, left, plan.down}, nil
}

// cancelVolumes has replicas stay in the directories where they are, and counts those that were on their way.
func (s *session) cancelVolumes() (int, error) {
	all, _, err := s.volumes()
	if err != nil {
		return 0, err
	}
	cancelled := 0
	for _, v := range all {
		back := v.moving()
		if err := s.moveBetweenVolumes(volumeMoves{v.broker, back}); err != nil {
			return 0, err
		}
		cancelled += len(back)
	}
	return cancelled, nil
}

// moveBetweenVolumes has a broker begin moves, each of which replaces the one of its replica that is under way.
func (s *session) moveBetweenVolumes(plan volumeMoves) error {
	if len(plan.moves) == 0 {
		return nil
	}
	w, err := s.wireTo(plan.broker)
	if err != nil {
		return err
	}
	d, err := w.call(s.timeout(), keyAlterReplicaLogDirs, alterReplicaLogDirsVersion, encodeVolumeMoves(plan.moves))
	if err != nil {
		return err
	}
	refused, err := readVolumeMoves(d)
	if err != nil {
		return err
	}
	for _, topic := range slices.Sorted(maps.Keys(refused)) {
		return fmt.Errorf("broker %d cannot move replicas of %q to another log directory: %w", plan.broker, topic,
			refused[topic])
	}
	return nil
}

// alterReplicaLogDirsVersion is the one with the flexible encoding.
const alterReplicaLogDirsVersion = 2

func encodeVolumeMoves(moves []placement.DirectoryMove) encoder {
	byDirectory := map[string]map[string][]int32{}
	for _, move := range moves {
		if byDirectory[move.To] == nil {
			byDirectory[move.To] = map[string][]int32{}
		}
		byDirectory[move.To][move.Topic] = append(byDirectory[move.To][move.Topic], move.Partition)
	}
	body := encoder{}.length(len(byDirectory))
	for _, path := range slices.Sorted(maps.Keys(byDirectory)) {
		topics := byDirectory[path]
		body = body.text(path).length(len(topics))
		for _, topic := range slices.Sorted(maps.Keys(topics)) {
			body = body.text(topic).length(len(topics[topic]))
			for _, partition := range topics[topic] {
				body = body.int32(partition)
			}
			body = body.tags()
		}
		body = body.tags()
	}
	return body.tags()
}

// goneMeanwhile are answers for a replica that has left the broker since somebody looked.
var goneMeanwhile = []sarama.KError{sarama.ErrNoError, sarama.ErrReplicaNotAvailable, sarama.ErrUnknownTopicOrPartition}

func readVolumeMoves(d *decoder) (map[string]answer, error) {
	// For how long the next request is held back.
	d.int32()
	refused := map[string]answer{}
	d.each(func() {
		topic := d.text()
		d.each(func() {
			d.int32()
			code := sarama.KError(d.int16())
			d.tags()
			if topic != nil && !slices.Contains(goneMeanwhile, code) {
				refused[*topic] = answer{code: code}
			}
		})
		d.tags()
	})
	return refused, d.err
}
