// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/IBM/sarama"

	"github.com/zeroinfra/agents/internal/driver/kafka/placement"
)

// Settings of a broker that bound how many bytes a second it copies. Brokers have them by themselves while replicas
// move, and none otherwise: that a broker has one says that the throttle is on, whoever put it there and died.
const (
	leaderRate   = "leader.replication.throttled.rate"
	followerRate = "follower.replication.throttled.rate"
	// volumesRate bounds what a broker copies between its volumes.
	volumesRate = "replica.alter.log.dirs.io.max.bytes.per.second"
)

// throttleRates are those settings.
var throttleRates = []string{leaderRate, followerRate, volumesRate}

// everyReplica of a topic is throttled, as long as it is not in sync.
const everyReplica = "*"

// States of the throttle of a broker; empty where it is off.
const (
	throttleMoving = "moving"
	// throttleIdle: nothing moves any more, and the throttle has to be taken off.
	throttleIdle = "idle"
)

// bounds are how many bytes a second each broker may copy, by setting. What is not in it is not bounded.
type bounds map[string]string

// ratesOf are those that a goal asks for, 0 for no bound, and for nil those that all brokers of the cluster have by
// default: the parameters of these names. A cluster that others look after is left without: they would have to take the
// throttle off.
func (s *session) ratesOf(throttle *int64) (bounds, error) {
	if s.way.elsewhere {
		return nil, nil
	}
	if throttle != nil && *throttle > 0 {
		rate := number(*throttle)
		return bounds{leaderRate: rate, followerRate: rate, volumesRate: rate}, nil
	}
	all, err := s.brokerConfig("")
	if err != nil {
		return nil, err
	}
	found := bounds{}
	for _, name := range throttleRates {
		if is := all[name]; is.source == dynamicDefault {
			found[name] = is.value
		}
	}
	if throttle == nil {
		return found, nil
	}
	// Topics say what is throttled between brokers. Between volumes all is, by the default where a broker has no rate.
	if _, bounded := found[volumesRate]; bounded {
		return bounds{volumesRate: number(int64(math.MaxInt64))}, nil
	}
	return nil, nil
}

// only are the rates of some settings.
func (b bounds) only(names ...string) map[string]*string {
	some := map[string]*string{}
	for _, name := range names {
		if rate, bounded := b[name]; bounded {
			some[name] = &rate
		}
	}
	return some
}

// throttle bounds what brokers copy for moves that are about to begin, and, of all partitions, for those that have
// begun: somebody else may have taken the throttle off before.
func (s *session) throttle(all []partition, begin []placement.Move, throttle *int64) error {
	topics := map[string]bool{}
	for _, p := range all {
		if len(p.Adding) > 0 {
			topics[p.Topic] = true
		}
	}
	for _, move := range begin {
		if len(move.Added) > 0 {
			topics[move.Topic] = true
		}
	}
	if len(topics) == 0 {
		return nil
	}
	asked, err := s.ratesOf(throttle)
	between := asked.only(leaderRate, followerRate)
	if err != nil || len(between) == 0 {
		return err
	}
	// The rate first: a replica is throttled by what its broker has then.
	if err := s.setRates(between); err != nil {
		return err
	}
	return s.setThrottled(slices.Sorted(maps.Keys(topics)), new(everyReplica))
}

// throttleVolumes bounds what each broker copies between its volumes.
func (s *session) throttleVolumes(throttle *int64) error {
	asked, err := s.ratesOf(throttle)
	if err != nil {
		return err
	}
	return s.setRates(asked.only(volumesRate))
}

// unthrottle takes throttles away where there are some: the rates after the topics, so that who dies in between is seen
// to, and then those of topics that came or were throttled meanwhile, which nobody would look for any more.
func (s *session) unthrottle(all []partition) error {
	if err := s.unthrottleTopics(all); err != nil {
		return err
	}
	if err := s.setRates(map[string]*string{leaderRate: nil, followerRate: nil, volumesRate: nil}); err != nil {
		return err
	}
	s.renew()
	all, err := s.allPartitions()
	if err != nil || slices.ContainsFunc(all, partition.Moving) {
		return err
	}
	return s.unthrottleTopics(all)
}

