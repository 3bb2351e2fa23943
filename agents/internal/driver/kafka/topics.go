// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/IBM/sarama"

	"github.com/zeroinfra/agents/internal/driver"
)

// Parameters of a topic.
const (
	// parameterPartitions can grow only. Empty leaves it to the cluster, as with the replication factor.
	parameterPartitions = "partitions"
	parameterFactor     = "replication-factor"
	// parameterConfig is a JSON object of texts: the configuration that differs from the cluster's. What is not in it is
	// not set.
	parameterConfig = "config"
	// parameterAccess is a JSON object of lists by principal: see access.
	parameterAccess = "access"
	// parameterWhileConsumed: "yes" has a topic be deleted although members of consumer groups read it. It is no property
	// of the topic, and is never observed.
	parameterWhileConsumed = "delete-while-consumed"
)

const (
	yes = "yes"
	no  = "no"
)

// byDefault is how a request says that a number is the cluster's business.
const byDefault = -1

// internalPrefix begins the names of topics that Kafka keeps for itself.
const internalPrefix = "__"

// configsAtOnce is how many topics are asked about in one request: an answer has some 2 KiB for each.
const configsAtOnce = 500

// topics keeps topics with their configuration and access rules.
type topics struct{}

func (topics) check(_ *session, change driver.Change) error {
	if strings.HasPrefix(change.Name, internalPrefix) {
		return fmt.Errorf("the topic %q is Kafka's own, as all that begin with %s: take another name", change.Name,
			internalPrefix)
	}
	p := change.Parameters
	if while := p[parameterWhileConsumed]; while != "" && while != yes && while != no {
		return fmt.Errorf("parameter %q is %q: it must be yes or no", parameterWhileConsumed, while)
	}
	if change.Intent == driver.Delete {
		return nil
	}
	if err := known(p, parameterPartitions, parameterFactor, parameterConfig, parameterAccess,
		parameterWhileConsumed); err != nil {
		return err
	}
	for _, name := range []string{parameterPartitions, parameterFactor} {
		if _, err := numberOf(p, name); err != nil {
			return err
		}
	}
	if _, err := configOf(p[parameterConfig]); err != nil {
		return err
	}
	_, err := accessOf(p[parameterAccess])
	return err
}

// numberOf a parameter; byDefault where it is empty.
func numberOf(parameters map[string]string, name string) (int, error) {
	value := parameters[name]
	if value == "" {
		return byDefault, nil
	}
	n, err := strconv.ParseInt(value, 10, 16)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("parameter %q is %q: it must be a whole number from 1 to 32767, or empty for the cluster's "+
			"default", name, value)
	}
	return int(n), nil
}

// topic is one as the cluster has it.
type topic struct {
	partitions []partition
	config     map[string]string
	access     access
}

// factors are the smallest and the largest number of replicas of a partition.
func (t *topic) factors() (least, most int) {
	for i, p := range t.partitions {
		factor := len(p.Target())
		if i == 0 || factor < least {
			least = factor
		}
		most = max(most, factor)
	}
	return least, most
}

// factorText is the replication factor; with a dash, as in 1-3, where partitions differ.
func (t *topic) factorText() string {
	least, most := t.factors()
	if least == most {
		return strconv.Itoa(least)
	}
	return fmt.Sprintf("%d-%d", least, most)
}

// pending says how many partitions do not have all their replicas yet. One that only moves from broker to broker has as
// many as ever.
func (t *topic) pending() string {
	growing := 0
	for _, p := range t.partitions {
		growing += one(len(p.Adding) > len(p.Removing))
	}
	if growing == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d partitions are copied to more brokers", growing, len(t.partitions))
}

func (topics) observe(s *session, queries []driver.Query) ([]driver.State, error) {
	names := make([]string, len(queries))
	for i, query := range queries {
		names[i] = query.Name
	}
	found, err := s.topics(names)
	if err != nil {
		return nil, err
	}
	states := make([]driver.State, 0, len(found))
	for _, name := range slices.Sorted(maps.Keys(found)) {
		t := found[name]
		state := driver.State{Name: name, Password: driver.SamePassword, Parameters: map[string]string{
			parameterPartitions: strconv.Itoa(len(t.partitions)), parameterFactor: t.factorText(),
			parameterConfig: textOfConfig(t.config), parameterAccess: t.access.String(),
		}}
		state.Pending = t.pending()
		states = append(states, state)
	}
	return states, nil
}

// partitionsOf are the partitions of those of the topics that are there.
func (s *session) partitionsOf(names []string) (map[string]*topic, error) {
	partitions, err := s.partitions(names)
	if err != nil {
		return nil, err
	}
	found := map[string]*topic{}
	for _, p := range partitions {
		if found[p.Topic] == nil {
			found[p.Topic] = &topic{}
		}
		found[p.Topic].partitions = append(found[p.Topic].partitions, p)
	}
	return found, nil
}

