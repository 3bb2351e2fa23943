// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/IBM/sarama"

	"github.com/zeroinfra/agents/internal/driver"
)

// SetDynamic has the settings that all brokers have dynamically be just these: what else there is goes back to what the
// brokers were started with.
func (d *Driver) SetDynamic(ctx context.Context, settings map[string]string) error {
	return d.with(ctx, func(s *session) error {
		has, err := s.brokerConfig("")
		if err != nil {
			return err
		}
		wanted := map[string]*string{}
		for name, is := range has {
			if is.source == dynamicDefault {
				wanted[name] = nil
			}
		}
		for name, value := range settings {
			wanted[name] = &value
			if is, ok := has[name]; ok && is.source == dynamicDefault && alike(is.value, value) {
				delete(wanted, name)
			}
		}
		if len(wanted) == 0 {
			return nil
		}
		text, err := json.Marshal(wanted)
		if err != nil {
			return err
		}
		_, err = setBrokerConfig(s, []string{"", string(text)})
		return err
	})
}

// SetOwn sets settings of one broker alone, also to what they are: Kafka reads the files that they name anew.
func (d *Driver) SetOwn(ctx context.Context, node string, settings map[string]string) error {
	return d.with(ctx, func(s *session) error {
		wanted := map[string]*string{}
		for name, value := range settings {
			wanted[name] = &value
		}
		return s.setConfig(node, wanted)
	})
}

// SetPassword gives a user a SCRAM-SHA-512 credential, unless it can log in with the password as it is.
func (d *Driver) SetPassword(ctx context.Context, user, password string) error {
	if d.logsIn(ctx, user, password) {
		return nil
	}
	change := driver.Change{Intent: driver.Update, Query: driver.Query{Name: user, Password: password}}
	return d.with(ctx, func(s *session) error {
		problems := driver.Problems{}
		if err := (users{}).change(s, []driver.Change{change}, problems); err != nil {
			return err
		}
		if problem := problems[user]; problem != "" {
			return fmt.Errorf("cannot set the password of %q: %s", user, problem)
		}
		return nil
	})
}

func (d *Driver) logsIn(ctx context.Context, user, password string) bool {
	way, err := d.reach()
	return err == nil && way.as(user, password).use(ctx, func(s *session) error {
		_, err := s.local.DescribeCluster(&sarama.DescribeClusterRequest{Version: 1})
		return err
	}) == nil
}

// Settings reads lines name=value, as properties files have them.
func Settings(text string) map[string]string {
	settings := map[string]string{}
	for line := range strings.Lines(text) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		if ok && !strings.HasPrefix(name, "#") {
			settings[strings.TrimSpace(name)] = strings.TrimSpace(value)
		}
	}
	return settings
}
