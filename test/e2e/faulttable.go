// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/zeroinfra/test/bench/quantile"
)

// faults are all trials of all tests.
var faults faultTable

// faultTable is what trials of faults have shown, by fault.
type faultTable struct {
	mu sync.Mutex
	// names of the faults in the order in which they were tried first.
	names  []string
	trials map[string][]verdict
}

func (f *faultTable) add(name string, v verdict) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.trials == nil {
		f.trials = map[string][]verdict{}
	}
	if f.trials[name] == nil {
		f.names = append(f.names, name)
	}
	f.trials[name] = append(f.trials[name], v)
}

// String is a table with a line for each fault; empty when nothing was tried. "No writer" is the longest time of a trial in which no
// member took writes, "service" that without a write that was acknowledged with a replica, as a client sees it.
func (f *faultTable) String() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.names) == 0 {
		return ""
	}
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "fault\ttrials\twrites\tlost\tno writer p50\tp95\tmax\tservice p50\tp95\tmax")
	for _, name := range f.names {
		var writes, lost int
		var vacancies, gaps []time.Duration
		for _, v := range f.trials[name] {
			writes, lost = writes+v.acknowledged, lost+v.lost
			vacancies, gaps = append(vacancies, v.vacancy), append(gaps, v.gap)
		}
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%s\t%s\n", name, len(vacancies), writes, lost, spread(vacancies), spread(gaps))
	}
	// A strings.Builder takes everything.
	_ = table.Flush()
	return text.String()
}

func spread(samples []time.Duration) string {
	return strings.Join([]string{seconds(quantile.Of(samples, 0.5)), seconds(quantile.Of(samples, 0.95)), seconds(quantile.Of(samples, 1))}, "\t")
}
