// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/zeroinfra/platform-core/agentproto/mover"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/jobstate"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

const (
	// grace is how long after its deadline a mover that the cluster ends may take to be gone: the node of one that takes
	// longer is lost.
	grace = time.Minute
	// turnRetry is when a Backup that waits for its turn looks again: it hears of those of its own domain alone.
	turnRetry = 15 * time.Second
	// longestTail is how many characters of what a mover said last go into a message.
	longestTail = 600
)

// effect is one thing to bring about.
type effect string

// Effects. The zero value is none.
const (
	makeMover   effect = "MakeMover"
	stopMover   effect = "StopMover"
	makeRemover effect = "MakeRemover"
	// makeSnapshots makes the VolumeSnapshots that are not there yet, and dropSnapshots deletes those that are.
	makeSnapshots effect = "MakeSnapshots"
	dropSnapshots effect = "DropSnapshots"
	stopRemover   effect = "StopRemover"
	release       effect = "Release"
)

// facts are all that a decision rests on, beside the Backup itself.
type facts struct {
	// now is the time.
	now time.Time
	// refusal says why the data can never be taken; looked at while it is Pending only, as is all down to waits.
	refusal string
	// ahead are those of the repository that run, or that were made before and wait for their turn, by name; limit is how
	// many may run.
	ahead []string
	limit int
	// plugin, version and component of the method.
	plugin    platformv1.PluginReference
	version   string
	component string
	// source to take the data from, or one of each set where each has a part of the data; none while not all are there,
	// and waits says what is waited for.
	source  *platformv1.BackupSource
	sources []platformv1.BackupSource
	waits   string
	// mover and remover are the Jobs; nil for those that are not there.
	mover, remover *jobstate.State
	// vanished says that there is no such repository any more; store what keeps movers from it, empty for nothing.
	vanished string
	store    string
	// verified is what a drill has come to that waits for the Backup to say so; nil for none.
	verified *platformv1.BackupVerification
	// of is what is known where the data is kept as VolumeSnapshots.
	of snapshotFacts
	// missing says that it was whole, and that nothing of it is in the repository any more.
	missing missing
}

// missing says that what was kept is not there any more.
type missing string

// Values of missing. The zero value is that nothing is known of the kind.
const dataMissing missing = "Missing"

// decision is how a Backup goes on.
type decision struct {
	// status to record, conditions aside.
	status platformv1.BackupStatus
	// outcome to report in the conditions.
	outcome outcome.Outcome
	// effect to bring about once the status is written.
	effect effect
	// left says that what is kept stays in the repository although it was to be removed, and why; empty for nothing of the
	// kind.
	left string
}

// turn is one Backup on its way.
type turn struct {
	b *platformv1.Backup
	f facts
	s *platformv1.BackupStatus
}

// next decides how a Backup goes on.
func next(b *platformv1.Backup, f facts) decision {
	t := turn{b, f, b.Status.DeepCopy()}
	if !b.DeletionTimestamp.IsZero() {
		return t.leave()
	}
	switch t.s.Phase {
	case "":
		if b.Spec.Imported != nil {
			return t.recall(b.Spec.Imported)
		}
	case platformv1.BackupRunning:
		if b.Spec.IsSnapshot() {
			return t.carrySnapshots()
		}
		return t.carry()
	case platformv1.BackupCompleted:
		return t.keep()
	case platformv1.BackupFailed:
		return t.tidy()
	}
	return t.begin()
}

// decide ends a turn. What is waited for, or went wrong, is the message.
func (t turn) decide(o outcome.Outcome, e effect) decision {
	t.s.Message = o.Message()
	return decision{status: *t.s, outcome: o, effect: e}
}

func (t turn) waiting(reason, format string, args ...any) decision {
	return t.decide(outcome.WaitingFor(max(time.Second, t.b.Deadline().Add(grace).Sub(t.f.now)), reason, "waiting for "+
		fmt.Sprintf(format, args...)), "")
}

// within has a decision be taken anew after a time at the latest; 0 is never.
func (d decision) within(after time.Duration) decision {
	d.outcome = d.outcome.Within(after)
	return d
}

