// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/zeroinfra/test/bench/quantile"
)

// Side is one of two mechanisms that the same faults are tried on.
type Side string

// Sides.
const (
	// Ours is that of the product.
	Ours Side = "ours"
	// Bare is that of the middleware alone.
	Bare Side = "bare"
)

// Comparison holds trials of faults on both sides. It is safe for concurrent use.
type Comparison struct{ sides map[Side]*Table }

// NewComparison returns one without trials.
func NewComparison() *Comparison {
	return &Comparison{sides: map[Side]*Table{Ours: New(nil), Bare: New(nil)}}
}

// Add notes a trial of a fault on a side.
func (c *Comparison) Add(side Side, name string, trial Trial) { c.sides[side].Add(name, trial) }

// String is a table with a line for each fault that both sides have trials of; empty where there is none. "Ours / bare"
// is how many times as long the gaps of ours are.
func (c *Comparison) String() string {
	ours, bare := c.sides[Ours], c.sides[Bare]
	ours.mu.Lock()
	defer ours.mu.Unlock()
	bare.mu.Lock()
	defer bare.mu.Unlock()
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	lines := 0
	for _, name := range ours.names {
		if bare.trials[name] == nil {
			continue
		}
		if lines++; lines == 1 {
			fmt.Fprintln(table, "fault\ttrials\tlost\tours: gap p50\tp95\tmax\ttrials\tlost\tbare: gap p50\tp95\tmax\tours / "+
				"bare p50\tp95\tmax\t")
		}
		o, b := ours.sum(name), bare.sum(name)
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t\n", name, o.told(), b.told(), ratios(o.gaps, b.gaps))
	}
	// A strings.Builder takes everything.
	_ = table.Flush()
	return text.String()
}

func (s summary) told() string {
	return fmt.Sprintf("%d\t%d of %d\t%s", len(s.gaps), s.lost, s.acknowledged, spread(s.gaps))
}

// ratios of the same quantiles that spread has.
func ratios(ours, bare []time.Duration) string {
	var all []string
	for _, share := range []float64{0.5, 0.95, 1} {
		ratio := "-"
		if of := quantile.Of(bare, share); of > 0 {
			ratio = fmt.Sprintf("%.2f", quantile.Of(ours, share).Seconds()/of.Seconds())
		}
		all = append(all, ratio)
	}
	return strings.Join(all, "\t")
}
