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

// tell notes what a trial has shown.
func (v verdict) tell(name string) {
	tried.Add(name, faults.Trial{Gap: v.gap, Vacancy: v.vacancy, Acknowledged: v.acknowledged, Lost: v.lost})
}

// tellFaults prints the table of all trials. Where budgets are to be held it says which are not, and returns the exit code of that.
func tellFaults(code int) int {
	fmt.Print(tried)
	if !set.holdBudgets {
		return code
	}
	for _, sentence := range tried.Missed() {
		fmt.Fprintf(os.Stderr, "e2e: %s\n", sentence)
		code = max(code, 1)
	}
	return code
}
