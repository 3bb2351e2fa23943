// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/zeroinfra/agents/internal/driver"
)

// Procedures are what can be asked, in place of statements, which Kafka has none of.
const (
	// Access <type> lists the access rules for all resources of a type: topic, group, cluster or transactional-id.
	Access = "access"
	// Brokers lists the brokers and what they hold.
	Brokers = "brokers"
	// Cluster tells of the cluster as a whole.
	Cluster = "cluster"
	// Config <broker> lists the settings of a broker that are not Kafka's defaults; of an empty one those that all brokers
	// have dynamically.
	Config = "config"
	// ConfigSet <broker> <JSON> sets dynamic settings, or removes those that are null, and reads them back.
	ConfigSet = "config-set"
	// Consumers <topic> sums up the consumer groups of one topic, and how far they are behind.
	Consumers = "consumers"
	// ElectPreferred has the preferred replica of each partition lead it.
	ElectPreferred = "elect-preferred"
	// Holds <broker> counts what a broker holds: before it is removed that must be nothing.
	Holds = "holds"
	// Lag [topic] lists how far consumer groups are behind.
	Lag = "lag"
	// LogDirs lists the log directories of brokers, what they hold and what is free.
	LogDirs = "log-dirs"
	// LogDirsSum sums them up in one row.
	LogDirsSum = "log-dirs-sum"
	// MembersPlan <shape> says how far the nodes of a component are from what they are to be: phase and reason.
	MembersPlan = "members-plan"
	// MembersStep <shape> takes one step there.
	MembersStep = "members-step"
	// Quorum lists the voters and observers of the metadata quorum.
	Quorum = "quorum"
	// Reassign <goal> takes steps until the goal is reached, or the time of the call is over.
	Reassign = "reassign"
	// ReassignPlan <goal> lists the moves that lead to a goal.
	ReassignPlan = "reassign-plan"
	// ReassignStep <goal> begins as many of them as may be under way, and tells how many are left. Whoever wants the goal
	// calls until it is done.
	ReassignStep = "reassign-step"
	// ReassignCancel ends the moves that are under way, and takes throttles away.
	ReassignCancel = "reassign-cancel"
	// Expendable <broker> fails where the data of a broker is not to be deleted, since others have too little of it.
	Expendable = "expendable"
	// Restart <broker> says whether a broker may be restarted now.
	Restart = "restart"
	// Status [broker] tells what costs little to find out, for probes; of the broker of the pod also whether its throttle
	// is on. It can be asked of a controller that is no broker, and of a broker while no controller answers.
	Status = "status"
	// Unregister <broker> has the cluster forget a broker that is down and holds nothing.
	Unregister = "unregister"
	// VoterAdd <node> <directory> <listeners> adds a controller to the voters; listeners are NAME://host:port with commas
	// between them.
	VoterAdd = "voter-add"
	// VoterRemove <node> <directory> removes one.
	VoterRemove = "voter-remove"
)

// procedure answers a query.
type procedure struct {
	// effect says whether it changes something.
	effect driver.Access
	// least and most are how many words it takes.
	least, most int
	run         func(s *session, words []string) (driver.Table, error)
}

var procedures = map[string]procedure{
	Access:         {driver.ReadOnly, 1, 1, listAccess},
	Brokers:        {driver.ReadOnly, 0, 0, listBrokers},
	Cluster:        {driver.ReadOnly, 0, 0, describeCluster},
	Config:         {driver.ReadOnly, 1, 1, listConfig},
	ConfigSet:      {driver.ReadWrite, 2, 2, setBrokerConfig},
	Consumers:      {driver.ReadOnly, 1, 1, sumConsumers},
	ElectPreferred: {driver.ReadWrite, 0, 0, electPreferred},
	Expendable:     {driver.ReadOnly, 1, 1, isExpendable},
	Holds:          {driver.ReadOnly, 1, 1, countHeld},
	Lag:            {driver.ReadOnly, 0, 1, listLag},
	LogDirs:        {driver.ReadOnly, 0, 0, listLogDirs},
	LogDirsSum:     {driver.ReadOnly, 0, 0, sumLogDirs},
	MembersPlan:    {driver.ReadOnly, 1, 1, planMembers},
	MembersStep:    {driver.ReadWrite, 1, 1, stepMembers},
	Quorum:         {driver.ReadOnly, 0, 0, listQuorum},
	Reassign:       {driver.ReadWrite, 1, 1, reassignUntilDone},
	ReassignPlan:   {driver.ReadOnly, 1, 1, planReassignment},
	ReassignStep:   {driver.ReadWrite, 1, 1, stepReassignment},
	ReassignCancel: {driver.ReadWrite, 0, 0, cancelReassignment},
	Restart:        {driver.ReadOnly, 1, 1, mayRestart},
	Status:         {driver.ReadOnly, 0, 1, describeStatus},
	Unregister:     {driver.ReadWrite, 1, 1, unregister},
	VoterAdd:       {driver.ReadWrite, 3, 3, addVoter},
	VoterRemove:    {driver.ReadWrite, 2, 2, removeVoter},
}

// Query implements driver.Querier. The text is the name of a procedure and its words with blanks between them;
// arguments come after these.
func (d *Driver) Query(ctx context.Context, statement driver.Statement) (table driver.Table, err error) {
	words := append(strings.Fields(statement.Text), statement.Arguments...)
	if len(words) == 0 || statement.Database != "" {
		return driver.Table{}, fmt.Errorf("%q asks for nothing, or is for a database, which Kafka has none "+
			"of", statement.Text)
	}
	p, ok := procedures[words[0]]
	words = words[1:]
	switch {
	case !ok:
		return driver.Table{}, fmt.Errorf("the driver for Kafka knows no %q: known are %s", statement.Text,
			strings.Join(slices.Sorted(maps.Keys(procedures)), ", "))
	case p.effect == driver.ReadWrite && statement.Access == driver.ReadOnly:
		return driver.Table{}, fmt.Errorf("%s does more than read", statement.Text)
	case len(words) < p.least || len(words) > p.most:
		return driver.Table{}, fmt.Errorf("%s takes from %d to %d words, and has "+
			"%d", statement.Text, p.least, p.most, len(words))
	}
	err = d.with(ctx, func(s *session) error {
		s.report = statement.Report
		table, err = p.run(s, words)
		return err
	})
	return table, err
}

// brokerOf reads the number of a broker.
func brokerOf(word string) (int32, error) {
	id, err := strconv.ParseInt(word, 10, 32)
	if err != nil || id < 0 {
		return 0, fmt.Errorf("%q is no number of a broker", word)
	}
	return int32(id), nil
}

func row(values ...string) []*string {
	texts := make([]*string, len(values))
	for i, value := range values {
		texts[i] = &value
	}
	return texts
}

// tableOf has one row.
func tableOf(columns []string, values ...string) driver.Table {
	return driver.Table{Columns: columns, Rows: [][]*string{row(values...)}}
}

func number[T int | int16 | int32 | int64](n T) string { return strconv.FormatInt(int64(n), 10) }

func numbers(ids []int32) string {
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = number(id)
	}
	return strings.Join(texts, " ")
}
