// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"os"
	"time"

	"github.com/zeroinfra/test/bench/faults"
)

// tried are all trials of faults of all tests, under the names of middleware and fault.
var tried = faults.New(map[string]faults.Budget{
	"one server: process killed":             {P95: 2 * time.Second},
	"one server: restarted by an Operation":  {P95: 2 * time.Second},
	"Redis: process killed":                  {P95: 2 * time.Second},
	"Redis: process does not come back":      {P95: 3 * time.Second},
	"Redis: node cut off":                    {P95: 20 * time.Second},
	"Redis: node with the leader cut off":    {P95: 40 * time.Second},
	"PostgreSQL: process killed":             {P95: 2 * time.Second},
	"PostgreSQL: process does not come back": {P95: 5 * time.Second},
	"PostgreSQL: pod deleted":                {P95: 12 * time.Second},
	"PostgreSQL: pod and volume deleted":     {P95: 12 * time.Second},
	"PostgreSQL: switched over":              {P95: 2 * time.Second},
	"PostgreSQL: node cut off":               {P95: 20 * time.Second},
	"cluster: restarted by an Operation":     {P95: 2 * time.Second},
	"Sentinel: restarted by an Operation":    {P95: 2 * time.Second},
	// Here the members elect, and their own timeouts decide how long that takes.
	"cluster: process killed":              {P95: 3 * time.Second, Weight: faults.Aim},
	"Sentinel: process killed":             {P95: 3 * time.Second, Weight: faults.Aim},
	"Sentinel: process does not come back": {P95: 3 * time.Second, Weight: faults.Aim},
})

// beside are the trials of faults that were tried on both sides.
var beside = faults.NewComparison()

// recorded are all trials in a file, with those of runs before; nil for none.
var recorded *faults.Record

// resume goes on with the record of former runs, where the environment names one.
func resume() (err error) {
	if set.record != "" {
		recorded, err = faults.Resume(set.record, set.recordOf, tried, beside)
	}
	return err
}

// trial is what was seen, as it is told.
func (v verdict) trial() faults.Trial {
	return faults.Trial{Gap: v.gap, Vacancy: v.vacancy, Acknowledged: v.acknowledged, Lost: v.lost}
}

// tellBeside notes what a trial on one side has shown.
func (v verdict) tellBeside(side faults.Side, name string) {
	beside.Add(side, name, v.trial())
	recorded.Add(side, name, v.trial())
}

// tell notes what a trial has shown.
func (v verdict) tell(name string) {
	tried.Add(name, v.trial())
	recorded.Add("", name, v.trial())
}

// tellFaults prints the tables of all trials. Where budgets are to be held it says which are not, and returns the exit code of that.
func tellFaults(code int) int {
	fmt.Print(tried)
	fmt.Print(beside)
	if err := recorded.Close(); err != nil {
		fmt.Fprintf(os.Stderr, "e2e: %v\n", err)
		code = max(code, 1)
	}
	if !set.holdBudgets {
		return code
	}
	for _, sentence := range tried.Missed() {
		fmt.Fprintf(os.Stderr, "e2e: %s\n", sentence)
		code = max(code, 1)
	}
	return code
}
