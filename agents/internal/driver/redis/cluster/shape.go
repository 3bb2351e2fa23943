// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"strconv"
	"strings"
)

const (
	// Slots are how many hash slots there are in every cluster.
	Slots = 16384
	// minShards is how many primaries can elect another one when one of them fails.
	minShards = 3
	// maxMembers bounds what one call looks at.
	maxMembers = 500
	// defaultPort of Redis.
	defaultPort = 6379
)

// Shape is what a cluster is to be. A member is named by its address, host:port, or by the first part of its host name
// where there is a Domain.
type Shape struct {
	// Shards are the members of each, at least three shards. Which of them takes writes is for the cluster to decide.
	Shards [][]string `json:"shards"`
	// Leaving are the members of shards and replicas that are to go: they give up their slots, and are dropped then.
	Leaving []string `json:"leaving,omitempty"`
	// Drain names members that are about to be taken out for a while: none of them is to own slots.
	Drain []string `json:"yield,omitempty"`
	// Abandon are ids of nodes whose data is given up for lost: their slots are handed out without what was in them.
	Abandon []string `json:"abandon,omitempty"`
	// Goal is how far to go. Default Converge.
	Goal Goal `json:"goal,omitempty"`
	// Domain is put behind names without a dot; empty where members are given in full.
	Domain string `json:"domain,omitempty"`
	// Port of members that are given without one. Default 6379.
	Port int `json:"port,omitempty"`
	// Moves says whether slots may go from one shard to another. Default MovesAllowed.
	Moves Moves `json:"moves,omitempty"`
	// Memory is how many bytes a member may use where its maxmemory does not say. 0 for no limit.
	Memory int64 `json:"memory,omitempty"`
}

// Goal says how far a cluster is brought.
type Goal string

// Values of Goal.
const (
	// Converge brings it to its shape.
	Converge Goal = "Converge"
	// GiveUp has the nodes of Abandon be dropped, and nothing else: their slots are without an owner then.
	GiveUp Goal = "GiveUp"
)

// Moves says whether slots may go from one shard to another.
type Moves string

// Values of Moves.
const (
	MovesAllowed Moves = "Allowed"
	// MovesHeld: a backup takes the keys of one shard after the other. What nobody owns gets an owner, and what is open is
	// closed, all the same: neither can be where a backup has begun.
	MovesHeld Moves = "Held"
)

// ParseShape reads a shape from JSON, and refuses one that cannot be.
func ParseShape(text string) (*Shape, error) {
	var shape Shape
	decoder := json.NewDecoder(bytes.NewReader([]byte(text)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&shape); err != nil {
		return nil, fmt.Errorf("the shape is no JSON that can be read: %w", err)
	}
	if err := shape.complete(); err != nil {
		return nil, err
	}
	return &shape, nil
}

// complete puts addresses in place of names, and checks.
func (s *Shape) complete() error {
	if len(s.Shards) < minShards {
		return fmt.Errorf("the shape has %d shards: a cluster needs at least %d, or no primary can be elected when one fails",
			len(s.Shards), minShards)
	}
	if s.Goal == "" {
		s.Goal = Converge
	}
	if s.Goal != Converge && s.Goal != GiveUp {
		return fmt.Errorf("the goal is %q: it must be %s or %s", s.Goal, Converge, GiveUp)
	}
	if s.Moves == "" {
		s.Moves = MovesAllowed
	}
	if s.Moves != MovesAllowed && s.Moves != MovesHeld {
		return fmt.Errorf("moves is %q: it must be %s or %s", s.Moves, MovesAllowed, MovesHeld)
	}
	if s.Memory < 0 || s.Port < 0 || s.Port > 65535 {
		return fmt.Errorf("the shape has memory %d and port %d: a size and a port are wanted", s.Memory, s.Port)
	}
	seen := map[string]bool{}
	lists := append([][]string{s.Leaving}, s.Shards...)
	for i, list := range lists {
		if i > 0 && len(list) == 0 {
			return fmt.Errorf("shard %d has no members", i-1)
		}
		for j, name := range list {
			address, err := s.address(name)
			if err != nil {
				return err
			}
			if seen[address] {
				return fmt.Errorf("member %q is there twice", address)
			}
			seen[address], list[j] = true, address
		}
	}
	if len(seen) > maxMembers {
		return fmt.Errorf("the shape has %d members: at most %d are looked after", len(seen), maxMembers)
	}
	for i, name := range s.Drain {
		address, err := s.address(name)
		if err == nil && !seen[address] {
			err = fmt.Errorf("member %q is to yield, and is in no shard", address)
		}
		if err != nil {
			return err
		}
		s.Drain[i] = address
	}
	return nil
}

// address of a member in full.
func (s *Shape) address(name string) (string, error) {
	host, port := name, strconv.Itoa(s.Port)
	if s.Port == 0 {
		port = strconv.Itoa(defaultPort)
	}
	if strings.Contains(name, ":") {
		var err error
		if host, port, err = net.SplitHostPort(name); err != nil {
			return "", fmt.Errorf("member %q is no host:port: %w", name, err)
		}
	}
	if s.Domain != "" && !strings.ContainsAny(host, ".:") {
		host += "." + s.Domain
	}
	if number, err := strconv.Atoi(port); host == "" || err != nil || number < 1 || number > 65535 ||
		strings.ContainsAny(host, " \r\n\t") {
		return "", fmt.Errorf("member %q is no host:port", name)
	}
	return net.JoinHostPort(host, port), nil
}

// members are all, those that stay first.
func (s *Shape) members() []string {
	var all []string
	for _, shard := range s.Shards {
		all = append(all, shard...)
	}
	return append(all, s.Leaving...)
}
