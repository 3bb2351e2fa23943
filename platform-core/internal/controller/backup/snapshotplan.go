// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/agentclient"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
	"github.com/zeroinfra/platform-core/internal/volumesnapshot"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

const (
	// lease is how long a source keeps still that nobody asks again.
	lease = 30 * time.Second
	// heldLook is how often it is asked again, and its snapshots are looked at; snapshotLook is how often they are when it
	// is not held any more.
	heldLook     = time.Second
	snapshotLook = 3 * time.Second
	// dropPatience is how long a VolumeSnapshot that is being deleted may stay before a person is told.
	dropPatience = 10 * time.Minute
)

// snapshotFacts are what a decision on VolumeSnapshots rests on.
type snapshotFacts struct {
	// method of the plugin; nil while that is not known.
	method *schema.SnapshotMethod
	// podUID of the source, and volume and claim that a snapshot is to be made of: looked up while the Backup is Pending.
	podUID types.UID
	wanted platformv1.VolumeSnapshotRecord
	// there are the VolumeSnapshots of the status, in order; one that is not there is nil. foreign names one that is of
	// something else.
	there   []*volumesnapshot.Snapshot
	foreign string
	// held is how the hold stands; nil where nobody was asked, or the agent did not answer as problem says. refused says
	// that another call is of no use.
	held    *agentclient.Held
	problem string
	refused refused
}

// refused says that an agent will not do what it was asked for.
type refused string

// Values of refused. The zero value is that it may yet.
const forGood refused = "ForGood"

// beginSnapshots records what is to be made, before anything is.
func (t turn) beginSnapshots() decision {
	s, of := t.s, t.f.of
	record := of.wanted
	record.Name = platformv1.BackupSnapshotNameFor(t.b, record.Volume)
	s.Snapshots = []platformv1.VolumeSnapshotRecord{record}
	if of.method.Freeze == "" {
		return t.making("the snapshot of claim " + record.Claim + " to be made")
	}
	s.Hold = &platformv1.BackupHold{Phase: platformv1.HoldWanted, PodUID: of.podUID}
	return t.soon(heldLook, "pod %s to be frozen", s.Source.Pod)
}

// making waits for snapshots, and has those made that are not there.
func (t turn) making(what string) decision {
	d := t.soon(heldLook, "%s", what)
	d.effect = makeSnapshots
	return d
}

// soon waits for a moment.
func (t turn) soon(after time.Duration, format string, args ...any) decision {
	d := t.waiting(platformv1.ReasonProgressing, format, args...)
	d.outcome = d.outcome.Within(after)
	return d
}

// carrySnapshots follows the snapshots of a Backup.
func (t turn) carrySnapshots() decision {
	b, f, s := t.b, t.f, t.s
	t.note()
	switch {
	case b.Spec.Cancel:
		return t.failed(platformv1.ReasonCancelled, "it was cancelled")
	case !f.now.Before(b.Deadline()):
		return t.failed(platformv1.ReasonBackupLate,
			fmt.Sprintf("it was not complete within %s: %s", b.Spec.Timeout.Duration, cmp.Or(t.complaint(), s.Message)))
	case f.refusal != "" && !allTaken(s):
		return t.failed(platformv1.ReasonBackupRefused, f.refusal)
	case f.of.foreign != "":
		return t.failed(platformv1.ReasonNameTaken,
			fmt.Sprintf("there is a VolumeSnapshot %q that is of something else: delete it", f.of.foreign))
	case t.lost() != "":
		return t.failed(platformv1.ReasonSnapshotFailed,
			fmt.Sprintf("VolumeSnapshot %q was deleted before the backup was complete", t.lost()))
	}
	if !s.Hold.Over() {
		if d, waits := t.hold(); waits {
			return d
		}
	}
	return t.watch()
}

