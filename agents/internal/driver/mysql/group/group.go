// SPDX-License-Identifier: Apache-2.0

// Package group makes servers members of one group of MySQL's Group Replication, with a single primary.
//
// Nothing is remembered between calls: each looks at all members and takes one step. A group is begun only by a member
// that has all transactions of all others, and only when all of them answer.
package group

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/zeroinfra/agents/internal/driver"
	"github.com/zeroinfra/agents/internal/driver/mysql"
)

const (
	// answerTime is what a member has to say how it is.
	answerTime = 5 * time.Second
	// joinTime is what a member has to be known to the others. What it lacks it copies afterwards.
	joinTime = 45 * time.Second
)

// Group is one of members that are reached with the same account.
type Group struct {
	// Username and Password of the account, which every member has.
	Username, Password string
	// CAFile is what the certificates of the members must lead to; empty without TLS.
	CAFile string
	// Address of a pod, and Channel that of the group's own protocol: host and port.
	Address, Channel func(pod string) string
}

// State is how far members are.
type State struct {
	Phase, Reason string
	// Lost says what to do where the group may not go on by itself, and Quarantined which members stay out of it, since
	// they have transactions that it has not; each is empty where that is not so.
	Lost, Quarantined string
}

// Look says how far the members are, and changes nothing.
func (g *Group) Look(ctx context.Context, shape Shape, history History) (State, error) {
	f, err := g.find(ctx, slices.Concat(slices.Concat(shape.Members...), shape.Leaving))
	if err == nil && shape.Spare != "" {
		err = f.spare(slices.Concat(shape.Members...), shape.Spare)
	}
	if err != nil {
		return State{}, err
	}
	return next(f, shape, history).state(), nil
}

// Step takes one step, and says how far the members are with it.
func (g *Group) Step(ctx context.Context, shape Shape, history History) (State, error) {
	f, err := g.find(ctx, slices.Concat(slices.Concat(shape.Members...), shape.Leaving))
	if err != nil {
		return State{}, err
	}
	s := next(f, shape, history)
	return s.state(), g.take(ctx, s)
}

func (s step) state() State { return State{s.phase, s.reason, s.lost, s.quarantined} }

// SetPrimary has the group elect a member, by a call to the one that is the primary.
func (g *Group) SetPrimary(ctx context.Context, primary, target string) error {
	v, err := g.view(ctx, target)
	if err != nil {
		return err
	}
	return g.take(ctx, step{action: actionSetPrimary, pod: primary, uuid: v.uuid})
}

func (g *Group) driver(pod string) *mysql.Driver {
	return mysql.New(mysql.Options{Address: g.Address(pod), CAFile: g.CAFile, Username: g.Username,
		Password: func() (string, error) { return g.Password, nil }})
}

// ask runs a statement in a member.
func (g *Group) ask(ctx context.Context, pod, text string, arguments ...string) (driver.Table, error) {
	return g.driver(pod).Query(ctx, driver.Statement{Text: text, Arguments: arguments})
}

// find asks all members at once, and compares their transactions.
func (g *Group) find(ctx context.Context, pods []string) (found, error) {
	f := found{views: map[string]view{}, missing: map[[2]string]string{}}
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, pod := range pods {
		all.Go(func() {
			asking, cancel := context.WithTimeout(ctx, answerTime)
			defer cancel()
			v, err := g.view(asking, pod)
			if err != nil {
				v = view{problem: err.Error()}
			}
			mu.Lock()
			defer mu.Unlock()
			f.views[pod] = v
		})
	}
	all.Wait()
	return f, g.compare(ctx, &f)
}

