// SPDX-License-Identifier: Apache-2.0

//go:build processes && bench

package kafka_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/zeroinfra/agents/internal/driver"
	"github.com/zeroinfra/agents/internal/driver/kafka"
)

// As many as the ops agent takes in one call.
const (
	changesAtOnce = 500
	queriesAtOnce = 1000
)

// TestTenThousandTopics measures what the driver needs of one broker to make, observe and delete as many topics as a
// cluster is to hold, each with a setting and an access rule. It fails where a call takes longer than an agent waits.
func TestTenThousandTopics(t *testing.T) {
	const topics = 10000
	// The virtual machine takes it in place of the flags of testkafka: with 256 MiB it does little but collect garbage
	// from 7,000 partitions on.
	t.Setenv("_JAVA_OPTIONS", "-Xmx1g")
	s := newServer(t, 1)
	var names []string
	for i := range topics {
		names = append(names, fmt.Sprintf("topic-%05d", i))
	}
	began := time.Now()
	s.each(names, changesAtOnce, "create", func(ctx context.Context, batch []string) error {
		return s.all(ctx, batch, driver.Create)
	})
	t.Logf("%d topics were made in %v", topics, time.Since(began))
	for range 2 {
		began = time.Now()
		found := 0
		s.each(names, queriesAtOnce, "observe", func(ctx context.Context, batch []string) error {
			var queries []driver.Query
			for _, name := range batch {
				queries = append(queries, driver.Query{Name: name})
			}
			states, err := s.driver.Observe(ctx, kafka.KindTopic, queries)
			found += len(states)
			return err
		})
		if found != topics {
			t.Fatalf("%d topics are there, want %d", found, topics)
		}
		t.Logf("%d topics were observed in %v", topics, time.Since(began))
	}
	began = time.Now()
	s.each(names, changesAtOnce, "delete", func(ctx context.Context, batch []string) error {
		return s.all(ctx, batch, driver.Delete)
	})
	t.Logf("%d topics were deleted in %v", topics, time.Since(began))
}

// each calls do for a batch after another, and tells how long the fastest and the slowest took.
func (s *server) each(names []string, size int, what string, do func(context.Context, []string) error) {
	s.Helper()
	var took []time.Duration
	for batch := range slices.Chunk(names, size) {
		ctx, cancel := context.WithTimeout(s.Context(), callTime)
		began := time.Now()
		err := do(ctx, batch)
		cancel()
		took = append(took, time.Since(began))
		if err != nil {
			s.Fatalf("%s, from %s on: after %v: %v", what, batch[0], took[len(took)-1], err)
		}
	}
	s.Logf("%s: %d calls of %d, first %v, last %v, longest %v", what, len(took), size, took[0], took[len(took)-1],
		slices.Max(took))
}

func (s *server) all(ctx context.Context, names []string, intent driver.Intent) error {
	var changes []driver.Change
	for _, name := range names {
		changes = append(changes, topicOf(name, intent, "partitions", "1", "replication-factor", "1",
			"config", `{"retention.ms":"3600000"}`, "access", `{"User:alice":["read"]}`))
	}
	problems, err := s.driver.Change(ctx, kafka.KindTopic, changes)
	if err == nil && len(problems) > 0 {
		err = fmt.Errorf("%d problems, such as %q", len(problems), problems[names[0]])
	}
	return err
}
