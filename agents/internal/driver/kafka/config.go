// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/IBM/sarama"

	"github.com/zeroinfra/agents/internal/driver"
)

// Settings of topics that say which replicas a throttle is for. They are set and removed with reassignments, and are no
// property of a topic.
const (
	throttledLeaders   = "leader.replication.throttled.replicas"
	throttledFollowers = "follower.replication.throttled.replicas"
)

// configOf reads a JSON object of texts; an empty text is an empty object.
func configOf(text string) (map[string]string, error) {
	config := map[string]string{}
	if text == "" {
		return config, nil
	}
	if err := json.Unmarshal([]byte(text), &config); err != nil || config == nil {
		return nil, fmt.Errorf("parameter %q must be a JSON object of texts, such as {\"retention.ms\":\"3600000\"}, and "+
			"is %q", parameterConfig, text)
	}
	for _, name := range []string{throttledLeaders, throttledFollowers} {
		if _, has := config[name]; has {
			return nil, fmt.Errorf("parameter %q has %q, which is set while partitions are reassigned with a throttle: take "+
				"it out", parameterConfig, name)
		}
	}
	return config, nil
}

// textOfConfig is empty for no configuration. The keys are in order.
func textOfConfig(config map[string]string) string {
	if len(config) == 0 {
		return ""
	}
	return encoded(config)
}

// encoded is JSON of texts, and lists and maps of them.
func encoded(value any) string {
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		panic(err)
	}
	return strings.TrimSuffix(text.String(), "\n")
}

// topicConfigs are the settings of topics that are not the cluster's, by topic.
func (s *session) topicConfigs(names []string) (map[string]map[string]string, error) {
	configs := map[string]map[string]string{}
	return configs, s.eachConfig(names, nil, func(topic string, entries []*sarama.ConfigEntry) error {
		config := map[string]string{}
		for _, entry := range entries {
			if entry.Source == sarama.SourceTopic && entry.Name != throttledLeaders && entry.Name != throttledFollowers {
				config[entry.Name] = entry.Value
			}
		}
		configs[topic] = config
		return nil
	})
}

// eachConfig calls do with some settings of each of these topics, and with all where none is named. A topic that went
// while it was looked at is left out.
func (s *session) eachConfig(topics, settings []string,
	do func(topic string, entries []*sarama.ConfigEntry) error) error {
	for chunk := range slices.Chunk(topics, configsAtOnce) {
		request := &sarama.DescribeConfigsRequest{Version: 4}
		for _, name := range chunk {
			request.Resources = append(request.Resources,
				&sarama.ConfigResource{Type: sarama.TopicResource, Name: name, ConfigNames: settings})
		}
		s.renew()
		response, err := s.local.DescribeConfigs(request)
		if err != nil {
			return fmt.Errorf("cannot read the configuration of topics: %w", err)
		}
		for _, resource := range response.Resources {
			switch code := sarama.KError(resource.ErrorCode); code {
			case sarama.ErrUnknownTopicOrPartition:
				continue
			case sarama.ErrNoError:
			default:
				return fmt.Errorf("cannot read the configuration of topic %q: %w", resource.Name,
					answer{code, resource.ErrorMsg})
			}
			if err := do(resource.Name, resource.Configs); err != nil {
				return err
			}
		}
	}
	return nil
}

// setConfigs sets what is asked for and not so, and unsets what is set and not asked for.
func setConfigs(s *session, changes []driver.Change, before map[string]*topic, problems driver.Problems) error {
	request := &sarama.IncrementalAlterConfigsRequest{Version: 1}
	for _, change := range changes {
		t := before[change.Name]
		if t == nil || change.Intent == driver.Delete {
			continue
		}
		// It has been checked.
		wanted, _ := configOf(change.Parameters[parameterConfig])
		if entries := configChanges(t.config, wanted); len(entries) > 0 {
			request.Resources = append(request.Resources,
				&sarama.IncrementalAlterConfigsResource{Type: sarama.TopicResource, Name: change.Name, ConfigEntries: entries})
		}
	}
	if len(request.Resources) == 0 {
		return nil
	}
	response, err := s.local.IncrementalAlterConfigs(request)
	if err != nil {
		return fmt.Errorf("cannot change the configuration of topics: %w", err)
	}
	for _, resource := range response.Resources {
		if err := note(problems, resource.Name, answer{sarama.KError(resource.ErrorCode), resource.ErrorMsg}); err != nil {
			return err
		}
	}
	return nil
}

// configChanges lead from what is set to what is wanted.
func configChanges(has, wanted map[string]string) map[string]sarama.IncrementalAlterConfigsEntry {
	entries := map[string]sarama.IncrementalAlterConfigsEntry{}
	for name, value := range wanted {
		if is, set := has[name]; !set || is != value {
			entries[name] = sarama.IncrementalAlterConfigsEntry{Operation: sarama.IncrementalAlterConfigsOperationSet,
				Value: &value}
		}
	}
	for name := range has {
		if _, stays := wanted[name]; !stays {
			entries[name] = sarama.IncrementalAlterConfigsEntry{Operation: sarama.IncrementalAlterConfigsOperationDelete}
		}
	}
	return entries
}

// showsConfig says whether a topic has the configuration. The broker puts values in a form of its own: one that it
// shows is as asked when it says the same, or is not what it was any more.
func (t *topic) showsConfig(wanted map[string]string, was *topic) bool {
	if !slices.Equal(slices.Sorted(maps.Keys(wanted)), slices.Sorted(maps.Keys(t.config))) {
		return false
	}
	for name, value := range wanted {
		if is := t.config[name]; !alike(value, is) && was != nil && was.config[name] == is {
			return false
		}
	}
	return true
}

// alike says whether two values say the same, as far as that can be told without their type.
func alike(a, b string) bool {
	x, notX := strconv.ParseFloat(strings.TrimSpace(a), 64)
	y, notY := strconv.ParseFloat(strings.TrimSpace(b), 64)
	if notX == nil && notY == nil {
		return x == y
	}
	return strings.EqualFold(strings.ReplaceAll(a, " ", ""), strings.ReplaceAll(b, " ", ""))
}
