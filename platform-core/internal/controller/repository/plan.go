// SPDX-License-Identifier: Apache-2.0

package repository

import (
	"cmp"
	"encoding/json"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/zeroinfra/platform-core/agentproto/mover"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/jobstate"
	"github.com/zeroinfra/platform-core/internal/stores"
)

const (
	// retry is after how long a repository that was not ready is checked again.
	retry = 5 * time.Minute
	// lackRetry is after how long it is looked again for a claim that is not there.
	lackRetry = 30 * time.Second
	// longestMessage is how many characters of what a mover said are shown.
	longestMessage = 600
)

// Reasons of the state of a repository. BackupRepository has them in status.domains, beside those of movers and
// of package stores.
const (
	// reasonChecking: a mover checks whether it can write, read and delete in the repository. Wait.
	reasonChecking = "Checking"
	// reasonFailed: the mover that checked the repository ended without a result. The operator checks again. Read
	// the message, which ends with its last words.
	reasonFailed = "CheckFailed"
	// reasonInUse: the repository is being deleted, and instances keep their archive on its volume. The operator
	// keeps it until they do not. Name another BackupRepository in their archive, or remove the archive.
	reasonInUse = "InUse"
)

// facts are all that a decision rests on.
type facts struct {
	now time.Time
	// domain of this operator.
	domain string
	// digest of what is to be checked.
	digest string
	// lack is what the repository names and is not there.
	lack stores.Lack
	// check is the Job that checks what has the digest; nil when there is none.
	check *jobstate.State
	// latest inventory, of any domain; nil when there is none. And how often there is to be one; 0 for once.
	latest   *platformv1.RepositoryInventory
	interval time.Duration
	// listing is the Job that says what is kept; nil when there is none. Once that has ended, backups are those of the
	// repository.
	listing *jobstate.State
	backups []platformv1.Backup
	// recall is the Job that reads a page of what there are no Backups of; nil when there is none.
	recall *jobstate.State
	// used is when a Backup of this domain was last whole there, and doubted when one last failed; zero for never.
	used, doubted time.Time
}

// decision is what to say, and what to do about the Job.
type decision struct {
	state platformv1.RepositoryState
	verb  verb
	// after is when to look again; 0 for never.
	after time.Duration
}

type verb string

// Verbs. The zero value is nothing.
const (
	makeCheck     verb = "MakeCheck"
	removeCheck   verb = "RemoveCheck"
	makeListing   verb = "MakeListing"
	removeListing verb = "RemoveListing"
	makeRecall    verb = "MakeRecall"
	takeRecall    verb = "TakeRecall"
	removeRecall  verb = "RemoveRecall"
)

// next decides on what this operator says of a repository.
func next(r *platformv1.BackupRepository, before *platformv1.RepositoryState, f facts) decision {
	state := platformv1.RepositoryState{Domain: f.domain, Ready: metav1.ConditionUnknown, Reason: reasonChecking,
		Message: "it is being checked"}
	same := before != nil && before.Checked == f.digest
	if before != nil {
		state.LastChecked, state.FreeBytes = before.LastChecked, before.FreeBytes
	}
	state.ObservedGeneration, state.Checked = r.Generation, f.digest
	if f.lack.Message != "" {
		state.Ready, state.Reason, state.Message, state.Checked, state.FreeBytes = metav1.ConditionFalse, f.lack.Reason,
			f.lack.Message, "", nil
		return decision{state: state, after: lackRetry}
	}
	checked := same && before.Ready != metav1.ConditionUnknown
	switch {
	case checked && f.check != nil && f.check.Phase != platformv1.OperationRunning &&
		recorded(f.check, before.LastChecked):
		return decision{state: *before, verb: removeCheck, after: again(before, f.now)}
	case f.check == nil && checked && (before.Ready == metav1.ConditionTrue && !stale(before.LastChecked.Time, f) ||
		before.Ready != metav1.ConditionTrue && f.now.Before(before.LastChecked.Add(retry))):
		return decision{state: *before, after: again(before, f.now)}
	case f.check == nil:
		if checked {
			// What was said holds until it is known better.
			state = *before
		}
		return decision{state: state, verb: makeCheck}
	case f.check.Phase == platformv1.OperationRunning:
		if checked {
			state = *before
		} else if f.check.Message != "" {
			state.Message = "it is being checked: " + jobstate.Tail(f.check.Message, longestMessage)
		}
		return decision{state: state, after: f.check.Wake}
	}
	at := metav1.NewTime(f.now)
	state.LastChecked = &at
	found := resultOf(f.check)
	state.Ready, state.Reason, state.Message, state.FreeBytes = metav1.ConditionTrue, platformv1.ReasonReady,
		"movers can write, read and delete there", found.FreeBytes
	if found.Reason != "" {
		state.Ready, state.Reason, state.Message = metav1.ConditionFalse, found.Reason, found.Message
	}
	return decision{state: state, verb: removeCheck, after: again(&state, f.now)}
}

// checkedAt is when a repository was checked; nil for never.
func checkedAt(state *platformv1.RepositoryState) *metav1.Time {
	if state == nil {
		return nil
	}
	return state.LastChecked
}

// again is when what is not ready is checked again.
func again(state *platformv1.RepositoryState, now time.Time) time.Duration {
	if state.Ready == metav1.ConditionTrue || state.LastChecked == nil {
		return 0
	}
	return max(time.Second, state.LastChecked.Add(retry).Sub(now))
}

// resultOf reads what a mover said last.
func resultOf(job *jobstate.State) mover.Result {
	var result mover.Result
	if err := json.Unmarshal([]byte(job.Said), &result); err != nil || result.Reason == "" &&
		job.Phase != platformv1.OperationSucceeded {
		return mover.Result{Reason: reasonFailed, Message: "the mover that checked it ended without a result: " +
			job.LastWord(longestMessage)}
	}
	if result.Reason != "" {
		result.Message = cmp.Or(jobstate.Tail(result.Message, longestMessage), result.Reason)
	}
	return result
}