// note has the status say what is known of the snapshots.
func (t turn) note() {
	for i, one := range t.f.of.there {
		if one == nil {
			continue
		}
		record := &t.s.Snapshots[i]
		record.Driver, record.Class = one.Driver(), one.Class()
		size := one.RestoreSize()
		record.Size = size.Value()
		if record.CreationTime == nil {
			record.CreationTime = one.Taken()
		}
	}
}

// lost names a snapshot that was of its moment and is there no more; empty for none.
func (t turn) lost() string {
	for i, one := range t.f.of.there {
		if record := t.s.Snapshots[i]; one == nil && record.CreationTime != nil {
			return record.Name
		}
	}
	return ""
}

// allTaken says whether all snapshots are of their moments: what a source does then is none of theirs any more.
func allTaken(s *platformv1.BackupStatus) bool {
	for i := range s.Snapshots {
		if s.Snapshots[i].CreationTime == nil {
			return false
		}
	}
	return true
}

// complaint is what a driver says is wrong; empty for nothing.
func (t turn) complaint() string {
	for i, one := range t.f.of.there {
		if one != nil && one.Error() != "" {
			return fmt.Sprintf("VolumeSnapshot %q is not ready to use: %s", t.s.Snapshots[i].Name, one.Error())
		}
	}
	return ""
}

// hold follows how the source keeps still; waits says that it is all there is to do now.
func (t turn) hold() (d decision, waits bool) {
	f, s := t.f, t.s
	pod, held := s.Source.Pod, f.of.held
	switch {
	case f.of.refused != "":
		return t.failed(platformv1.ReasonFreezeFailed,
			fmt.Sprintf("pod %s cannot be frozen: %s", pod, f.of.problem)), true
	case held == nil:
		return t.soon(heldLook, "pod %s to report whether it is frozen: %s", pod, f.of.problem), true
	case held.Phase == agentclient.HoldFreezing:
		return t.soon(heldLook, "pod %s to be frozen", pod), true
	case held.Phase == agentclient.HoldReleased && allTaken(s):
		s.Hold.Phase, s.Hold.EndTime = platformv1.HoldReleased, new(metav1.NewTime(f.now))
		return decision{}, false
	case held.Phase != agentclient.HoldHeld && s.Hold.Phase == platformv1.HoldWanted:
		return t.failed(platformv1.ReasonFreezeFailed,
			fmt.Sprintf("pod %s was not frozen: %s", pod, cmp.Or(held.Message, "it does not say why"))), true
	case held.Phase != agentclient.HoldHeld:
		return t.failed(platformv1.ReasonFreezeFailed,
			fmt.Sprintf("pod %s did not stay frozen until the snapshot was made, which cannot be used then: %s", pod,
				cmp.Or(held.Message, "it does not say why"))), true
	}
	if s.Hold.Phase == platformv1.HoldWanted {
		s.Hold.Phase, s.Hold.StartTime, s.Facts = platformv1.HoldHeld, new(metav1.NewTime(f.now)), held.Outputs
	}
	if longest := f.of.longest(); f.now.Sub(s.Hold.StartTime.Time) > longest {
		return t.failed(platformv1.ReasonSnapshotFailed,
			fmt.Sprintf("the snapshot was not made within the %s for which pod %s is frozen: %s", longest, pod,
				cmp.Or(t.complaint(), "see whether the snapshot controller and the CSI driver of the volume run"))), true
	}
	return t.making("VolumeSnapshot " + s.Snapshots[0].Name + " to be taken, while pod " + pod + " is frozen"),
		true
}

// longest is how long a source keeps still at most.
func (of snapshotFacts) longest() time.Duration {
	if of.method == nil {
		return schema.DefaultHoldSeconds * time.Second
	}
	return of.method.Longest()
}