const askView = `SELECT @@global.server_uuid,
  COALESCE((SELECT MAX(VIEW_ID) FROM performance_schema.replication_group_member_stats
    WHERE MEMBER_ID = @@global.server_uuid), ''),
  REPLACE(@@global.gtid_executed, '\n', ''),
  COALESCE((SELECT REPLACE(MAX(RECEIVED_TRANSACTION_SET), '\n', '')
    FROM performance_schema.replication_connection_status WHERE CHANNEL_NAME = 'group_replication_applier'), ''),
  COALESCE((SELECT GROUP_CONCAT(CONCAT(MEMBER_ID, ' ', MEMBER_STATE, ' ', MEMBER_ROLE))
    FROM performance_schema.replication_group_members WHERE MEMBER_ID <> ''), ''),
  COALESCE((SELECT VARIABLE_VALUE FROM performance_schema.global_status
    WHERE VARIABLE_NAME = 'Ssl_server_not_after'), '')`

func (g *Group) view(ctx context.Context, pod string) (view, error) {
	table, err := g.ask(ctx, pod, askView)
	if err != nil {
		return view{}, err
	}
	row := table.Rows[0]
	v := view{uuid: *row[0], id: *row[1], transactions: joined(*row[2], *row[3]), sees: map[string]seen{}}
	for entry := range strings.SplitSeq(*row[4], ",") {
		if words := strings.Split(entry, " "); len(words) == 3 {
			v.sees[words[0]] = seen{words[1], words[2]}
		}
	}
	v.outdated = v.state() == stateOnline && g.outdated(ctx, pod, *row[5])
	return v, nil
}

// joined is two GTID sets as one.
func joined(a, b string) string { return strings.Trim(a+","+b, ",") }

// compare has a member work out what each lacks of each other.
func (g *Group) compare(ctx context.Context, f *found) error {
	var answering []string
	for _, pod := range slices.Sorted(maps.Keys(f.views)) {
		if f.views[pod].problem == "" {
			answering = append(answering, pod)
		}
	}
	for _, a := range answering {
		for _, b := range answering {
			if a == b || f.views[a].transactions == f.views[b].transactions {
				continue
			}
			table, err := g.ask(ctx, answering[0], "SELECT REPLACE(GTID_SUBTRACT(?, ?), '\\n', '')", f.views[a].transactions,
				f.views[b].transactions)
			if err != nil {
				return fmt.Errorf("cannot compare transactions: %w", err)
			}
			f.missing[[2]string{a, b}] = *table.Rows[0][0]
		}
	}
	return nil
}

// take carries a step out.
func (g *Group) take(ctx context.Context, s step) error {
	switch s.action {
	case actionBootstrap:
		return g.bootstrap(ctx, s.pod)
	case actionJoin:
		return g.join(ctx, s.pod)
	case actionLeave:
		_, err := g.ask(ctx, s.pod, "STOP GROUP_REPLICATION")
		return err
	case actionSetPrimary:
		_, err := g.ask(ctx, s.pod, "SELECT group_replication_set_as_primary(?)", s.uuid)
		return err
	case actionNone:
	}
	return nil
}

// bootstrap begins a group. Whatever becomes of it, the member does not begin another one later.
func (g *Group) bootstrap(ctx context.Context, pod string) error {
	if _, err := g.ask(ctx, pod, "SET GLOBAL group_replication_bootstrap_group = ON"); err != nil {
		return err
	}
	err := g.start(ctx, pod)
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTime)
	defer cancel()
	_, off := g.ask(ending, pod, "SET GLOBAL group_replication_bootstrap_group = OFF")
	return errors.Join(err, off)
}

func (g *Group) join(ctx context.Context, pod string) error {
	if _, err := g.ask(ctx, pod, "SET GLOBAL group_replication_bootstrap_group = OFF"); err != nil {
		return err
	}
	return g.start(ctx, pod)
}

// start has a member take part. One that was expelled has to stop first.
func (g *Group) start(ctx context.Context, pod string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, joinTime,
		fmt.Errorf("%s was not known to the others within %s", pod, joinTime))
	defer cancel()
	if _, err := g.ask(ctx, pod, "STOP GROUP_REPLICATION"); err != nil {
		return err
	}
	// The account is kept in memory alone.
	_, err := g.ask(ctx, pod, "START GROUP_REPLICATION USER = ?, PASSWORD = ?", g.Username, g.Password)
	return err
}
