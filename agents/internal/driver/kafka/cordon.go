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

// settingsTime is what brokers have to say what they have by themselves: one that hangs holds up nobody else.
const settingsTime = 10 * time.Second

// ownSettings are what brokers have by themselves.
type ownSettings struct {
	// cordoned are those that are cordoned as a whole; nil where the version of Kafka knows of no such thing.
	cordoned []int32
	// throttled are those with rates for replicas that move.
	throttled []int32
	// silent are those that do not answer.
	silent []int32
}

// ownSettings of some brokers.
func (s *session) ownSettings(ids []int32) (own ownSettings) {
	ctx, cancel := context.WithTimeout(s.ctx, settingsTime)
	defer cancel()
	own.silent = slices.Clone(ids)
	// What it cannot say now is no error.
	_ = s.way.use(ctx, func(s *session) error {
		cordons := true
		own.cordoned = []int32{}
		for _, id := range ids {
			broker, err := s.broker(id)
			if err != nil {
				continue
			}
			has, err := settingsOf(broker, number(id), append([]string{settingCordoned}, throttleRates...)...)
			if err != nil {
				continue
			}
			own.silent = slices.DeleteFunc(own.silent, func(other int32) bool { return other == id })
			cordon, able := has[settingCordoned]
			cordons = cordons && able
			if cordon.source == dynamicBroker && cordon.value == allLogDirs {
				own.cordoned = append(own.cordoned, id)
			}
			if isThrottled(has) {
				own.throttled = append(own.throttled, id)
			}
		}
		if !cordons {
			own.cordoned = nil
		}
		return nil
	})
	return own
}

// errNoCordon says that the version of Kafka cannot cordon.
var errNoCordon = errors.New("this version of Kafka cannot cordon")

// cordonSetting is what of a broker is cordoned, whoever said so; errNoCordon where Kafka knows of no such thing.
func (s *session) cordonSetting(id int32) (setting, error) {
	broker, err := s.broker(id)
	if err != nil {
		return setting{}, err
	}
	has, err := settingsOf(broker, number(id), settingCordoned)
	if err != nil {
		return setting{}, err
	}
	is, able := has[settingCordoned]
	if !able {
		return setting{}, errNoCordon
	}
	return is, nil
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
	ctx, cancel := context.WithTimeout(s.ctx, settingsTime)
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
