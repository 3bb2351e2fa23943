// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/IBM/sarama"
)

const (
	// settingCordoned names the log directories of a broker that get no new replicas (KIP-1066): Kafka has it from 4.3 on,
	// and takes it from metadata.version 4.3-IV0 on.
	settingCordoned = "cordoned.log.dirs"
	// allLogDirs has the whole broker be cordoned.
	allLogDirs = "*"
)

// cordonTime is what brokers have to say whether they are cordoned: one that hangs holds up nobody else.
const cordonTime = 10 * time.Second

// cordoned are those of some brokers that are cordoned as a whole, by themselves. It is nil where the version of Kafka
// knows of no such thing. A broker that does not answer is taken for one that is not: the next look asks it again.
func (s *session) cordoned(ids []int32) (cordoned []int32) {
	ctx, cancel := context.WithTimeout(s.ctx, cordonTime)
	defer cancel()
	// What it cannot say now is no error.
	_ = s.way.use(ctx, func(s *session) error {
		cordoned = []int32{}
		for _, id := range ids {
			switch value, err := s.cordonOf(id); {
			case errors.Is(err, errNoCordon):
				cordoned = nil
				return nil
			case err == nil && value == allLogDirs:
				cordoned = append(cordoned, id)
			}
		}
		return nil
	})
	return cordoned
}

// errNoCordon says that the version of Kafka cannot cordon.
var errNoCordon = errors.New("this version of Kafka cannot cordon")

// cordonOf is what of a broker is cordoned by itself; empty for nothing.
func (s *session) cordonOf(id int32) (string, error) {
	is, err := s.cordonSetting(id)
	if err != nil || is.source != sources[sarama.SourceDynamicBroker] {
		return "", err
	}
	return is.value, nil
}

// cordonSetting is what of a broker is cordoned, whoever said so; errNoCordon where Kafka knows of no such thing.
func (s *session) cordonSetting(id int32) (setting, error) {
	broker, err := s.broker(id)
	if err != nil {
		return setting{}, err
	}
	response, err := broker.DescribeConfigs(&sarama.DescribeConfigsRequest{Version: 4, Resources: []*sarama.ConfigResource{
		{Type: sarama.BrokerResource, Name: number(id), ConfigNames: []string{settingCordoned}}}})
	if err != nil {
		return setting{}, err
	}
	if len(response.Resources) != 1 || response.Resources[0].ErrorCode != 0 {
		return setting{}, errAnswer
	}
	entries := response.Resources[0].Configs
	if len(entries) == 0 {
		return setting{}, errNoCordon
	}
	return setting{entries[0].Value, sources[entries[0].Source]}, nil
}

// cordon has brokers get no new replicas. One whose metadata.version is too old for that is left as it is.
func (s *session) cordon(ids []int32) error {
	for _, id := range ids {
		err := s.setConfig(number(id), map[string]*string{settingCordoned: new(allLogDirs)})
		refused := answer{}
		if err != nil && !(errors.As(err, &refused) && refused.code == sarama.ErrInvalidConfig) {
			return err
		}
	}
	return nil
}

// cordonable are those of some brokers that can be cordoned. One whose metadata.version is too old for that cannot, and
// one that does not answer is left as it is.
func (s *session) cordonable(ids []int32) (able []int32) {
	if len(ids) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(s.ctx, cordonTime)
	defer cancel()
	// What it cannot say now is no error.
	_ = s.way.use(ctx, func(s *session) error {
		for _, id := range ids {
			broker, err := s.broker(id)
			if err != nil {
				continue
			}
			request := configRequest(number(id), map[string]*string{settingCordoned: new(allLogDirs)})
			request.ValidateOnly = true
			if alterConfigs(broker, request) == nil {
				able = append(able, id)
			}
		}
		return nil
	})
	return able
}

// uncordon has a broker get new replicas again.
func (s *session) uncordon(id int32) error {
	return s.setConfig(number(id), map[string]*string{settingCordoned: nil})
}

// toCordon are those of the brokers that leave which are alive and not cordoned yet, where Kafka can do that.
func (f found) toCordon(leaving []int32) (ids []int32) {
	for _, id := range leaving {
		if f.cordoned != nil && slices.Contains(f.alive, id) && !slices.Contains(f.cordoned, id) {
			ids = append(ids, id)
		}
	}
	return ids
}
