// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/agentclient"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
	"github.com/zeroinfra/platform-core/internal/volumesnapshot"
)

// shot is a Backup whose data is kept as VolumeSnapshots, and that runs.
func shot(hold platformv1.BackupHoldPhase, changes ...func(*platformv1.Backup)) *platformv1.Backup {
	return made(func(b *platformv1.Backup) {
		b.Spec.Type, b.Spec.RepositoryRef, b.Spec.Method = platformv1.BackupSnapshot, platformv1.RepositoryReference{},
			"snapshot"
		b.Status.Phase, b.Status.Source, b.Status.StartTime = platformv1.BackupRunning, &platformv1.BackupSource{Pod: "p-0"},
			new(metav1.NewTime(epoch))
		b.Status.Snapshots = []platformv1.VolumeSnapshotRecord{
			{Name: "nightly-01234567-data", Volume: "data", Claim: "data-p-0"}}
		if hold != "" {
			b.Status.Hold = &platformv1.BackupHold{Phase: hold, PodUID: "pod"}
		}
		if hold == platformv1.HoldHeld {
			b.Status.Hold.StartTime = new(metav1.NewTime(epoch))
		}
		for _, change := range changes {
			change(b)
		}
	})
}

// ofItsMoment has the status know when the snapshot was taken.
func ofItsMoment(b *platformv1.Backup) {
	b.Status.Snapshots[0].CreationTime = new(metav1.NewTime(epoch))
}

func ofFailed(b *platformv1.Backup) {
	b.Status.Phase, b.Status.Leftovers, b.Status.Message, b.Status.CompletionTime = platformv1.BackupFailed,
		platformv1.LeftoversPossible, "no room", new(metav1.NewTime(epoch))
}

// is a VolumeSnapshot with a status.
func is(status map[string]any) *volumesnapshot.Snapshot {
	s := &volumesnapshot.Snapshot{Unstructured: &unstructured.Unstructured{Object: map[string]any{"status": status}}}
	s.SetName("nightly-01234567-data")
	return s
}

var (
	young = is(map[string]any{})
	sick  = is(map[string]any{"error": map[string]any{"message": "no space"}})
	cut   = is(map[string]any{"creationTime": "2026-03-01T12:00:01Z", "readyToUse": false})
	good  = is(map[string]any{"creationTime": "2026-03-01T12:00:01Z", "readyToUse": true, "restoreSize": "1Gi"})
)

// Methods, and what the agent says of a hold.
var (
	freezes, plain = &schema.SnapshotMethod{Freeze: "freeze", Thaw: "thaw"}, &schema.SnapshotMethod{}
	held           = &agentclient.Held{Phase: agentclient.HoldHeld, Outputs: map[string]string{"log": "yes"}}
	freezing       = &agentclient.Held{Phase: agentclient.HoldFreezing}
	released       = &agentclient.Held{Phase: agentclient.HoldReleased}
	lost           = &agentclient.Held{Phase: agentclient.HoldLost, Thawed: true, Message: "its lease ran out"}
)

// begins are the facts of a Backup that can begin.
func begins(method *schema.SnapshotMethod) facts {
	return ready(func(f *facts) {
		f.limit, f.of = 1, snapshotFacts{method: method, podUID: "pod",
			wanted: platformv1.VolumeSnapshotRecord{Volume: "data", Claim: "data-p-0"}}
	})
}

// seen are the facts once it runs: one snapshot, and what the agent says of the hold.
func seen(after time.Duration, one *volumesnapshot.Snapshot, held *agentclient.Held) facts {
	f := facts{now: epoch.Add(after),
		of: snapshotFacts{method: freezes, there: []*volumesnapshot.Snapshot{one}, held: held}}
	if held == nil {
		f.of.problem = "no answer"
	}
	return f
}

// tooOld are the facts with an agent that knows no holds.
func tooOld() facts {
	f := seen(time.Second, nil, nil)
	f.of.refused, f.of.problem = forGood, "too old"
	return f
}

// foreign are the facts with a snapshot that is not of the Backup.
func foreign() facts {
	f := seen(time.Second, nil, held)
	f.of.foreign = "nightly-01234567-data"
	return f
}

