// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/IBM/sarama"

	"github.com/zeroinfra/agents/internal/driver"
)

// rates are the parameters of a quota, and what Kafka calls them. An empty one is no limit.
var rates = map[string]string{
	// Bytes per second and broker.
	"producer-byte-rate": "producer_byte_rate",
	"consumer-byte-rate": "consumer_byte_rate",
	// Percent of the time of one request thread, per broker.
	"request-percentage": "request_percentage",
	// Partitions that are created and deleted, per second.
	"controller-mutation-rate": "controller_mutation_rate",
}

// everyOther is the name of the default.
const everyOther = "*"

// Parts of the name of a quota.
const (
	partUser   = "user/"
	partClient = "client/"
)

type quotas struct{}

// quotaEntity reads the name of a quota.
func quotaEntity(name string) ([]sarama.QuotaEntityComponent, error) {
	var parts []sarama.QuotaEntityComponent
	rest, isUser := strings.CutPrefix(name, partUser)
	client, isClient := "", false
	if isUser {
		if i := strings.LastIndex(rest, "/"+partClient); i >= 0 {
			rest, client, isClient = rest[:i], rest[i+1+len(partClient):], true
		}
		parts = append(parts, component(sarama.QuotaEntityUser, rest))
	} else {
		client, isClient = strings.CutPrefix(name, partClient)
	}
	if isClient {
		parts = append(parts, component(sarama.QuotaEntityClientID, client))
	}
	if len(parts) == 0 || isUser && rest == "" || isClient && client == "" {
		return nil, fmt.Errorf("%q is no name of a quota: it must be user/<name>, client/<id> or user/<name>/client/<id>, "+
			"with * for all that have none of their own", name)
	}
	return parts, nil
}

func component(kind sarama.QuotaEntityType, name string) sarama.QuotaEntityComponent {
	if name == everyOther {
		return sarama.QuotaEntityComponent{EntityType: kind, MatchType: sarama.QuotaMatchDefault}
	}
	return sarama.QuotaEntityComponent{EntityType: kind, MatchType: sarama.QuotaMatchExact, Name: name}
}

// nameOf is the contrary of quotaEntity.
func nameOf(parts []sarama.QuotaEntityComponent) string {
	byKind := map[sarama.QuotaEntityType]string{}
	for _, part := range parts {
		byKind[part.EntityType] = part.Name
		if part.MatchType == sarama.QuotaMatchDefault {
			byKind[part.EntityType] = everyOther
		}
	}
	var names []string
	for _, one := range []struct {
		kind sarama.QuotaEntityType
		part string
	}{{sarama.QuotaEntityUser, partUser}, {sarama.QuotaEntityClientID, partClient}} {
		if name, has := byKind[one.kind]; has {
			names = append(names, one.part+name)
		}
	}
	return strings.Join(names, "/")
}

func (quotas) check(_ *session, change driver.Change) error {
	if _, err := quotaEntity(change.Name); err != nil {
		return err
	}
	if change.Intent == driver.Delete {
		return nil
	}
	names := slices.Sorted(maps.Keys(rates))
	if err := known(change.Parameters, names...); err != nil {
		return err
	}
	limits, err := limitsOf(change.Parameters)
	if err == nil && len(limits) == 0 {
		err = fmt.Errorf("a quota without a limit is none: set one of %s", strings.Join(names, ", "))
	}
	return err
}

// limitsOf are the limits that are set, in the words of Kafka.
func limitsOf(parameters map[string]string) (map[string]float64, error) {
	limits := map[string]float64{}
	for name, key := range rates {
		if parameters[name] == "" {
			continue
		}
		limit, err := strconv.ParseFloat(parameters[name], 64)
		if err != nil || !(limit > 0) || limit > 1<<62 {
			return nil, fmt.Errorf("parameter %q is %q: it must be a number above 0", name, parameters[name])
		}
		limits[key] = limit
	}
	return limits, nil
}

func (quotas) observe(s *session, queries []driver.Query) ([]driver.State, error) {
	all, err := s.quotas()
	if err != nil {
		return nil, err
	}
	var states []driver.State
	for _, query := range queries {
		limits, there := all[query.Name]
		if !there {
			continue
		}
		state := driver.State{Name: query.Name, Password: driver.SamePassword, Parameters: map[string]string{}}
		for name, key := range rates {
			state.Parameters[name] = ""
			if limit, set := limits[key]; set {
				state.Parameters[name] = strconv.FormatFloat(limit, 'f', -1, 64)
			}
		}
		states = append(states, state)
	}
	return states, nil
}

// quotas are all that the cluster has for users and clients, by name.
func (s *session) quotas() (map[string]map[string]float64, error) {
	s.renew()
	response, err := s.local.DescribeClientQuotas(&sarama.DescribeClientQuotasRequest{Version: 1})
	if err != nil {
		return nil, fmt.Errorf("cannot read the quotas: %w", err)
	}
	if response.ErrorCode != sarama.ErrNoError {
		return nil, fmt.Errorf("cannot read the quotas: %w", said(response.ErrorCode, response.ErrorMsg))
	}
	all := map[string]map[string]float64{}
	for _, entry := range response.Entries {
		if slices.ContainsFunc(entry.Entity,
			func(part sarama.QuotaEntityComponent) bool { return part.EntityType == sarama.QuotaEntityIP }) {
			continue
		}
		if len(entry.Values) > 0 {
			all[nameOf(entry.Entity)] = entry.Values
		}
	}
	return all, nil
}

func (quotas) change(s *session, changes []driver.Change, problems driver.Problems) error {
	before, err := s.quotas()
	if err != nil {
		return err
	}
	request := &sarama.AlterClientQuotasRequest{Version: 1}
	wanted := map[string]map[string]float64{}
	for _, change := range changes {
		// Both have been checked.
		entity, _ := quotaEntity(change.Name)
		limits, _ := limitsOf(change.Parameters)
		if change.Intent == driver.Delete {
			limits = nil
		}
		wanted[change.Name] = limits
		var ops []sarama.ClientQuotasOp
		for _, key := range rates {
			limit, set := limits[key]
			if _, has := before[change.Name][key]; set || has {
				ops = append(ops, sarama.ClientQuotasOp{Key: key, Value: limit, Remove: !set})
			}
		}
		if len(ops) > 0 {
			request.Entries = append(request.Entries, sarama.AlterClientQuotasEntry{Entity: entity, Ops: ops})
		}
	}
	if len(request.Entries) == 0 {
		return nil
	}
	response, err := s.local.AlterClientQuotas(request)
	if err != nil {
		return fmt.Errorf("cannot change quotas: %w", err)
	}
	for _, entry := range response.Entries {
		if err := note(problems, nameOf(entry.Entity), said(entry.ErrorCode, entry.ErrorMsg)); err != nil {
			return err
		}
	}
	return settle(s.ctx, func() (string, error) {
		now, err := s.quotas()
		for name, limits := range wanted {
			for _, key := range rates {
				is, has := now[name][key]
				want, set := limits[key]
				if problems[name] == "" && (has != set || cmp.Compare(is, want) != 0) {
					return name, err
				}
			}
		}
		return "", err
	})
}
