// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"fmt"
	"time"

	"github.com/zeroinfra/agents/internal/driver"
)

// reassignment is how far one is.
type reassignment struct {
	phase string
	// between is where replicas move: betweenBrokers or betweenVolumes; empty when it is done.
	between string
	// begun now, moving and left, which have not begun, are numbers of partitions.
	begun, moving, left int
	// down are brokers that are waited for.
	down []int32
}

// Where replicas move.
const (
	betweenBrokers = "brokers"
	betweenVolumes = "volumes"
)

func (r reassignment) table() driver.Table {
	return tableOf([]string{"phase", "between", "begun", "moving", "left"}, r.phase, r.between, number(r.begun),
		number(r.moving), number(r.left))
}

// forecastPause is between two sentences, each of which is written to the status of an Operation.
const forecastPause = 10 * time.Second

// forecast says how long a reassignment will take, by how fast it was.
type forecast struct {
	now func() time.Time
	// between is what is going on, since begun, when there were so many moves to make.
	between string
	begun   time.Time
	moves   int
	said    time.Time
}

// says is a sentence for people; empty where one was said a moment ago.
func (f *forecast) says(state reassignment) string {
	now, moves := f.now(), state.moving+state.left
	// Somebody made more partitions, or one phase follows another.
	if state.between != f.between || moves > f.moves {
		f.between, f.begun, f.moves, f.said = state.between, now, moves, time.Time{}
	}
	if now.Sub(f.said) < forecastPause {
		return ""
	}
	f.said = now
	if moves == 0 && len(state.down) > 0 {
		return fmt.Sprintf("waits for brokers that are down: %s", numbers(state.down))
	}
	sentence := fmt.Sprintf("%d of %d moves between %s to go, %d of them under way", moves, f.moves, state.between,
		state.moving)
	if done := f.moves - moves; done > 0 {
		left := time.Duration(float64(now.Sub(f.begun)) / float64(done) * float64(moves))
		sentence += ", about " + coarse(left)
	}
	return sentence
}

// coarse is a time that does not change all the while.
func coarse(d time.Duration) string {
	switch {
	case d < time.Minute:
		return "a minute"
	case d < time.Hour:
		return fmt.Sprintf("%d min", d.Round(time.Minute)/time.Minute)
	}
	return fmt.Sprintf("%d h %d min", d/time.Hour, d%time.Hour/time.Minute)
}