// pending has a Backup begin.
func pending(b *platformv1.Backup) { b.Status = platformv1.BackupStatus{} }

// snapshotCases are the same for one by snapshots.
var snapshotCases = map[string]struct {
	backup *platformv1.Backup
	facts  facts
	phase  platformv1.BackupPhase
	hold   platformv1.BackupHoldPhase
	effect effect
	says   string
}{
	"it is to keep still first": {shot("", pending), begins(freezes), platformv1.BackupRunning,
		platformv1.HoldWanted, "", "pod redis-cache-redis-main-1 to be frozen"},
	"nothing has to keep still": {shot("", pending), begins(plain), platformv1.BackupRunning, "",
		makeSnapshots, "claim data-p-0"},
	"it is about to": {shot(platformv1.HoldWanted), seen(time.Second, nil, freezing),
		platformv1.BackupRunning, platformv1.HoldWanted, "", "to be frozen"},
	"it does not answer": {shot(platformv1.HoldWanted), seen(time.Second, nil, nil),
		platformv1.BackupRunning, platformv1.HoldWanted, "", "no answer"},
	"it is too old": {shot(platformv1.HoldWanted), tooOld(), platformv1.BackupFailed,
		platformv1.HoldWanted, "", "too old"},
	"it cannot": {shot(platformv1.HoldWanted), seen(time.Second, nil, lost),
		platformv1.BackupFailed, platformv1.HoldWanted, "", "was not frozen: its lease ran out"},
	"it keeps still": {shot(platformv1.HoldWanted), seen(time.Second, nil, held),
		platformv1.BackupRunning, platformv1.HoldHeld, makeSnapshots, "to be taken, while pod p-0 is frozen"},
	"the snapshot is made": {shot(platformv1.HoldHeld), seen(time.Second, young, held),
		platformv1.BackupRunning, platformv1.HoldHeld, makeSnapshots, "to be taken, while pod p-0 is frozen"},
	"the agent is silent meanwhile": {shot(platformv1.HoldHeld), seen(time.Second, young, nil),
		platformv1.BackupRunning, platformv1.HoldHeld, "", "no answer"},
	"it goes on too early": {shot(platformv1.HoldHeld), seen(time.Second, young, lost),
		platformv1.BackupFailed, platformv1.HoldHeld, "", "cannot be used then: its lease ran out"},
	"it went on before anybody saw": {shot(platformv1.HoldHeld), seen(time.Second, good, lost),
		platformv1.BackupFailed, platformv1.HoldHeld, "", "cannot be used then"},
	"nobody makes it": {shot(platformv1.HoldHeld), seen(61*time.Second, sick, held),
		platformv1.BackupFailed, platformv1.HoldHeld, "", "within the 1m0s for which pod p-0 is frozen: VolumeSnapshot " +
			"\"nightly-01234567-data\" is not ready to use: no space"},
	"it is somebody else's": {shot(platformv1.HoldHeld), foreign(), platformv1.BackupFailed,
		platformv1.HoldHeld, "", "something else: delete it"},
	"it is of its moment": {shot(platformv1.HoldHeld), seen(time.Second, cut, released),
		platformv1.BackupRunning, platformv1.HoldReleased, "", "to be ready to use"},
	"the backup is complete": {shot(platformv1.HoldReleased, ofItsMoment), seen(time.Minute, good, nil),
		platformv1.BackupCompleted, platformv1.HoldReleased, "", ""},
	"it is deleted before it is whole": {shot(platformv1.HoldReleased, ofItsMoment), seen(time.Minute, nil, nil),
		platformv1.BackupFailed, platformv1.HoldReleased, "", "was deleted before"},
	"without a hold": {shot(""), seen(time.Minute, nil, nil), platformv1.BackupRunning, "",
		makeSnapshots, "to be made"},
	"it is late": {shot(""), seen(10*time.Minute, sick, nil), platformv1.BackupFailed, "", "",
		"not complete within 10m0s: VolumeSnapshot"},
	"cancelled": {shot(platformv1.HoldHeld, cancelled), seen(time.Second, young, held),
		platformv1.BackupFailed, platformv1.HoldHeld, "", "cancelled"},
	"failed, and still held": {shot(platformv1.HoldHeld, ofFailed),
		seen(time.Second, young, &agentclient.Held{Phase: agentclient.HoldReleased}), platformv1.BackupFailed,
		platformv1.HoldHeld, dropSnapshots, "no room"},
	"failed, and it goes on": {shot(platformv1.HoldHeld, ofFailed), seen(time.Second, young, lost),
		platformv1.BackupFailed, platformv1.HoldEnded, dropSnapshots, "no room"},
	"failed, and nobody answers for long": {shot(platformv1.HoldHeld, ofFailed), seen(time.Minute, nil, nil),
		platformv1.BackupFailed, platformv1.HoldEnded, "", "no room"},
	"deleted": {shot(platformv1.HoldReleased, completed, deleted),
		seen(time.Second, good, nil), platformv1.BackupDeleting, platformv1.HoldReleased, dropSnapshots, "to be gone"},
	"deleted for good": {shot(platformv1.HoldReleased, completed, deleted),
		seen(time.Second, nil, nil), platformv1.BackupDeleting, platformv1.HoldReleased, release, ""},
	"deleted, and it stays": {shot(platformv1.HoldReleased, completed, deleted, retained),
		seen(time.Second, good, nil), platformv1.BackupDeleting, platformv1.HoldReleased, release, ""},
	"deleted in the midst, and it is to go": {shot(platformv1.HoldHeld, deleted, retained),
		seen(time.Second, young, lost), platformv1.BackupDeleting, platformv1.HoldEnded, dropSnapshots, "to be gone"},
	"deleted while it is held": {shot(platformv1.HoldHeld, deleted),
		seen(time.Second, young, &agentclient.Held{Phase: agentclient.HoldLost}), platformv1.BackupDeleting,
		platformv1.HoldHeld, "", "to be thawed"},
	"its driver does not let go": {shot(platformv1.HoldReleased, completed, deleted), seen(11*time.Minute, good, nil),
		platformv1.BackupDeleting, platformv1.HoldReleased, dropSnapshots, "is not gone 10m0s after"},
}

