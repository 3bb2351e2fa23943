// SPDX-License-Identifier: Apache-2.0

package component

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin"
)

// A component is looked at when a Backup begins to take the data of its sets, and when that has ended; in between
// nothing moves.
func TestMovesAndBackups(t *testing.T) {
	in := func(phase platformv1.BackupPhase, sources ...platformv1.BackupSource) *platformv1.Backup {
		return &platformv1.Backup{
			ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "nightly"},
			Spec:       platformv1.BackupSpec{ApplicationRef: platformv1.ApplicationReference{Name: "c"}},
			Status:     platformv1.BackupStatus{Phase: phase, Sources: sources},
		}
	}
	source := platformv1.BackupSource{Pod: "c-node-0-1", Component: "node", Set: "0"}
	for name, test := range map[string]struct {
		before, after *platformv1.Backup
		wakes, holds  bool
	}{
		"it waits":  {in(""), in(platformv1.BackupPending), false, false},
		"it begins": {in(platformv1.BackupPending), in(platformv1.BackupRunning, source), true, true},
		"it goes on": {in(platformv1.BackupRunning, source), in(platformv1.BackupRunning, source), false,
			true},
		"it has ended": {in(platformv1.BackupRunning, source), in(platformv1.BackupCompleted, source), true,
			false},
		"it has failed":           {in(platformv1.BackupRunning, source), in(platformv1.BackupFailed, source), true, false},
		"its data is in one part": {in(platformv1.BackupPending), in(platformv1.BackupRunning), false, false},
		"it is of another's sets": {in(platformv1.BackupPending),
			in(platformv1.BackupRunning, platformv1.BackupSource{Component: "other"}), true, false},
		"it failed before it began": {in(platformv1.BackupPending), in(platformv1.BackupFailed), false, false},
	} {
		wakes := begunOrEnded.Update(event.UpdateEvent{ObjectOld: test.before, ObjectNew: test.after})
		if wakes != test.wakes {
			t.Errorf("%s: it wakes the component: %v", name, wakes)
		}
		if holds := takesParts(test.after, "node"); holds != test.holds {
			t.Errorf("%s: it holds what moves: %v", name, holds)
		}
		if indexed := len(partsOf(test.after)) == 1; test.holds && !indexed || indexed &&
			len(test.after.Status.Sources) == 0 {
			t.Errorf("%s: it is found as one that takes parts: %v", name, indexed)
		}
		// Both are asked about.
		for _, b := range []*platformv1.Backup{test.before, test.after} {
			if got := (&Controller{}).ofBackup(t.Context(), b); len(got) != min(len(b.Status.Sources), 1) {
				t.Errorf("%s: it wakes %v", name, got)
			}
		}
	}
	got := (&Controller{}).ofBackup(t.Context(), in(platformv1.BackupRunning, source))
	if got[0].Name != platformv1.ComponentNameFor("c", "node") || got[0].Namespace != "n" {
		t.Errorf("it wakes %v", got)
	}
}

// What an agent of before says about a word that it does not know is told in other words, and only while that word is
// used.
func TestAgentsOfBefore(t *testing.T) {
	const said = `action "check" failed with exit code 1: the shape is no JSON that can be read: json: unknown field ` +
		`"moves"`
	for name, test := range map[string]struct {
		moves     plugin.Moves
		said      string
		explained bool
	}{
		"while a Backup runs": {plugin.MovesHeld, said, true},
		"another failure":     {plugin.MovesHeld, "connection refused", false},
		"no Backup runs":      {plugin.MovesAllowed, said, false},
	} {
		m := &members{Members: plugin.Members{Moves: test.moves}}
		if got := m.explained(test.said); strings.Contains(got, "of an earlier version") != test.explained ||
			!test.explained && got != test.said {
			t.Errorf("%s: it says %q", name, got)
		}
	}
}