// watch waits until all snapshots can be used.
func (t turn) watch() decision {
	s, size := t.s, int64(0)
	for i, one := range t.f.of.there {
		name := s.Snapshots[i].Name
		switch {
		case one == nil:
			return t.making(fmt.Sprintf("VolumeSnapshot %q to be made", name))
		case !one.IsReady():
			return t.soon(snapshotLook, "%s", cmp.Or(t.complaint(), fmt.Sprintf("VolumeSnapshot %q to be ready to use", name)))
		}
		size += s.Snapshots[i].Size
	}
	s.Phase, s.CompletionTime = platformv1.BackupCompleted, new(metav1.NewTime(t.f.now))
	s.Duration = taken(s)
	s.Size, s.RawSize = size, size
	return t.keep()
}

// letGo follows the end of a hold that nobody needs any more. By the end of the lease the agent has ended it by itself,
// or does as soon as it is there.
func (t turn) letGo(since time.Time) {
	s, held := t.s, t.f.of.held
	if s.Hold.Over() {
		return
	}
	if held != nil && held.Thawed || t.f.now.After(since.Add(lease)) {
		s.Hold.Phase, s.Hold.EndTime = platformv1.HoldEnded, new(metav1.NewTime(t.f.now))
	}
}

// remain says whether there is a snapshot of the Backup yet.
func (of snapshotFacts) remain() (names []string) {
	for _, one := range of.there {
		if one != nil {
			names = append(names, one.GetName())
		}
	}
	return names
}

// tidySnapshots ends the hold of a Backup that failed, and removes its snapshots.
func (t turn) tidySnapshots() decision {
	s, reason := t.s, platformv1.ReasonBackupFailed
	if t.b.Spec.Cancel {
		reason = platformv1.ReasonCancelled
	}
	t.letGo(s.CompletionTime.Time)
	d := t.decide(outcome.Stalled(reason, s.Message), "")
	if !s.Hold.Over() {
		d.outcome = d.outcome.Within(heldLook)
	}
	if s.Leftovers != platformv1.LeftoversPossible {
		return d
	}
	if len(t.f.of.remain()) == 0 {
		s.Leftovers = platformv1.LeftoversNone
		d.status.Leftovers = s.Leftovers
		return d
	}
	d.effect, d.outcome = dropSnapshots, d.outcome.Within(snapshotLook)
	return d
}

// leaveSnapshots has a Backup go, once its snapshots are gone where they are to be.
func (t turn) leaveSnapshots() decision {
	b, s, f := t.b, t.s, t.f
	if s.Phase == platformv1.BackupRunning {
		// What is half made is not for anybody to keep.
		s.Leftovers = platformv1.LeftoversPossible
	}
	drop := b.Spec.DeletionPolicy == platformv1.BackupDelete || s.Leftovers == platformv1.LeftoversPossible
	s.Phase = platformv1.BackupDeleting
	t.letGo(b.DeletionTimestamp.Time)
	remain := strings.Join(f.of.remain(), ", ")
	switch {
	case !s.Hold.Over():
		return t.decide(outcome.WaitingFor(heldLook, platformv1.ReasonDeleting,
			"waiting for pod "+s.Source.Pod+" to be thawed"), "")
	case !drop || remain == "":
		return t.decide(outcome.Done(), release)
	case f.now.After(b.DeletionTimestamp.Add(dropPatience)):
		return t.decide(outcome.StalledFor(storeRetry, platformv1.ReasonBackupNotRemoved,
			fmt.Sprintf("VolumeSnapshot %s is not gone %s after the Backup was deleted: see whether the snapshot controller "+
				"and the CSI driver run, and what the VolumeSnapshotContent says", remain, dropPatience)), dropSnapshots)
	}
	return t.decide(outcome.WaitingFor(snapshotLook, platformv1.ReasonDeleting, "waiting for VolumeSnapshot "+remain+
		" to be gone"), dropSnapshots)
}

// placeOf says where the data of a Backup is kept.
func placeOf(b *platformv1.Backup) string {
	if !b.Spec.IsSnapshot() {
		return b.Status.Key
	}
	var names []string
	for i := range b.Status.Snapshots {
		names = append(names, "VolumeSnapshot "+b.Status.Snapshots[i].Name)
	}
	return strings.Join(names, ", ")
}
