// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"testing"
	"time"
)

// A reassignment says how many moves are to go, and how long they will take as soon as some are done.
func TestForecast(t *testing.T) {
	at := time.Unix(1000, 0)
	f := forecast{now: func() time.Time { return at }}
	for _, step := range []struct {
		after time.Duration
		state reassignment
		want  string
	}{
		{0, reassignment{between: betweenBrokers, moving: 20, left: 80},
			"100 of 100 moves between brokers to go, 20 of them under way"},
		{2 * time.Second, reassignment{between: betweenBrokers, moving: 20, left: 75}, ""},
		{58 * time.Second, reassignment{between: betweenBrokers, moving: 20, left: 60},
			"80 of 100 moves between brokers to go, 20 of them under way, about 4 min"},
		{time.Minute, reassignment{between: betweenBrokers, moving: 20, left: 79},
			"99 of 100 moves between brokers to go, 20 of them under way, about 3 h 18 min"},
		// More than at first: somebody made a topic.
		{time.Second, reassignment{between: betweenBrokers, moving: 20, left: 90},
			"110 of 110 moves between brokers to go, 20 of them under way"},
		{time.Second, reassignment{between: betweenVolumes, moving: 2},
			"2 of 2 moves between volumes to go, 2 of them under way"},
		{12 * time.Second, reassignment{between: betweenVolumes, moving: 1},
			"1 of 2 moves between volumes to go, 1 of them under way, about a minute"},
		{12 * time.Second, reassignment{between: betweenVolumes, down: []int32{3, 4}},
			"waits for brokers that are down: 3 4"},
	} {
		at = at.Add(step.after)
		if got := f.says(step.state); got != step.want {
			t.Errorf("at %v: got %q, want %q", at.Unix(), got, step.want)
		}
	}
}
