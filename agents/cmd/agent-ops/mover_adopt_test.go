// SPDX-License-Identifier: Apache-2.0

//go:build processes

package main

import (
	"os"
	"slices"
	"testing"

	protocol "github.com/zeroinfra/platform-core/agentproto/mover"
)

// snapshotted has a disk as a snapshot of a Redis with a log of writes and agents beside it leaves it.
func (m *carrier) snapshotted() {
	m.Helper()
	m.disk()
	if err := os.Mkdir(m.path("disk", "appendonlydir"), 0o755); err != nil {
		m.Fatal(err)
	}
	for _, name := range []string{"appendonlydir/appendonly.aof.manifest", "appendonlydir/temp-rewriteaof-7.aof",
		"dump.rdb", "temp-7.rdb", ".zeroinfra.member", protocol.RestoredName} {
		m.write("disk/"+name, []byte("of another member\n"))
	}
}

// adopts is the plan by which a shipped plugin takes a snapshot over.
func (m *carrier) adopts(facts map[string]string) protocol.Plan {
	m.Helper()
	return protocol.Plan{Verb: protocol.VerbAdopt, Command: methodOf(m.T, "redis", "redis", "snapshot").Restore.Command,
		Known: facts, Volume: &protocol.TargetVolume{Folder: m.path("disk"), ID: "1a2b-3c4d"}}
}

// What was of the former member alone goes, the data stays, and it is done once.
func TestASnapshotIsAdopted(t *testing.T) {
	m := newMover(t)
	m.snapshotted()
	m.env = append(m.env, "APPENDONLY=yes")
	plan := m.adopts(map[string]string{"appendonly": "yes"})
	m.succeeds(plan)
	if on := m.on(); !slices.Equal(on, []string{protocol.RestoredName, "appendonlydir", "dump.rdb", "lost+found"}) {
		t.Errorf("there is %v", on)
	}
	if entries, err := os.ReadDir(m.path("disk", "appendonlydir")); err != nil || len(entries) != 1 ||
		entries[0].Name() != "appendonly.aof.manifest" {
		t.Errorf("the log is %v: %v", entries, err)
	}
	// A second mover, after a result that was lost, does nothing.
	m.write("disk/dump.rdb", []byte("written since\n"))
	plan.Command = []string{"false"}
	m.succeeds(plan)
}

// What a server would not read is refused, and can be tried again.
func TestASnapshotThatCannotBeAdopted(t *testing.T) {
	m := newMover(t)
	m.snapshotted()
	m.env = append(m.env, "APPENDONLY=no")
	m.fails(m.adopts(map[string]string{"appendonly": "yes"}), protocol.ReasonCommandFailed,
		"set parameter appendonly to yes")
	m.fails(m.adopts(nil), protocol.ReasonCommandFailed, "does not say whether its data is in a log")
	m.succeeds(m.adopts(map[string]string{"appendonly": "no"}))
	if on := m.on(); !slices.Equal(on, []string{protocol.RestoredName, "dump.rdb", "lost+found"}) {
		t.Errorf("there is %v", on)
	}
}
