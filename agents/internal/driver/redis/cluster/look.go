// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"sync"
)

// atOnce is how many members are asked at a time. One, in simulations, makes what happens the same each time.
var atOnce = 8

// Transport carries commands to members.
type Transport interface {
	// Send has a member carry out commands in one go, and returns an answer, or an error, for each. The error says that
	// nothing is known.
	Send(ctx context.Context, member string, commands ...Command) ([]Answer, error)
	// Address is the IP address and port of a member at which Send reaches it.
	Address(ctx context.Context, member string) (string, error)
}

// Command and its words.
type Command []string

// Answer to a command: an integer as int64, a text, or a list of these.
type Answer struct {
	Value any
	Err   error
}

// text of an answer.
func (a Answer) text() (string, error) {
	if a.Err != nil {
		return "", a.Err
	}
	text, ok := a.Value.(string)
	if !ok {
		return "", fmt.Errorf("the answer %v is no text", a.Value)
	}
	return text, nil
}

// depth is how closely one looks.
type depth int

const (
	// lightly: only slots that somebody tells to be open are searched for keys.
	lightly depth = iota
	// deeply: every slot that a primary does not own is.
	deeply
)

// eachOf calls do for all members, some at a time.
func eachOf[T any](all []T, do func(int, T)) {
	var wait sync.WaitGroup
	places := make(chan struct{}, atOnce)
	for i, one := range all {
		places <- struct{}{}
		wait.Go(func() {
			defer func() { <-places }()
			do(i, one)
		})
	}
	wait.Wait()
}

// Look asks all members of a shape. A member that does not answer is a view with a problem.
func Look(ctx context.Context, t Transport, shape *Shape) []View { return look(ctx, t, shape, deeply) }

func look(ctx context.Context, t Transport, shape *Shape, how depth) []View {
	members := shape.members()
	views := make([]View, len(members))
	eachOf(members, func(i int, member string) {
		v, err := lookAt(ctx, t, member)
		if err != nil {
			v = View{Member: member, Problem: err.Error()}
		}
		views[i] = v
	})
	open := map[int]bool{}
	for i := range views {
		if v := &views[i]; v.seen() {
			for slot := range v.own().Migrating {
				open[slot] = true
			}
			for slot := range v.own().Importing {
				open[slot] = true
			}
		}
	}
	eachOf(members, func(i int, _ string) {
		v := &views[i]
		if !v.seen() || !v.primary() || how == lightly && len(open) == 0 {
			return
		}
		if err := v.searchStrays(ctx, t, open, how); err != nil {
			*v = View{Member: v.Member, Problem: err.Error()}
		}
	})
	return views
}

// lookAt one member.
func lookAt(ctx context.Context, t Transport, member string) (View, error) {
	answers, err := t.Send(ctx, member, Command{"CLUSTER", "MYID"}, Command{"CLUSTER", "NODES"},
		Command{"CLUSTER", "INFO"}, Command{"DBSIZE"},
		Command{"INFO", "memory"}, Command{"INFO", "replication"})
	if err != nil {
		return View{}, err
	}
	texts := make([]string, len(answers))
	for i, answer := range answers {
		if i == 3 {
			continue
		}
		if texts[i], err = answer.text(); err != nil {
			return View{}, err
		}
	}
	if answers[3].Err != nil {
		return View{}, answers[3].Err
	}
	v := View{Member: member, ID: texts[0]}
	if v.Nodes, err = ParseNodes(texts[1]); err != nil {
		return View{}, err
	}
	if v.own() == nil {
		return View{}, fmt.Errorf("it does not list itself among its nodes")
	}
	if v.Address, err = t.Address(ctx, member); err != nil {
		return View{}, err
	}
	keys, _ := answers[3].Value.(int64)
	cluster, memory, replication := fieldsOf(texts[2]), fieldsOf(texts[4]), fieldsOf(texts[5])
	v.State, v.Epoch, v.Keys = cluster["cluster_state"], uint64(number(cluster, "cluster_current_epoch")), keys
	v.Used, v.Dataset, v.Limit = number(memory, "used_memory"), number(memory, "used_memory_dataset"),
		number(memory, "maxmemory")
	v.Offset, v.Link = number(replication, "master_repl_offset"), replication["master_link_status"] == "up"
	// It is -1 for one that never had.
	since, down := replication["master_link_down_since_seconds"]
	v.Heard = v.Link || down && since != "-1"
	if host := replication["master_host"]; host != "" {
		v.Upstream = net.JoinHostPort(host, replication["master_port"])
	}
	return v, nil
}

// searchStrays counts keys in slots that a primary does not own.
func (v *View) searchStrays(ctx context.Context, t Transport, open map[int]bool, how depth) error {
	owned := make([]bool, Slots)
	for _, r := range v.own().Slots {
		for slot := r.First; slot <= r.Last; slot++ {
			owned[slot] = true
		}
	}
	// Where no keys are, none is astray.
	if v.Keys == 0 {
		return nil
	}
	var slots []int
	var commands []Command
	for slot := range Slots {
		if !owned[slot] && (how == deeply || open[slot]) {
			slots, commands = append(slots, slot), append(commands, Command{"CLUSTER", "COUNTKEYSINSLOT", strconv.Itoa(slot)})
		}
	}
	if len(commands) == 0 {
		return nil
	}
	answers, err := t.Send(ctx, v.Member, commands...)
	if err != nil {
		return err
	}
	for i, answer := range answers {
		if answer.Err != nil {
			return answer.Err
		}
		if count, _ := answer.Value.(int64); count > 0 {
			if v.Strays == nil {
				v.Strays = map[int]int64{}
			}
			v.Strays[slots[i]] = count
		}
	}
	return nil
}