// topics are those of the names that are there, with their settings.
func (s *session) topics(names []string) (map[string]*topic, error) {
	found, err := s.partitionsOf(names)
	if err != nil || len(found) == 0 {
		return found, err
	}
	there := slices.Sorted(maps.Keys(found))
	configs, err := s.topicConfigs(there)
	if err != nil {
		return nil, err
	}
	rules, err := s.topicAccess()
	if err != nil {
		return nil, err
	}
	for name, t := range found {
		t.config, t.access = configs[name], rules.of(name)
	}
	return found, nil
}

// change makes, changes and removes topics, each step for all of them in one request.
func (topics) change(s *session, changes []driver.Change, problems driver.Problems) error {
	names := make([]string, len(changes))
	for i, change := range changes {
		names[i] = change.Name
	}
	before, err := s.topics(names)
	if err != nil {
		return err
	}
	for _, step := range []func(*session, []driver.Change, map[string]*topic, driver.Problems) error{
		checkAccess, checkMinimum, checkRoom, deleteTopics, createTopics, checkGrowth, setConfigs, growTopics, refactorTopics,
		setAccess,
	} {
		if err := step(s, without(changes, problems), before, problems); err != nil {
			return err
		}
	}
	return settle(s.ctx, func() (string, error) { return unshown(s, without(changes, problems), before) })
}

// unshown is a topic that the broker of the pod does not show as it was changed; empty when there is none. Settings and
// access rules cost far more to read than partitions, and are read once these are there.
func unshown(s *session, changes []driver.Change, before map[string]*topic) (string, error) {
	names := make([]string, len(changes))
	for i, change := range changes {
		names[i] = change.Name
	}
	for _, look := range []struct {
		read  func([]string) (map[string]*topic, error)
		shows func(t *topic, change driver.Change) bool
	}{
		{s.partitionsOf, (*topic).showsPartitions},
		{s.topics, func(t *topic, change driver.Change) bool { return t.showsSettings(change, before[change.Name]) }},
	} {
		now, err := look.read(names)
		if err != nil {
			return "", err
		}
		for _, change := range changes {
			t := now[change.Name]
			if (t == nil) != (change.Intent == driver.Delete) || t != nil && !look.shows(t, change) {
				return change.Name, nil
			}
		}
	}
	return "", nil
}

// showsPartitions says whether a topic has as many partitions and replicas as asked.
func (t *topic) showsPartitions(change driver.Change) bool {
	// All have been checked.
	partitions, _ := numberOf(change.Parameters, parameterPartitions)
	factor, _ := numberOf(change.Parameters, parameterFactor)
	return (partitions == byDefault || len(t.partitions) >= partitions) &&
		(factor == byDefault || t.factorText() == strconv.Itoa(factor))
}

// showsSettings says whether configuration and access rules are as asked, as far as that can be compared.
func (t *topic) showsSettings(change driver.Change, was *topic) bool {
	// Both have been checked.
	config, _ := configOf(change.Parameters[parameterConfig])
	asked, _ := accessOf(change.Parameters[parameterAccess])
	return t.showsConfig(config, was) && t.access.String() == asked.String()
}