// begin has a Backup begin when it is its turn and there is a pod to take the data from.
func (t turn) begin() decision {
	b, f, s := t.b, t.f, t.s
	s.Phase, s.Method = platformv1.BackupPending, b.Spec.Method
	late := !f.now.Before(b.Deadline())
	switch {
	case b.Spec.Cancel:
		return t.failed(platformv1.ReasonCancelled, "it was cancelled before it began")
	case f.refusal != "":
		return t.failed(platformv1.ReasonBackupRefused, f.refusal)
	case late:
		return t.failed(platformv1.ReasonBackupLate,
			fmt.Sprintf("it had not begun within %s: it waited for %s", b.Spec.Timeout.Duration, cmp.Or(f.waits, "its turn")))
	case f.source == nil && len(f.sources) == 0:
		return t.waiting(platformv1.ReasonNoBackupSource, "%s", f.waits)
	case len(f.ahead) >= f.limit:
		d := t.waiting(platformv1.ReasonBackupQueued, "its turn behind %s: of BackupRepository %q at most %d run at a time",
			named(f.ahead), b.Spec.RepositoryRef.Name, f.limit)
		d.outcome = d.outcome.Within(turnRetry)
		return d
	}
	s.Phase, s.StartTime = platformv1.BackupRunning, new(metav1.NewTime(f.now))
	s.Source, s.Sources = f.source, f.sources
	s.SourcePods = sourcePods(s)
	s.Plugin, s.Version = &f.plugin, f.version
	if b.Spec.IsSnapshot() {
		return t.beginSnapshots()
	}
	s.Key = platformv1.BackupKeyFor(b)
	d := t.waiting(platformv1.ReasonProgressing, "its mover to be made")
	d.effect = makeMover
	return d
}

// carry follows the mover. What was begun once is never begun again.
func (t turn) carry() decision {
	b, f, s := t.b, t.f, t.s
	late := f.now.After(b.Deadline().Add(grace))
	switch {
	case f.mover == nil && s.Mover != "" && b.Spec.Cancel:
		return t.failed(platformv1.ReasonCancelled, "it was cancelled")
	case f.mover == nil && s.Mover != "":
		return t.failed(platformv1.ReasonMoverLost, "its mover was deleted before it had ended")
	case f.mover == nil && b.Spec.Cancel:
		return t.failed(platformv1.ReasonCancelled, "it was cancelled")
	case f.mover == nil && late:
		return t.failed(platformv1.ReasonBackupLate, fmt.Sprintf("its mover was not made within %s", b.Spec.Timeout.Duration))
	case f.mover == nil:
		d := t.waiting(platformv1.ReasonProgressing, "its mover to be made")
		d.effect = makeMover
		return d
	}
	s.Mover = string(f.mover.UID)
	switch {
	case f.mover.Phase == platformv1.OperationSucceeded, f.mover.Phase == platformv1.OperationFailed:
		return t.ended(resultOf(f.mover))
	case late:
		return t.failed(platformv1.ReasonMoverLost,
			fmt.Sprintf("it was not complete within %s, and its mover does not end: %s", b.Spec.Timeout.Duration,
				cmp.Or(jobstate.Tail(f.mover.Message, longestTail), "its node may be lost")))
	case b.Spec.Cancel:
		d := t.waiting(platformv1.ReasonCancelled, "its mover to end, since it was cancelled")
		d.effect = stopMover
		return d
	case f.mover.Message != "":
		d := t.waiting(platformv1.ReasonProgressing, "its mover: %s", jobstate.Tail(f.mover.Message, longestTail))
		return d.within(f.mover.Wake)
	}
	d := t.waiting(platformv1.ReasonProgressing, "its mover, which takes the data from %s", podsOf(s))
	return d.within(f.mover.Wake)
}

// ended goes by what the mover says.
func (t turn) ended(result mover.Result) decision {
	s, at := t.s, metav1.NewTime(t.f.now)
	if result.Reason != "" {
		if t.b.Spec.Cancel {
			return t.failed(platformv1.ReasonCancelled, "it was cancelled")
		}
		return t.failed(result.Reason, cmp.Or(result.Message, "its mover failed and did not say why"))
	}
	s.Phase, s.CompletionTime = platformv1.BackupCompleted, &at
	s.Duration = taken(s)
	s.Digest, s.Size, s.RawSize, s.Facts = result.Digest, result.Size, result.RawSize, result.Facts
	for i := range s.Sources {
		s.Sources[i].RawSize = result.Streams[s.Sources[i].Set]
	}
	kept := t.keep()
	// The Job goes once it is on record what it did.
	kept.effect = ""
	return kept
}

// failed ends a Backup that is not whole. A mover that there was may have left something behind.
func (t turn) failed(reason, message string) decision {
	s, at := t.s, metav1.NewTime(t.f.now)
	s.Leftovers = platformv1.LeftoversNone
	if s.Phase == platformv1.BackupRunning && (len(s.Snapshots) > 0 || s.Mover != "" || t.f.mover != nil) {
		s.Leftovers = platformv1.LeftoversPossible
	}
	s.Phase, s.CompletionTime = platformv1.BackupFailed, &at
	s.Duration = taken(s)
	return t.decide(outcome.Stalled(reason, message), "")
}

