// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/IBM/sarama"

	"github.com/zeroinfra/agents/internal/driver"
)

const (
	// dynamicDefault is the source of settings that all brokers have dynamically.
	dynamicDefault = "dynamic-default"
	// dynamicBroker is that of settings that one has dynamically for itself.
	dynamicBroker = "dynamic-broker"
)

// sources of settings, as the procedure Config names them.
var sources = map[sarama.ConfigSource]string{
	sarama.SourceDynamicBroker: dynamicBroker, sarama.SourceDynamicDefaultBroker: dynamicDefault,
	sarama.SourceStaticBroker: "static",
}

// setting of a broker.
type setting struct{ value, source string }

// ofBroker is a connection to the broker that knows the settings of a broker: itself; the one of the pod for those that
// all have, under an empty name.
func (s *session) ofBroker(name string) (*sarama.Broker, error) {
	if name == "" {
		return s.local, nil
	}
	id, err := brokerOf(name)
	if err != nil {
		return nil, err
	}
	return s.broker(id)
}

// brokerConfig reads the settings that are not Kafka's defaults. Passwords among them have no value.
func (s *session) brokerConfig(name string) (map[string]setting, error) {
	broker, err := s.ofBroker(name)
	if err != nil {
		return nil, err
	}
	settings, err := settingsOf(broker, name)
	maps.DeleteFunc(settings, func(_ string, is setting) bool { return is.source == "" })
	return settings, err
}

// settingsOf reads some settings of a broker from itself, and all where none is named. One that its version does not
// know is left out, and so is the source of one that nobody has set.
func settingsOf(broker *sarama.Broker, name string, settings ...string) (map[string]setting, error) {
	response, err := broker.DescribeConfigs(&sarama.DescribeConfigsRequest{Version: 4,
		Resources: []*sarama.ConfigResource{{Type: sarama.BrokerResource, Name: name, ConfigNames: settings}}})
	if err == nil && len(response.Resources) != 1 {
		err = errAnswer
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the configuration of broker %q: %w", name, err)
	}
	resource := response.Resources[0]
	if code := sarama.KError(resource.ErrorCode); code != sarama.ErrNoError {
		return nil, fmt.Errorf("cannot read the configuration of broker %q: %w", name, answer{code, resource.ErrorMsg})
	}
	has := map[string]setting{}
	for _, entry := range resource.Configs {
		has[entry.Name] = setting{entry.Value, sources[entry.Source]}
	}
	return has, nil
}

func tableOfSettings(settings map[string]setting) driver.Table {
	table := driver.Table{Columns: []string{"name", "value", "source"}}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		table.Rows = append(table.Rows, row(name, settings[name].value, settings[name].source))
	}
	return table
}

func listConfig(s *session, words []string) (driver.Table, error) {
	settings, err := s.brokerConfig(words[0])
	if err != nil {
		return driver.Table{}, err
	}
	return tableOfSettings(settings), nil
}

// setBrokerConfig sets and removes dynamic settings, and returns them as they read back.
func setBrokerConfig(s *session, words []string) (driver.Table, error) {
	var wanted map[string]*string
	if err := json.Unmarshal([]byte(words[1]), &wanted); err != nil || len(wanted) == 0 {
		return driver.Table{}, fmt.Errorf("settings must be a JSON object of texts, with null for those that are to be "+
			"removed, and are %q", words[1])
	}
	if err := s.setConfig(words[0], wanted); err != nil {
		return driver.Table{}, err
	}
	dynamic := dynamicBroker
	if words[0] == "" {
		dynamic = dynamicDefault
	}
	read := map[string]setting{}
	err := settle(s.ctx, func() (missing string, err error) {
		settings, err := s.brokerConfig(words[0])
		for name, value := range wanted {
			is, set := settings[name]
			set = set && is.source == dynamic
			// Passwords read back as nothing.
			if set != (value != nil) || set && is.value != "" && !alike(is.value, *value) {
				missing = name
			}
			if read[name] = is; is == (setting{}) {
				read[name] = setting{source: "default"}
			}
		}
		return missing, err
	})
	if errors.Is(err, errUnsettled) {
		return driver.Table{}, fmt.Errorf("the broker took the settings, and has %v: %w", read, err)
	}
	return tableOfSettings(read), err
}

func entriesOf(wanted map[string]*string) map[string]sarama.IncrementalAlterConfigsEntry {
	entries := map[string]sarama.IncrementalAlterConfigsEntry{}
	for name, value := range wanted {
		entry := sarama.IncrementalAlterConfigsEntry{Operation: sarama.IncrementalAlterConfigsOperationSet, Value: value}
		if value == nil {
			entry.Operation = sarama.IncrementalAlterConfigsOperationDelete
		}
		entries[name] = entry
	}
	return entries
}

// setConfig sets dynamic settings of a broker, or of all with an empty name, and removes those that are nil.
func (s *session) setConfig(name string, wanted map[string]*string) error {
	if len(wanted) == 0 {
		return nil
	}
	broker, err := s.ofBroker(name)
	if err != nil {
		return err
	}
	return alterConfigs(broker, configRequest(name, wanted))
}

// configRequest is for dynamic settings of a broker, or of all with an empty name.
func configRequest(name string, wanted map[string]*string) *sarama.IncrementalAlterConfigsRequest {
	return &sarama.IncrementalAlterConfigsRequest{Version: 1,
		Resources: []*sarama.IncrementalAlterConfigsResource{{Type: sarama.BrokerResource, Name: name,
			ConfigEntries: entriesOf(wanted)}}}
}

func alterConfigs(broker *sarama.Broker, request *sarama.IncrementalAlterConfigsRequest) error {
	response, err := broker.IncrementalAlterConfigs(request)
	if err != nil {
		return fmt.Errorf("cannot change the configuration: %w", err)
	}
	for _, resource := range response.Resources {
		if code := sarama.KError(resource.ErrorCode); code != sarama.ErrNoError && code != sarama.ErrUnknownTopicOrPartition {
			return answer{code, resource.ErrorMsg}
		}
	}
	return nil
}
