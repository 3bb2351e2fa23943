// SPDX-License-Identifier: Apache-2.0

package cronjob

import (
	"cmp"
	"slices"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

const (
	defaultSucceeded = 3
	defaultFailed    = 3
)

// expire removes runs that have ended, by number and age. What the status that was read has as under way is counted
// first, and a run that is not in it is what keeps its time from having another one.
func (p *planner) expire() {
	uncounted := map[string]struct{}{}
	for _, one := range p.cj.Status.Active {
		uncounted[one.Operation] = struct{}{}
	}
	for _, one := range p.status.Active {
		uncounted[one.Operation] = struct{}{}
	}
	for _, at := range p.cj.Status.Waiting {
		uncounted[nameOf(p.cj, at.Time)] = struct{}{}
	}
	var succeeded, failed []run
	for _, r := range p.facts.runs {
		if _, is := uncounted[r.name]; is || r.ended.IsZero() || p.unrecorded(r) {
			continue
		}
		if r.phase == platformv1.OperationSucceeded {
			succeeded = append(succeeded, r)
		} else {
			failed = append(failed, r)
		}
	}
	history := p.cj.Spec.History
	p.expireOldest(succeeded, kept(history.Succeeded, defaultSucceeded))
	p.expireOldest(failed, kept(history.Failed, defaultFailed))
}

func kept(limit *int32, otherwise int) int {
	if limit == nil {
		return otherwise
	}
	return int(*limit)
}

// expireOldest keeps the newest of some runs, as long as these may be kept.
func (p *planner) expireOldest(runs []run, limit int) {
	slices.SortFunc(runs, func(a, b run) int { return cmp.Or(b.ended.Compare(a.ended), cmp.Compare(a.name, b.name)) })
	for i, r := range runs {
		age := p.cj.Spec.History.MaxAge
		switch {
		case i >= limit, age != nil && p.facts.now.Sub(r.ended) >= age.Duration:
			p.remove = append(p.remove, r.name)
		case age != nil:
			p.wakeAt(r.ended.Add(age.Duration))
		}
	}
}