// keep is for a Backup that is whole.
func (t turn) keep() decision {
	b, f, s := t.b, t.f, t.s
	s.ExpiryTime = nil
	if r := b.Spec.Retention; r != nil && r.MaxAge != nil && s.CompletionTime != nil &&
		b.Spec.DeletionPolicy == platformv1.BackupDelete {
		s.ExpiryTime = new(metav1.NewTime(s.CompletionTime.Add(r.MaxAge.Duration)))
	}
	if f.verified != nil {
		s.Verified = f.verified
	}
	result, do := outcome.Done(), effect("")
	if f.missing != "" {
		result = outcome.Stalled(platformv1.ReasonBackupDataMissing,
			fmt.Sprintf("what was kept in %s is not in BackupRepository %q any more: put it back, or delete this Backup", s.Key,
				b.Spec.RepositoryRef.Name))
	}
	if f.mover != nil {
		do = stopMover
	}
	return t.decide(result, do)
}

// recall has a Backup that was made of what is kept say what its repository said of it.
func (t turn) recall(from *platformv1.ImportedBackup) decision {
	s := t.s
	s.Phase, s.Method, s.Key, s.Digest, s.Size, s.RawSize = platformv1.BackupCompleted, t.b.Spec.Method, from.Key,
		from.Digest, from.Size, from.RawSize
	s.StartTime, s.CompletionTime, s.Facts, s.Plugin, s.Version = from.StartTime.DeepCopy(),
		from.CompletionTime.DeepCopy(), from.Facts, from.Plugin.DeepCopy(), from.Version
	s.Source, s.Sources = from.Source, from.Sources
	s.SourcePods, s.Duration = sourcePods(s), taken(s)
	return t.keep()
}

// taken is how long a Backup took that has ended; nil where there was no mover.
func taken(s *platformv1.BackupStatus) *metav1.Duration {
	if s.StartTime == nil || s.CompletionTime == nil {
		return nil
	}
	return &metav1.Duration{Duration: max(0, s.CompletionTime.Sub(s.StartTime.Time)).Round(time.Second)}
}

// mostNamed is how many of those that come before are named.
const mostNamed = 5

// named lists the first of some names.
func named(names []string) string {
	if more := len(names) - mostNamed; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:mostNamed], ", "), more)
	}
	return strings.Join(names, ", ")
}

// sourcePods names the pods that the data is taken from.
func sourcePods(s *platformv1.BackupStatus) string {
	var pods []string
	for _, source := range s.From() {
		pods = append(pods, source.Pod)
	}
	return named(pods)
}

// podsOf is the same as a part of a sentence.
func podsOf(s *platformv1.BackupStatus) string {
	if len(s.From()) == 1 {
		return "pod " + sourcePods(s)
	}
	return "pods " + sourcePods(s)
}

// tidy removes what a Backup that failed may have left in the repository. The Job of its mover stays, with its log,
// unless somebody cancelled.
func (t turn) tidy() decision {
	if t.b.Spec.IsSnapshot() {
		return t.tidySnapshots()
	}
	s, f := t.s, t.f
	message, reason := s.Message, platformv1.ReasonBackupFailed
	if t.b.Spec.Cancel {
		reason = platformv1.ReasonCancelled
	}
	d := t.decide(outcome.Stalled(reason, message), "")
	stuck := s.CompletionTime != nil && f.now.After(s.CompletionTime.Add(patience))
	switch {
	case f.mover != nil && f.mover.Phase == platformv1.OperationRunning && !stuck:
		d.effect, d.outcome = stopMover, d.outcome.Within(patience)
	case s.Leftovers == platformv1.LeftoversPossible && s.Removals < mostRemovals && f.vanished == "" && f.store == "":
		removed := t.remove()
		if removed.done {
			d.status.Leftovers = platformv1.LeftoversNone
		}
		d.status.Removals, d.effect = removed.tries, removed.effect
		d.outcome = d.outcome.Within(removed.retry)
	case f.mover != nil && t.b.Spec.Cancel:
		d.effect = stopMover
	}
	return d
}

// resultOf reads what a mover said last.
func resultOf(job *jobstate.State) mover.Result {
	var result mover.Result
	err := json.Unmarshal([]byte(job.Said), &result)
	switch {
	case err != nil:
		return mover.Result{Reason: platformv1.ReasonMoverLost, Message: "its mover ended without a result: " +
			job.LastWord(longestTail)}
	case result.Reason == "" && (job.Phase != platformv1.OperationSucceeded || result.Digest == ""):
		return mover.Result{Reason: platformv1.ReasonMoverLost, Message: "its mover ended without a backup: " +
			cmp.Or(result.Message, jobstate.Tail(job.Message, longestTail))}
	}
	return result
}
