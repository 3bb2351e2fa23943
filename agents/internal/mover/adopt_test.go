// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zeroinfra/platform-core/agentproto/mover"
)

// A plan to adopt names a volume, a command and facts, and no repository.
func TestAdoptionIsPlanned(t *testing.T) {
	const into = `"volume":{"folder":"/data","id":"uid"}`
	for plan, says := range map[string]string{
		`{"verb":"adopt","command":["a"],"known":{"role":"x"},` + into + `}`:                      "",
		`{"verb":"adopt","command":["a"]}`:                                                        "needs a volume",
		`{"verb":"adopt",` + into + `}`:                                                           "a command of 0 words",
		`{"verb":"adopt","command":["a"],"repository":{"type":"Volume"},` + into + `}`:            "has no repository",
		`{"verb":"adopt","command":["a"],"backup":{"key":"a/b/c"},` + into + `}`:                  "not for one backup",
		`{"verb":"check","known":{"role":"x"},"repository":{"type":"Volume"}}`:                    "is told no facts",
		`{"verb":"inspect","backup":{"key":"a/b/c"},"repository":{"type":"Volume"},` + into + `}`: "fills no volume",
	} {
		if _, err := ReadPlan([]byte(plan)); (err == nil) != (says == "") || err != nil &&
			!strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", plan, err, says)
		}
	}
}

// What is there already is left as it is, and an empty volume is none of a snapshot.
func TestWhatCannotBeAdopted(t *testing.T) {
	folder := t.TempDir()
	m := &Mover{}
	plan := &mover.Plan{Verb: mover.VerbAdopt, Command: []string{"none"},
		Volume: &mover.TargetVolume{Folder: folder, ID: "uid"}}
	if err := m.adopt(t.Context(), plan); reasonOf(err) != mover.ReasonDamaged {
		t.Errorf("an empty volume: %v", err)
	}
	if err := os.WriteFile(filepath.Join(folder, mover.RestoredName), []byte("uid\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := m.adopt(t.Context(), plan); err != nil {
		t.Errorf("one that was adopted: %v", err)
	}
}
