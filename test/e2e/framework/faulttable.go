// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"fmt"
	"os"
	"time"

	"github.com/zeroinfra/test/bench/faults"
)

// Trials are all trials of faults of all tests, under the names of middleware and fault.
var Trials = faults.New(map[string]faults.Budget{
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
	"MySQL: process killed":                  {P95: 10 * time.Second},
	"MySQL: node cut off":                    {P95: 20 * time.Second},
	"cluster: restarted by an Operation":     {P95: 2 * time.Second},
	"Sentinel: restarted by an Operation":    {P95: 2 * time.Second},
	// Here the members elect, and their own timeouts decide how long that takes.
	"cluster: process killed":              {P95: 3 * time.Second, Weight: faults.Aim},
	"Sentinel: process killed":             {P95: 3 * time.Second, Weight: faults.Aim},
	"Sentinel: process does not come back": {P95: 3 * time.Second, Weight: faults.Aim},
})

// Comparison are the trials of faults that were tried on both sides.
var Comparison = faults.NewComparison()

// Record are all trials in a file, with those of runs before; nil for none.
var Record *faults.Record

// resumeRecord goes on with the record of former runs, where the environment names one.
func resumeRecord() (err error) {
	if Config.record != "" {
		Record, err = faults.Resume(Config.record, Config.recordOf, Trials, Comparison)
	}
	return err
}

// FaultTrial is what was seen, as it is told.
func (v Verdict) FaultTrial() faults.Trial {
	return faults.Trial{Gap: v.Gap, Vacancy: v.Vacancy, Acknowledged: v.Acknowledged, Lost: v.Lost}
}

// RecordComparison notes what a trial on one side has shown.
func (v Verdict) RecordComparison(side faults.Side, name string) {
	Comparison.Add(side, name, v.FaultTrial())
	Record.Add(side, name, v.FaultTrial())
}

// Record notes what a trial has shown.
func (v Verdict) Record(name string) {
	Trials.Add(name, v.FaultTrial())
	Record.Add("", name, v.FaultTrial())
}

// reportFaults prints the tables of all trials. Where budgets are to be held it says which are not, and returns the
// exit code of that.
func reportFaults(code int) int {
	fmt.Print(Trials)
	fmt.Print(Comparison)
	if err := Record.Close(); err != nil {
		fmt.Fprintf(os.Stderr, "e2e: %v\n", err)
		code = max(code, 1)
	}
	if !Config.HoldBudgets {
		return code
	}
	for _, sentence := range Trials.Missed() {
		fmt.Fprintf(os.Stderr, "e2e: %s\n", sentence)
		code = max(code, 1)
	}
	return code
}
