// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"

	"github.com/zeroinfra/platform-core/agentproto/mover"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/jobstate"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

const (
	// patience is how long a mover that is being ended may keep others waiting.
	patience = 2 * time.Minute
	// mostRemovals is how often what a Backup that failed left behind is tried to be removed before that is left to its
	// deletion.
	mostRemovals = 3
	// firstRemovalRetry and longestRemovalRetry are after how long a removal that failed is tried again, for the first
	// time and at most.
	firstRemovalRetry   = 15 * time.Second
	longestRemovalRetry = 10 * time.Minute
	// storeRetry is after how long it is looked again whether what keeps movers from a repository was mended.
	storeRetry = 30 * time.Second
	// halfPatience is how long after its deletion a Backup with deletionPolicy Retain waits for what is half made of it to
	// be removed.
	halfPatience = time.Hour
)

// leave has a Backup go, once what is kept is removed where it is to be. A repository that is gone keeps nobody.
func (t turn) leave() decision {
	b, f, s := t.b, t.f, t.s
	if b.Spec.IsSnapshot() {
		return t.leaveSnapshots()
	}
	if s.Phase == platformv1.BackupRunning && !f.whole() {
		// What is half made is not for anybody to keep: while its mark is there, nothing that Backups of the instance share
		// is removed.
		s.Leftovers = platformv1.LeftoversPossible
	}
	stored := s.Key != "" && s.Leftovers != platformv1.LeftoversNone &&
		(b.Spec.DeletionPolicy == platformv1.BackupDelete || t.half())
	s.Phase = platformv1.BackupDeleting
	if f.mover != nil && f.mover.Phase == platformv1.OperationRunning && f.now.Before(b.DeletionTimestamp.Add(patience)) {
		d := t.decide(outcome.WaitingFor(patience, platformv1.ReasonDeleting, "waiting for its mover to end"), stopMover)
		return d
	}
	switch {
	case !stored:
		return t.decide(outcome.Done(), release)
	case f.vanished != "":
		return t.without(f.vanished)
	case f.store != "" && t.letsGo():
		return t.without(f.store)
	case f.store != "":
		return t.decide(outcome.StalledFor(storeRetry, platformv1.ReasonBackupNotRemoved, t.instead(f.store)), "")
	}
	removed := t.remove()
	s.Removals = removed.tries
	switch {
	case removed.done:
		return t.decide(outcome.Done(), release)
	case removed.problem != "" && t.letsGo():
		return t.without(removed.problem)
	case removed.problem != "":
		return t.decide(outcome.StalledFor(removed.retry, platformv1.ReasonBackupNotRemoved, t.instead(removed.problem)),
			removed.effect)
	}
	const waiting = "waiting for what is kept to be removed from the repository"
	return t.decide(outcome.WaitingFor(removed.retry, platformv1.ReasonDeleting, waiting), removed.effect)
}

// whole says whether the mover has made all of the backup, also where that is not on record yet.
func (f *facts) whole() bool {
	return f.mover != nil && f.mover.Phase != platformv1.OperationRunning && resultOf(f.mover).Reason == ""
}

// half says whether what is kept may be a part of a backup.
func (t turn) half() bool { return t.s.Leftovers == platformv1.LeftoversPossible }

// letsGo says whether a Backup goes although what is half made of it could not be removed.
func (t turn) letsGo() bool {
	return t.b.Spec.DeletionPolicy == platformv1.BackupRetain && t.f.now.After(t.b.DeletionTimestamp.Add(halfPatience))
}

// without has a Backup go, and says why what is kept stays.
func (t turn) without(problem string) decision {
	d := t.decide(outcome.Done(), release)
	d.left = problem
	if t.half() {
		d.left += "; the backup is incomplete: remove that folder by hand"
	}
	return d
}

// instead says what to do where something cannot be removed.
func (t turn) instead(problem string) string {
	if t.half() {
		return fmt.Sprintf("what is half made cannot be removed from the repository: %s; mend that, or set deletionPolicy "+
			"to Retain: then it stays there when %s have passed since the deletion", problem, halfPatience)
	}
	return fmt.Sprintf("what is kept cannot be removed from the repository: %s; to have it stay there, set "+
		"deletionPolicy to Retain", problem)
}

// removal is how far the removal of what is kept is. Where it is not done, and there is no problem, it is under way.
type removal struct {
	done    bool
	problem string
	// tries that failed so far.
	tries  int32
	effect effect
	retry  time.Duration
}

// remove follows the Job that removes what is kept, and has another one made when it failed and some time has passed.
func (t turn) remove() removal {
	job, tries := t.f.remover, t.s.Removals
	switch {
	case job == nil:
		return removal{tries: tries, effect: makeRemover}
	case job.Phase == platformv1.OperationRunning:
		return removal{tries: tries, retry: job.Wake}
	}
	problem := problemOf(job)
	if problem == "" {
		return removal{tries: tries, done: true, effect: stopRemover}
	}
	wait := firstRemovalRetry
	for range tries {
		wait = min(2*wait, longestRemovalRetry)
	}
	left := job.Ended.Add(wait).Sub(t.f.now)
	if left <= 0 {
		return removal{problem: problem, tries: tries + 1, effect: stopRemover, retry: time.Second}
	}
	return removal{problem: problem, tries: tries, retry: left}
}

// problemOf is why a Job that removes something failed; empty when it did not. What is not there any more is removed.
func problemOf(job *jobstate.State) string {
	var result mover.Result
	if err := json.Unmarshal([]byte(job.Said), &result); err != nil {
		return cmp.Or(jobstate.Tail(job.Message, longestTail), "the mover ended without a result")
	}
	switch {
	case result.Reason == mover.ReasonNotFound, result.Reason == "" && job.Phase == platformv1.OperationSucceeded:
		return ""
	}
	return cmp.Or(result.Message, result.Reason, jobstate.Tail(job.Message, longestTail))
}
