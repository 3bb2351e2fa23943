// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"testing"

	"github.com/zeroinfra/agents/internal/driver"
)

// A node tells its number, so that it can be found among those that others name, and what the status means for it.
func TestAStatusOfKafkaTellsWhatItMeansForANode(t *testing.T) {
	table := driver.Table{Columns: []string{"alive", "controller", "voters"}, Rows: [][]*string{{new("0 1"), new("1001"), new("1000 1001")}}}
	addOwn(&table, "1001")
	var got []string
	for i, column := range table.Columns {
		got = append(got, column+":"+*table.Rows[0][i])
	}
	if want := []string{"alive:0 1", "controller:1001", "voters:1000 1001", "node:1001", "serves:no", "votes:yes", "leads:yes"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
