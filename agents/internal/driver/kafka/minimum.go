// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/zeroinfra/agents/internal/driver"
)

// settingFactor is the replication factor of topics that do not say one.
const settingFactor = "default.replication.factor"

// checkMinimum refuses a topic that asks for more replicas in sync than it has replicas.
func checkMinimum(s *session, changes []driver.Change, before map[string]*topic, problems driver.Problems) error {
	byCluster := 0
	for _, change := range changes {
		if change.Intent == driver.Delete {
			continue
		}
		// All have been checked, and what is no number Kafka refuses.
		config, _ := configOf(change.Parameters[parameterConfig])
		minimum, _ := strconv.Atoi(config[settingMinISR])
		factor, _ := numberOf(change.Parameters, parameterFactor)
		switch t := before[change.Name]; {
		case minimum <= 1:
			continue
		case factor == byDefault && t != nil:
			_, factor = t.factors()
		case factor == byDefault && byCluster == 0:
			var err error
			if byCluster, err = s.defaultFactor(); err != nil {
				return err
			}
			factor = byCluster
		case factor == byDefault:
			factor = byCluster
		}
		if minimum > factor {
			problems[change.Name] = fmt.Sprintf("%s is %d, and each partition has %d replicas: lower it, or set more replicas",
				settingMinISR, minimum, factor)
		}
	}
	return nil
}

// unknownFactor is above what any topic asks for.
const unknownFactor = 1 << 15

// defaultFactor is the cluster's; unknownFactor where the account may not read it.
func (s *session) defaultFactor() (int, error) {
	alive, err := s.alive()
	if err != nil || len(alive) == 0 {
		return unknownFactor, err
	}
	settings, err := s.brokerConfig(number(alive[0]))
	if refused := (answer{}); errors.As(err, &refused) {
		return unknownFactor, nil
	}
	if err != nil {
		return 0, err
	}
	if factor, err := strconv.Atoi(settings[settingFactor].value); err == nil {
		return factor, nil
	}
	// Kafka's own.
	return 1, nil
}