func TestNextOfSnapshots(t *testing.T) {
	for name, tc := range snapshotCases {
		t.Run(name, func(t *testing.T) {
			d := next(tc.backup, tc.facts)
			hold := platformv1.BackupHoldPhase("")
			if d.status.Hold != nil {
				hold = d.status.Hold.Phase
			}
			if d.status.Phase != tc.phase || hold != tc.hold || d.effect != tc.effect ||
				!strings.Contains(d.outcome.Message(), tc.says) {
				t.Errorf("it is %s with the hold %q, does %q and says %q", d.status.Phase, hold, d.effect, d.outcome.Message())
			}
			if tc.phase == platformv1.BackupRunning && d.outcome.After() > heldLook && d.outcome.After() != snapshotLook {
				t.Errorf("it looks again after %s", d.outcome.After())
			}
		})
	}
}

// A Backup that is whole says how large it is, of which moment, and what the source told.
func TestWhatASnapshotSays(t *testing.T) {
	b := shot(platformv1.HoldWanted)
	of := snapshotFacts{method: &schema.SnapshotMethod{Freeze: "freeze"}, there: []*volumesnapshot.Snapshot{nil},
		held: &agentclient.Held{Phase: agentclient.HoldHeld, Outputs: map[string]string{"log": "yes"}}}
	b.Status = next(b, facts{now: epoch.Add(time.Second), of: of}).status
	of.there, of.held = []*volumesnapshot.Snapshot{good}, &agentclient.Held{Phase: agentclient.HoldReleased, Thawed: true}
	b.Spec.Retention = &platformv1.BackupRetention{MaxAge: &metav1.Duration{Duration: time.Hour}}
	s := next(b, facts{now: epoch.Add(3 * time.Second), of: of}).status
	if s.Phase != platformv1.BackupCompleted || s.Size != 1<<30 || s.RawSize != 1<<30 || s.Facts["log"] != "yes" ||
		s.Snapshots[0].CreationTime == nil || s.Hold.EndTime == nil || s.Duration.Duration != 3*time.Second ||
		s.ExpiryTime == nil {
		t.Errorf("it says %+v", s)
	}
}
