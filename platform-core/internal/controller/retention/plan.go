// SPDX-License-Identifier: Apache-2.0

package retention

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// series is what Backups are counted with.
type series struct {
	application, method, schedule string
}

// verdict is that on one Backup that goes.
type verdict struct {
	backup *platformv1.Backup
	// why is the rule that has it go, as a sentence.
	why string
}

// plan is what comes of the retentions of the Backups in one repository.
type plan struct {
	// due are those that go now, the oldest first.
	due []verdict
	// next is when the next one is due by its age; zero for never.
	next time.Time
}

// decide applies the retentions of the Backups in one repository, of which those that instances have yet to begin with
// are in use, by name.
func decide(backups []*platformv1.Backup, inUse map[string]bool, now time.Time) plan {
	groups := map[series][]*platformv1.Backup{}
	for _, b := range backups {
		if b.Ended() && b.DeletionTimestamp.IsZero() && b.Status.CompletionTime != nil {
			of := series{b.Spec.ApplicationRef.Name, b.Spec.Method, b.Labels[platformv1.ScheduleLabel]}
			groups[of] = append(groups[of], b)
		}
	}
	var p plan
	for _, group := range groups {
		p.take(group, now)
	}
	p.spare(inUse, now)
	slices.SortFunc(p.due, func(a, b verdict) int { return older(a.backup, b.backup) })
	return p
}

// spare leaves those that are in use for later.
func (p *plan) spare(inUse map[string]bool, now time.Time) {
	due := len(p.due)
	p.due = slices.DeleteFunc(p.due, func(v verdict) bool { return inUse[v.backup.Name] })
	if later := now.Add(reprieve); len(p.due) < due && (p.next.IsZero() || later.Before(p.next)) {
		p.next = later
	}
}

// take decides on one series. Those that failed are counted by themselves, and the last of them tells what went wrong.
func (p *plan) take(group []*platformv1.Backup, now time.Time) {
	slices.SortFunc(group, func(a, b *platformv1.Backup) int { return older(b, a) })
	// Of each kind, how many there were so far, and how many of them are counted.
	seen, counted := map[bool]int{}, map[bool]int32{}
	for _, b := range group {
		if missing(b) {
			// Whoever looked may have looked at the wrong place: one day it may be the only one.
			continue
		}
		good := b.Status.Phase == platformv1.BackupCompleted
		last := seen[good] == 0
		seen[good]++
		if b.Spec.Retention == nil || b.Spec.DeletionPolicy != platformv1.BackupDelete {
			continue
		}
		newer := counted[good]
		counted[good]++
		if !last {
			p.judge(b, newer, now)
		}
	}
}

// judge decides on a Backup that is not the last of its kind.
func (p *plan) judge(b *platformv1.Backup, newer int32, now time.Time) {
	rules := b.Spec.Retention
	if rules.MaxCount != nil && newer >= *rules.MaxCount {
		p.due = append(p.due, verdict{b, fmt.Sprintf("there are %d newer ones, and maxCount is %d", newer, *rules.MaxCount)})
		return
	}
	if rules.MaxAge == nil {
		return
	}
	switch until := b.Status.CompletionTime.Add(rules.MaxAge.Duration); {
	case !now.Before(until):
		p.due = append(p.due, verdict{b, fmt.Sprintf("it is older than maxAge, which is %s", rules.MaxAge.Duration)})
	case p.next.IsZero() || until.Before(p.next):
		p.next = until
	}
}

// reprieve is how long a Backup that is in use is left alone before it is looked at again.
const reprieve = time.Minute

// missing says whether what is kept of a Backup was not found in its repository. It is neither judged nor counted.
func missing(b *platformv1.Backup) bool {
	ready := meta.FindStatusCondition(b.Status.Conditions, platformv1.ReadyCondition)
	return b.Status.Phase == platformv1.BackupCompleted && ready != nil &&
		ready.Reason == platformv1.ReasonBackupDataMissing
}

// older sorts Backups by when they ended.
func older(a, b *platformv1.Backup) int {
	return cmp.Or(a.Status.CompletionTime.Compare(b.Status.CompletionTime.Time), cmp.Compare(a.Name, b.Name))
}

// patience is how many deletions that do not come to an end keep no others waiting.
const patience = 8

// room is how many more Backups may be deleted now, of a repository where so many run at a time.
func room(backups []*platformv1.Backup, limit int) int {
	going, stuck := 0, 0
	for _, b := range backups {
		switch {
		case b.DeletionTimestamp.IsZero():
		case b.Status.Removals > 0:
			stuck++
		default:
			going++
		}
	}
	return max(0, limit-going-max(0, stuck-patience))
}

// in returns the Backups of a list that are in a repository.
func in(repository string, list []platformv1.Backup) []*platformv1.Backup {
	var found []*platformv1.Backup
	for i := range list {
		if list[i].Spec.RepositoryRef.Name == repository {
			found = append(found, &list[i])
		}
	}
	return found
}