// unthrottleTopics has no replica of these partitions be throttled.
func (s *session) unthrottleTopics(all []partition) error {
	topics := map[string]bool{}
	for _, p := range all {
		topics[p.Topic] = true
	}
	var throttled []string
	err := s.eachConfig(slices.Sorted(maps.Keys(topics)), []string{throttledLeaders, throttledFollowers},
		func(topic string, entries []*sarama.ConfigEntry) error {
			if slices.ContainsFunc(entries, func(e *sarama.ConfigEntry) bool { return e.Source == sarama.SourceTopic }) {
				throttled = append(throttled, topic)
			}
			return nil
		})
	if err != nil {
		return err
	}
	return s.setThrottled(throttled, nil)
}

// setThrottled sets which replicas of topics are throttled; nil for none.
func (s *session) setThrottled(topics []string, replicas *string) error {
	request := &sarama.IncrementalAlterConfigsRequest{Version: 1}
	for _, topic := range topics {
		request.Resources = append(request.Resources,
			&sarama.IncrementalAlterConfigsResource{Type: sarama.TopicResource, Name: topic,
				ConfigEntries: entriesOf(map[string]*string{throttledLeaders: replicas, throttledFollowers: replicas})})
	}
	if len(request.Resources) == 0 {
		return nil
	}
	return alterConfigs(s.local, request)
}

// setRates gives brokers that are alive rates of their own, as far as they have others; nil takes one off. They have
// them when it returns: who looks next has to see that the throttle is on.
func (s *session) setRates(wanted map[string]*string) error {
	if len(wanted) == 0 {
		return nil
	}
	ids, err := s.alive()
	if err != nil {
		return err
	}
	changed := slices.Clone(ids)
	for _, id := range ids {
		changes, err := s.otherRates(id, wanted)
		if err != nil {
			return err
		}
		if err := s.setConfig(number(id), changes); err != nil {
			return err
		}
		if len(changes) == 0 {
			changed = slices.DeleteFunc(changed, func(other int32) bool { return other == id })
		}
	}
	return settle(s.ctx, func() (string, error) {
		for _, id := range changed {
			if others, err := s.otherRates(id, wanted); err != nil || len(others) > 0 {
				return fmt.Sprintf("the rates of broker %d", id), err
			}
		}
		return "", nil
	})
}

// otherRates are those of some that a broker has to be given, since it has others.
func (s *session) otherRates(id int32, wanted map[string]*string) (map[string]*string, error) {
	w, err := s.renewTo(id)
	if err != nil {
		return nil, err
	}
	has, err := settingsOf(w.broker, number(id), slices.Collect(maps.Keys(wanted))...)
	if err != nil {
		return nil, err
	}
	others := map[string]*string{}
	for name, rate := range wanted {
		is := has[name]
		if own := is.source == dynamicBroker; own != (rate != nil) || rate != nil && is.value != *rate {
			others[name] = rate
		}
	}
	return others, nil
}

// isThrottled says whether a broker has a rate of its own.
func isThrottled(has map[string]setting) bool {
	return slices.ContainsFunc(throttleRates, func(name string) bool { return has[name].source == dynamicBroker })
}

// idleThrottle says whether nothing moves any more for which brokers have rates of their own.
func (s *session) idleThrottle(all []partition, throttled []int32) (bool, error) {
	if len(throttled) == 0 || slices.ContainsFunc(all, partition.Moving) {
		return false, nil
	}
	volumes, _, err := s.volumes()
	moves := slices.ContainsFunc(volumes, func(v volumesOf) bool { return len(v.moving()) > 0 })
	return err == nil && !moves, err
}

// ownThrottle is the state of the throttle of the broker of the pod. Whoever looks after the members is told by it that
// there is something to take off, also where those who moved replicas are gone.
func (s *session) ownThrottle(node string) (string, error) {
	id, err := brokerOf(node)
	if err != nil {
		return "", err
	}
	has, err := settingsOf(s.local, node, throttleRates...)
	if err != nil || !isThrottled(has) {
		return "", err
	}
	moves, err := s.reassignments()
	if err != nil || len(moves) > 0 {
		return throttleMoving, err
	}
	if has[volumesRate].source == dynamicBroker {
		found, err := logDirs(s.local)
		if err != nil || len(storedIn(id, found).moving()) > 0 {
			return throttleMoving, err
		}
	}
	return throttleIdle, nil
}
