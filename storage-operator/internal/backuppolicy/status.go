// SPDX-License-Identifier: Apache-2.0

package backuppolicy

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/outcome"

	storagev1 "github.com/zeroinfra/storage-operator/api/v1"
)

// Reasons of a BackupPolicy. BackupPolicy has them.
const (
	// reasonUncovered: instances that the policy selects are not backed up by it. The message and status.sources
	// name them and say why. Do what they say.
	reasonUncovered = "Uncovered"
	// reasonFailing: instances that the policy selects have no Backup of the last time that was due. The next time
	// is tried all the same. Read the Backups that status.sources names.
	reasonFailing = "BackupsFail"
)

const (
	// mostSources is how many instances the status has.
	mostSources = 500
	// mostNamed is how many of them a message names.
	mostNamed = 3
)

// report fills in the status of a policy with what has come of it, and returns that.
func report(policy *storagev1.BackupPolicy, p plan, refusal string) outcome.Outcome {
	sources := sorted(p.sources)
	s := storagev1.BackupPolicyStatus{ObservedGeneration: policy.Status.ObservedGeneration,
		Conditions: policy.Status.Conditions, Selected: int32(len(sources))}
	for i := range sources {
		one := &sources[i]
		switch one.State {
		case storagev1.SourceUncovered:
			s.Uncovered++
		case storagev1.SourceFailing:
			s.Failing++
		case storagev1.SourceCovered:
		}
		s.NextTime = first(s.NextTime, one.NextTime)
		if at := one.LastSuccessTime; at != nil && (s.LastSuccessTime == nil || s.LastSuccessTime.Before(at)) {
			s.LastSuccessTime = at
		}
	}
	s.Sources = sources[:min(len(sources), mostSources)]
	policy.Status = s
	reportVerified(policy, sources)
	o := outcomeOf(policy, p, refusal)
	conditions.Report(policy, o, fmt.Sprintf("all of %d instances are covered", s.Selected))
	return o
}

// first is the earlier of two times, of which either may be absent.
func first(a, b *metav1.Time) *metav1.Time {
	if a == nil || b != nil && b.Before(a) {
		return b
	}
	return a
}

func outcomeOf(policy *storagev1.BackupPolicy, p plan, refusal string) outcome.Outcome {
	s := &policy.Status
	switch {
	case refusal != "":
		return outcome.Stalled(platformv1.ReasonInvalidSpec, refusal)
	case policy.Spec.Suspend:
		return outcome.Held(platformv1.ReasonSuspended, "nothing is backed up: spec.suspend")
	case int(s.Uncovered) > p.pending:
		return outcome.Stalled(reasonUncovered,
			fmt.Sprintf("%d of %d instances are not covered: %s", s.Uncovered, s.Selected,
				named(s.Sources, storagev1.SourceUncovered)))
	case s.Uncovered > 0:
		return outcome.Waiting(platformv1.ReasonProgressing,
			fmt.Sprintf("%d of %d instances are not covered: %s", s.Uncovered, s.Selected,
				named(s.Sources, storagev1.SourceUncovered)))
	case s.Failing > 0:
		return outcome.Stalled(reasonFailing,
			fmt.Sprintf("%d of %d instances have no backup of the last time: %s", s.Failing, s.Selected,
				named(s.Sources, storagev1.SourceFailing)))
	}
	return outcome.Done()
}

// named tells of the first sources in a state, which come one after another.
func named(sources []storagev1.BackupPolicySource, state storagev1.BackupSourceState) string {
	text, count := "", 0
	for i := range sources {
		one := &sources[i]
		if one.State != state || count == mostNamed {
			continue
		}
		count++
		if text != "" {
			text += "; "
		}
		text += fmt.Sprintf("%s/%s: %s", one.Namespace, one.Application, one.Message)
	}
	return text
}

// wake is when to look again.
func wake(p plan, now time.Time) time.Duration {
	if p.next.IsZero() {
		return 0
	}
	return max(time.Second, p.next.Sub(now))
}
