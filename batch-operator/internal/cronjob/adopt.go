// SPDX-License-Identifier: Apache-2.0

package cronjob

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// settledBefore is up to when times were decided on by what was read.
func (p *planner) settledBefore() time.Time {
	if settled := p.cj.Status.SettledTime; settled != nil {
		return settled.Time
	}
	return p.cj.CreationTimestamp.Time
}

// unrecorded says whether a controller created the run of a time and died before it wrote so.
func (p *planner) unrecorded(r run) bool {
	return r.time.After(p.settledBefore()) && r.name == nameOf(p.cj, r.time)
}

// adopt takes over the runs that are not in the status: those of times that wait, and of times that are settled by now
// and were not before. No time is settled while a CronJob is suspended: the latter are taken over when it goes on.
func (p *planner) adopt() {
	known := map[string]struct{}{}
	for _, one := range p.status.Active {
		known[one.Operation] = struct{}{}
	}
	var found []time.Time
	p.status.Waiting = slices.DeleteFunc(p.status.Waiting, func(at metav1.Time) bool {
		if p.exists(at.Time) {
			found = append(found, at.Time)
		}
		return p.exists(at.Time)
	})
	for _, r := range p.facts.runs {
		if _, is := known[r.name]; !is && p.unrecorded(r) && !r.time.After(p.status.SettledTime.Time) {
			found = append(found, r.time)
		}
	}
	slices.SortFunc(found, time.Time.Compare)
	for _, at := range slices.CompactFunc(found, time.Time.Equal) {
		p.beginAt(at)
		p.adopted = at
	}
	if p.concurrency() == "Replace" {
		p.status.Waiting = slices.DeleteFunc(p.status.Waiting, func(at metav1.Time) bool { return p.replaced(at.Time) })
	}
}

// replaced skips a time under the policy Replace where the run of a later one was adopted.
func (p *planner) replaced(at time.Time) bool {
	if !p.adopted.After(at) {
		return false
	}
	p.skip(at, "a later time has come")
	return true
}

// exists says whether there is a run of a time, which says so itself.
func (p *planner) exists(at time.Time) bool {
	r, exists := p.facts.runs[nameOf(p.cj, at)]
	return exists && r.time.Equal(at)
}