func deleteTopics(s *session, changes []driver.Change, before map[string]*topic, problems driver.Problems) error {
	var names []string
	var guarded []string
	for _, change := range changes {
		if change.Intent != driver.Delete || before[change.Name] == nil {
			continue
		}
		names = append(names, change.Name)
		if change.Parameters[parameterWhileConsumed] != yes {
			guarded = append(guarded, change.Name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	if err := s.guard(guarded, problems); err != nil {
		return err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return problems[name] != "" })
	if len(names) == 0 {
		return nil
	}
	lead, err := s.lead()
	if err != nil {
		return err
	}
	// Their rules go first: whoever dies in between finds a topic that is to be deleted, and begins anew. Rules of a topic
	// that is gone nobody would look for.
	gone := map[string]access{}
	for _, name := range names {
		gone[name] = before[name].access
	}
	former, err := s.replaceAccess(gone, map[string]access{}, problems)
	if err != nil {
		return err
	}
	response, err := lead.DeleteTopics(&sarama.DeleteTopicsRequest{Version: 5, Topics: names, Timeout: s.timeout()})
	if err != nil {
		return fmt.Errorf("cannot delete topics: %w", err)
	}
	var stay []string
	for name, code := range response.TopicErrorCodes {
		if code == sarama.ErrUnknownTopicOrPartition || code == sarama.ErrNoError {
			continue
		}
		stay = append(stay, name)
		err = errors.Join(err, note(problems, name, said(code, response.TopicErrorMessages[name])))
	}
	return errors.Join(err, s.restoreAccess(former, stay, problems))
}

func createTopics(s *session, changes []driver.Change, before map[string]*topic, problems driver.Problems) error {
	details := map[string]*sarama.TopicDetail{}
	for _, change := range changes {
		if change.Intent == driver.Delete || before[change.Name] != nil {
			continue
		}
		// All have been checked.
		partitions, _ := numberOf(change.Parameters, parameterPartitions)
		factor, _ := numberOf(change.Parameters, parameterFactor)
		config, _ := configOf(change.Parameters[parameterConfig])
		detail := &sarama.TopicDetail{NumPartitions: int32(partitions), ReplicationFactor: int16(factor),
			ConfigEntries: map[string]*string{}}
		for name, value := range config {
			detail.ConfigEntries[name] = &value
		}
		details[change.Name] = detail
	}
	if len(details) == 0 {
		return nil
	}
	lead, err := s.lead()
	if err != nil {
		return err
	}
	response, err := lead.CreateTopics(sarama.NewCreateTopicsRequest(sarama.MaxVersion, details, s.timeout(), false))
	if err != nil {
		return fmt.Errorf("cannot create topics: %w", err)
	}
	for name, problem := range response.TopicErrors {
		if problem.Err == sarama.ErrTopicAlreadyExists {
			// Somebody made it a moment ago: what it is like is seen when it is read back.
			continue
		}
		if err := note(problems, name, said(problem.Err, problem.ErrMsg)); err != nil {
			return err
		}
	}
	return nil
}

// checkGrowth refuses what cannot be done before anything else of a change is.
func checkGrowth(s *session, changes []driver.Change, before map[string]*topic, problems driver.Problems) error {
	for _, change := range changes {
		t := before[change.Name]
		if t == nil || change.Intent == driver.Delete {
			continue
		}
		if wanted, _ := numberOf(change.Parameters, parameterPartitions); wanted != byDefault && wanted < len(t.partitions) {
			problems[change.Name] = fmt.Sprintf(
				"the topic has %d partitions, and Kafka cannot take any away: set partitions to %d or more, or make another topic",
				len(t.partitions), len(t.partitions))
		}
		factor, _ := numberOf(change.Parameters, parameterFactor)
		if factor == byDefault || t.factorText() == strconv.Itoa(factor) {
			continue
		}
		alive, err := s.alive()
		if err != nil {
			return err
		}
		if factor > len(alive) {
			problems[change.Name] = cmp.Or(problems[change.Name],
				fmt.Sprintf("a replication factor of %d needs as many brokers, and %d are alive: add brokers, or lower it", factor,
					len(alive)))
		}
	}
	return nil
}

func growTopics(s *session, changes []driver.Change, before map[string]*topic, problems driver.Problems) error {
	counts := map[string]*sarama.TopicPartition{}
	for _, change := range changes {
		t := before[change.Name]
		if wanted, _ := numberOf(change.Parameters, parameterPartitions); t != nil && change.Intent != driver.Delete &&
			wanted > len(t.partitions) {
			counts[change.Name] = &sarama.TopicPartition{Count: int32(wanted)}
		}
	}
	if len(counts) == 0 {
		return nil
	}
	lead, err := s.lead()
	if err != nil {
		return err
	}
	response, err := lead.CreatePartitions(&sarama.CreatePartitionsRequest{Version: 3, TopicPartitions: counts,
		Timeout: s.timeout()})
	if err != nil {
		return fmt.Errorf("cannot create partitions: %w", err)
	}
	for name, problem := range response.TopicPartitionErrors {
		if err := note(problems, name, said(problem.Err, problem.ErrMsg)); err != nil {
			return err
		}
	}
	return nil
}

// refactorTopics has the partitions of topics reassigned whose replication factor is another one. The replicas are
// copied after the call.
func refactorTopics(s *session, changes []driver.Change, before map[string]*topic, problems driver.Problems) error {
	factors := map[string]int{}
	for _, change := range changes {
		t := before[change.Name]
		wanted, _ := numberOf(change.Parameters, parameterFactor)
		if t == nil || change.Intent == driver.Delete || wanted == byDefault || t.factorText() == strconv.Itoa(wanted) {
			continue
		}
		factors[change.Name] = wanted
	}
	if len(factors) == 0 {
		return nil
	}
	refused, err := s.reassign(factors, problems)
	if err != nil {
		return err
	}
	for name, problem := range refused {
		if err := note(problems, name, problem); err != nil {
			return err
		}
	}
	return nil
}
