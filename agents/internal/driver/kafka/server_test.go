// SPDX-License-Identifier: Apache-2.0

//go:build processes

package kafka_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zeroinfra/agents/internal/driver"
	"github.com/zeroinfra/agents/internal/driver/kafka"
	"github.com/zeroinfra/agents/internal/testkafka"
)

// callTime is what one call of a test has.
const callTime = 4 * time.Minute

// server is a cluster and the driver of its first broker.
type server struct {
	*testkafka.Cluster
	driver *kafka.Driver
}

func newServer(t *testing.T, nodes int, settings ...string) *server {
	t.Helper()
	c := testkafka.New(t, nodes, settings...)
	return &server{c, driverOf(c, testkafka.Admin, testkafka.AdminPassword)}
}

func driverOf(c *testkafka.Cluster, username, password string) *kafka.Driver {
	return kafka.New(kafka.Options{Address: c.Nodes[0].Address, CAFile: c.CAFile, Username: username,
		Password: func() (string, error) { return password, nil }})
}

// change makes one change and returns the problem.
func (s *server) change(kind string, change driver.Change) string {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), callTime)
	defer cancel()
	problems, err := s.driver.Change(ctx, kind, []driver.Change{change})
	if err != nil {
		s.Fatalf("%s %s: %v", change.Intent, change.Name, err)
	}
	return problems[change.Name]
}

// must make a change.
func (s *server) must(kind string, change driver.Change) {
	s.Helper()
	if problem := s.change(kind, change); problem != "" {
		s.Fatalf("%s %s: %s", change.Intent, change.Name, problem)
	}
}

// refused fails where a change is not refused with the sentence.
func (s *server) refused(kind string, change driver.Change, sentence string) {
	s.Helper()
	if problem := s.change(kind, change); !strings.Contains(problem, sentence) {
		s.Errorf("%s %s: got %q, want %q", change.Intent, change.Name, problem, sentence)
	}
}

// observe returns one object; nil where it is not there.
func (s *server) observe(kind string, query driver.Query) *driver.State {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), callTime)
	defer cancel()
	states, err := s.driver.Observe(ctx, kind, []driver.Query{query})
	if err != nil {
		s.Fatalf("%s %s: %v", kind, query.Name, err)
	}
	if len(states) == 0 {
		return nil
	}
	return &states[0]
}

// has fails where an object is not there with just these parameters.
func (s *server) has(kind, name string, want map[string]string) {
	s.Helper()
	state := s.observe(kind, driver.Query{Name: name})
	if state == nil || !maps.Equal(state.Parameters, want) {
		s.Errorf("%s %s: got %+v, want %v", kind, name, state, want)
	}
}

// gone fails where an object is there.
func (s *server) gone(kind, name string) {
	s.Helper()
	if state := s.observe(kind, driver.Query{Name: name}); state != nil {
		s.Errorf("%s %s: got %+v, want none", kind, name, state)
	}
}

func topicOf(name string, intent driver.Intent, parameters ...string) driver.Change {
	return changeOf(name, intent, "", parameters...)
}

// changeOf has parameters as names and values in turn.
func changeOf(name string, intent driver.Intent, password string, parameters ...string) driver.Change {
	change := driver.Change{Query: driver.Query{Name: name, Password: password}, Intent: intent,
		Parameters: map[string]string{}}
	for pair := range slices.Chunk(parameters, 2) {
		change.Parameters[pair[0]] = pair[1]
	}
	return change
}

// query asks the driver, and returns its rows as maps.
func (s *server) query(text string, arguments ...string) []map[string]string {
	s.Helper()
	rows, err := s.ask(driver.ReadWrite, text, arguments...)
	if err != nil {
		s.Fatalf("%s: %v", text, err)
	}
	return rows
}

func (s *server) ask(access driver.Access, text string, arguments ...string) ([]map[string]string, error) {
	ctx, cancel := context.WithTimeout(s.Context(), callTime)
	defer cancel()
	table, err := s.driver.Query(ctx, driver.Statement{Text: text, Arguments: arguments, Access: access})
	var rows []map[string]string
	for _, row := range table.Rows {
		values := map[string]string{}
		for i, value := range row {
			if value != nil {
				values[table.Columns[i]] = *value
			}
		}
		rows = append(rows, values)
	}
	return rows, err
}
