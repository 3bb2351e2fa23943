// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/zeroinfra/agents/internal/driver"
	"github.com/zeroinfra/agents/internal/planfile"
)

// A node tells its number, so that it can be found among those that others name, and what the status means for it.
func TestAStatusOfKafkaTellsWhatItMeansForANode(t *testing.T) {
	table := driver.Table{Columns: []string{"alive", "controller", "voters", "directories"},
		Rows: [][]*string{{new("0 1"), new("1001"), new("1000 1001"), new("1000:Aw 1001:Bg")}}}
	addOwn(&table, "1001")
	var got []string
	for i, column := range table.Columns {
		got = append(got, column+":"+*table.Rows[0][i])
	}
	if want := []string{"alive:0 1", "controller:1001", "voters:1000 1001", "directories:1000:Aw 1001:Bg", "node:1001",
		"serves:no", "votes:yes", "leads:yes", "directory:Bg"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A node is told to form the cluster once: not again after it has, whatever the engine knows of that.
func TestANodeOfKafkaFormsOneCluster(t *testing.T) {
	dirs := planfile.Dirs{Run: t.TempDir(), PodName: "events-0"}
	mark := filepath.Join(dirs.Run, kafkaBegin)
	told := func(pod string, access driver.Access, want bool) {
		t.Helper()
		if err := begin(dirs, pod, access); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(mark); (err == nil) != want {
			t.Errorf("%s is to begin, and the mark: %v", pod, err)
		}
	}
	told("events-1", driver.ReadWrite, false)
	told("events-0", driver.ReadOnly, false)
	told("events-0", driver.ReadWrite, true)
	if err := os.Rename(mark, filepath.Join(dirs.Run, kafkaBegun)); err != nil {
		t.Fatal(err)
	}
	told("events-0", driver.ReadWrite, false)
}
