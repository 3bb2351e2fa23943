// SPDX-License-Identifier: Apache-2.0

// Package faults puts together what trials of faults have shown, and holds it against what they may cost.
package faults

import (
	"fmt"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/zeroinfra/test/bench/quantile"
)

// Trial is what clients that wrote meanwhile have seen of one fault.
type Trial struct {
	// Gap is the longest time without a write that was acknowledged, and Vacancy that without a member that took writes.
	Gap, Vacancy time.Duration
	// Acknowledged counts the writes that were, and Lost those of them that could not be read back.
	Acknowledged, Lost int
}

// Budget is what a fault may cost: the 95th percentile of the gaps of its trials.
type Budget struct {
	P95    time.Duration
	Weight Weight
}

// Weight says what comes of a budget that is missed.
type Weight string

// Weights.
const (
	// Firm: Missed names it.
	Firm Weight = ""
	// Aim: the table shows it, and nothing else comes of it.
	Aim Weight = "aim"
)

// Table holds all trials by fault. It is safe for concurrent use.
type Table struct {
	budgets map[string]Budget
	mu      sync.Mutex
	// names of the faults in the order in which they were tried first.
	names  []string
	trials map[string][]Trial
}

// New returns a table without trials, of faults with these budgets. Faults without one can be added, too.
func New(budgets map[string]Budget) *Table {
	return &Table{budgets: budgets, trials: map[string][]Trial{}}
}

// Add notes a trial of a fault.
func (t *Table) Add(name string, trial Trial) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.trials[name] == nil {
		t.names = append(t.names, name)
	}
	t.trials[name] = append(t.trials[name], trial)
}

// String is a table with a line for each fault; empty when nothing was tried. "No writer" is the longest time of a
// trial in which no member took writes, "gap" that without a write that was acknowledged, as a client sees it, and
// "budget" what its p95 may be.
func (t *Table) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.names) == 0 {
		return ""
	}
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "fault\ttrials\twrites\tlost\tno writer p50\tp95\tmax\tgap p50\tp95\tmax\tbudget\t")
	for _, name := range t.names {
		s := t.sum(name)
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%s\t%s\t%s\n", name, len(s.gaps), s.acknowledged, s.lost, spread(s.vacancies),
			spread(s.gaps), t.judged(name, s))
	}
	// A strings.Builder takes everything.
	_ = table.Flush()
	return text.String()
}

// Missed says in a sentence each what must not be: a firm budget that the trials of a fault are over, and writes that
// are lost.
func (t *Table) Missed() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var missed []string
	for _, name := range t.names {
		s := t.sum(name)
		if s.lost > 0 {
			missed = append(missed, fmt.Sprintf("%s: %d of %d acknowledged writes are lost", name, s.lost, s.acknowledged))
		}
		if budget, ok := t.budgets[name]; ok && budget.Weight == Firm && s.p95() > budget.P95 {
			missed = append(missed, fmt.Sprintf("%s: the p95 of the gaps of %d trials is %s, over the budget of %s", name,
				len(s.gaps), seconds(s.p95()), seconds(budget.P95)))
		}
	}
	return missed
}

// summary is what all trials of a fault come to.
type summary struct {
	acknowledged, lost int
	vacancies, gaps    []time.Duration
}

func (s summary) p95() time.Duration { return quantile.Of(s.gaps, 0.95) }

func (t *Table) sum(name string) summary {
	var s summary
	for _, trial := range t.trials[name] {
		s.acknowledged, s.lost = s.acknowledged+trial.Acknowledged, s.lost+trial.Lost
		s.vacancies, s.gaps = append(s.vacancies, trial.Vacancy), append(s.gaps, trial.Gap)
	}
	return s
}

// judged is the budget of a fault and how the trials stand to it.
func (t *Table) judged(name string, s summary) string {
	budget, ok := t.budgets[name]
	if !ok {
		return "-\t"
	}
	verdict := "met"
	switch {
	case s.p95() > budget.P95 && budget.Weight == Aim:
		verdict = "missed (an aim)"
	case s.p95() > budget.P95:
		verdict = "MISSED"
	}
	return seconds(budget.P95) + "\t" + verdict
}

func spread(samples []time.Duration) string {
	return strings.Join([]string{seconds(quantile.Of(samples, 0.5)), seconds(quantile.Of(samples, 0.95)),
		seconds(quantile.Of(samples, 1))}, "\t")
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }
