// SPDX-License-Identifier: Apache-2.0

package cronjob

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/cron"

	batchv1 "github.com/zeroinfra/batch-operator/api/v1"
)

const (
	// late is how much later than its time a run begins as if on time: an operator that is replaced is back by then.
	late = 5 * time.Minute
	// setBack is how far a clock can be behind the record and still be believed.
	setBack = time.Hour
	// mostCounted is how many times that are passed over are counted at a time.
	mostCounted = 1000
	// underWay says why a time waits or is skipped.
	underWay = "another run is under way"
	// mostWaiting is how many times wait at most under the policy Allow, for dependencies: the status holds them.
	mostWaiting = 1000
	// shownTimes is how many of the next times the status has.
	shownTimes = 3
)

// facts are what is decided on beside the CronJob.
type facts struct {
	now time.Time
	// runs are the Operations of the CronJob by name. One in its status that is not among them was deleted.
	runs map[string]run
	// dependencies are what it depends on, as far as that exists.
	dependencies map[dependencyKey]*dependency
	// cycle are the names of the CronJobs by which it depends on itself, with its own at both ends; empty for none.
	cycle []string
}

// run is an Operation of the CronJob.
type run struct {
	name string
	// time of the schedule that it is for, and when it was created.
	time, created time.Time
	// phase of the Operation; empty before it began.
	phase platformv1.OperationPhase
	// ended is when it did; zero before.
	ended time.Time
	// failure says why it failed.
	failure string
	// cancels says that it was asked to end.
	cancels cancelling
	// synchronized is its Operation where that has to hold something; nil otherwise.
	synchronized *platformv1.Operation
	// obstacle keeps its pod from starting; zero for nothing.
	obstacle obstacle
}

// cancelling says whether a run was asked to end.
type cancelling string

const asked cancelling = "asked"

// creation is a run to create.
type creation struct {
	name string
	time time.Time
	// key is the same for this run alone, over all CronJobs that ever were.
	key string
}

// plan is what to do now, in this order.
type plan struct {
	create []creation
	cancel []string
	// status to write once all runs were created.
	status batchv1.CronJobStatus
	// remove are runs whose time is over. They are in no list of the status that was read.
	remove []string
	// wake is when to look again although nothing happened; zero for never.
	wake time.Time
}

// decide plans what comes of a CronJob now.
func decide(cj *batchv1.CronJob, schedule cron.Schedule, f facts) plan {
	p := &planner{cj: cj, schedule: schedule, facts: f}
	p.status = *cj.Status.DeepCopy()
	p.settle()
	due := p.takeDue()
	p.adopt()
	p.countEnded()
	if cj.Spec.Suspend {
		p.rest()
	} else {
		p.queueAll(due)
		p.dispatch()
	}
	p.runManually()
	p.replace()
	p.expire()
	p.status.NextTimes = nil
	if !cj.Spec.Suspend {
		p.planNextTimes()
	}
	return p.plan
}

// planner is a plan in the making.
type planner struct {
	plan
	cj       *batchv1.CronJob
	schedule cron.Schedule
	facts    facts
	// adopted is the latest time whose run was not in the status.
	adopted time.Time
}

// wakeAt has the plan look again at a time.
func (p *planner) wakeAt(at time.Time) { p.plan.wakeAt(at, p.facts.now) }

// wakeAt is that of a planner: a time that has passed wakes nobody.
func (p *plan) wakeAt(at, now time.Time) {
	if at.After(now) && (p.wake.IsZero() || at.Before(p.wake)) {
		p.wake = at
	}
}

// countEnded takes the runs that have ended off the list of those that are under way, and counts them.
func (p *planner) countEnded() {
	var active []batchv1.ActiveRun
	for _, one := range p.status.Active {
		r, exists := p.facts.runs[one.Operation]
		switch {
		case !exists:
			p.fail(one.Operation, p.facts.now, "the Operation was deleted before it ended")
		case r.ended.IsZero():
			active = append(active, one)
		case r.phase == platformv1.OperationSucceeded:
			p.status.Counts.Succeeded++
			p.status.LastSuccessTime = latest(p.status.LastSuccessTime, r.ended)
		default:
			p.fail(one.Operation, r.ended, r.failure)
		}
	}
	p.status.Active = active
}

func (p *planner) fail(name string, at time.Time, why string) {
	p.status.Counts.Failed++
	if last := p.status.LastFailure; last != nil && last.Time != nil && last.Time.After(at) {
		// Runs under way together that are seen to have ended together come in the order in which they began.
		return
	}
	p.status.LastFailure = &batchv1.RunFailure{Operation: name, Time: stamp(at), Reason: why}
}

// settle says from when on times count.
func (p *planner) settle() {
	s, now := &p.status, p.facts.now.Truncate(time.Second)
	text := textOf(p.cj)
	resumed := s.Suspended && !p.cj.Spec.Suspend
	switch {
	case s.SettledTime == nil:
		s.SettledTime = stamp(p.cj.CreationTimestamp.Time)
	case s.Schedule != text, resumed && p.missed() == "Skip":
		s.SettledTime = stamp(now)
	case s.SettledTime.Sub(p.facts.now) > setBack:
		s.Message = fmt.Sprintf("the clock was set back from %s: times count from %s", p.shown(s.SettledTime.Time),
			p.shown(now))
		s.SettledTime = stamp(now)
	}
	s.Schedule, s.Suspended = text, p.cj.Spec.Suspend
}

func (p *planner) missed() string { return cmp.Or(p.cj.Spec.MissedRuns.Policy, "Skip") }

func (p *planner) concurrency() string { return cmp.Or(p.cj.Spec.Concurrency.Policy, "Forbid") }

// due returns the times that have come since the settled one, jitter included, the earliest first, and how many of them
// to run at most.
func (p *planner) due() (times []time.Time, limit int) {
	limit = 1
	if p.cj.Spec.MissedRuns.Max != nil && p.missed() == "All" {
		limit = int(*p.cj.Spec.MissedRuns.Max)
	}
	times, _ = p.schedule.Last(p.status.SettledTime.Time, p.facts.now, limit+mostCounted)
	if n := len(times); n > 0 && p.startOf(times[n-1]).After(p.facts.now) {
		times = times[:n-1]
	}
	return times, limit
}

// takeDue returns the times that have come, have no run and are not too many to make up for. All are settled then.
func (p *planner) takeDue() []time.Time {
	if p.cj.Spec.Suspend {
		return nil
	}
	times, limit := p.due()
	if len(times) == 0 {
		return nil
	}
	p.status.SettledTime = stamp(times[len(times)-1])
	kept := max(0, len(times)-limit)
	missed := slices.DeleteFunc(slices.Clone(times[:kept]), p.exists)
	if dropped := len(missed); dropped > 0 {
		p.status.Counts.Skipped += int64(dropped)
		p.status.Message = fmt.Sprintf("%d times up to %s were missed: missedRuns is %s", dropped,
			p.shown(missed[dropped-1]), p.missed())
	}
	return slices.DeleteFunc(times[kept:], p.exists)
}

// queueAll decides on times that have come: each waits for its turn, or is skipped.
func (p *planner) queueAll(times []time.Time) {
	if len(times) == 0 {
		return
	}
	p.giveUp()
	before := len(p.status.Waiting)
	for _, at := range times {
		why := p.tooLate(at)
		if why == "" && p.concurrency() == "Replace" {
			// A time that has no run replaces none.
			why = p.turnOf(at).over
		}
		if why != "" {
			p.skip(at, why)
			continue
		}
		p.queue(at, before)
	}
}

// tooLate says why no run begins any more for a time; empty when one does.
func (p *planner) tooLate(at time.Time) string {
	since := p.facts.now.Sub(p.startOf(at))
	switch deadline := p.cj.Spec.StartingDeadline; {
	case deadline != nil && since > deadline.Duration:
		return fmt.Sprintf("startingDeadline of %s is over", deadline.Duration)
	case p.missed() == "Skip" && since > late:
		return fmt.Sprintf("it was missed by %s, and missedRuns is Skip", since.Round(time.Second))
	}
	return ""
}

// queue has a time wait for its turn, by the concurrency policy. Times that are made up for together wait for each
// other; before is how many waited already.
func (p *planner) queue(at time.Time, before int) {
	waiting := &p.status.Waiting
	switch p.concurrency() {
	case "Forbid":
		switch {
		case p.busy(at):
			p.skip(at, underWay)
			return
		case before > 0:
			p.skip(at, "the run of an earlier time waits")
			return
		}
	case "Replace":
		if p.replaced(at) {
			return
		}
		for _, former := range *waiting {
			p.skip(former.Time, "a later time has come")
		}
		*waiting = nil
	default:
		most := p.mostWaiting()
		if len(*waiting) < most {
			break
		}
		if stay := len(*waiting) - p.leaving(); stay >= most {
			p.skip(at, fmt.Sprintf("%d runs are waiting", stay))
			return
		}
	}
	*waiting = append(*waiting, *stamp(at))
}

// mostWaiting is how many times wait at most, under the policies that let several do so.
func (p *planner) mostWaiting() int {
	if most := p.cj.Spec.Concurrency.Max; most != nil && p.concurrency() == "Queue" {
		return int(*most)
	}
	return mostWaiting
}

// busy says whether a run was under way when a time came. What a controller that died created since was made up for
// together with it.
func (p *planner) busy(at time.Time) bool {
	return slices.ContainsFunc(p.status.Active, func(one batchv1.ActiveRun) bool {
		r := p.facts.runs[one.Operation]
		return !p.unrecorded(r) || r.created.Before(p.startOf(at))
	})
}

// skip notes that a time has no run, and why.
func (p *planner) skip(at time.Time, why string) {
	p.status.Counts.Skipped++
	p.status.Message = fmt.Sprintf("%s was skipped: %s", p.shown(at), why)
}

// rest says why the times that wait do so while the CronJob is suspended.
func (p *planner) rest() {
	p.status.WaitingFor = ""
	if len(p.status.Waiting) > 0 {
		p.waitFor(p.status.Waiting[0].Time, "no run begins while spec.suspend is true")
	}
}

// waitFor notes what the first time that waits does so for.
func (p *planner) waitFor(at time.Time, what string) {
	p.status.WaitingFor = fmt.Sprintf("%s waits: %s", p.shown(at), what)
}

// beginAt begins the run of a time.
func (p *planner) beginAt(at time.Time) {
	p.begin(creation{name: nameOf(p.cj, at), time: at,
		key: fmt.Sprintf("%s/%s", p.cj.UID, at.UTC().Format(time.RFC3339))})
	p.status.LastTime = latest(p.status.LastTime, at)
}

// begin creates a run, unless it exists.
func (p *planner) begin(c creation) {
	if _, exists := p.facts.runs[c.name]; !exists {
		p.create = append(p.create, c)
	}
	p.status.Counts.Started++
	p.status.Active = append(p.status.Active, batchv1.ActiveRun{Operation: c.name, Time: *stamp(c.time)})
}

// runManually creates a run that somebody asked for, whatever is under way.
func (p *planner) runManually() {
	token := p.cj.Annotations[batchv1.RunAnnotation]
	if token == "" || token == p.status.LastManualRun {
		return
	}
	p.status.LastManualRun = token
	p.begin(creation{name: manualNameOf(p.cj, token), time: p.facts.now.Truncate(time.Second),
		key: fmt.Sprintf("%s/run/%s", p.cj.UID, token)})
}

// replace cancels what is under way for a time whose turn has come otherwise.
func (p *planner) replace() {
	if p.concurrency() != "Replace" || len(p.status.Waiting) == 0 || p.cj.Spec.Suspend ||
		!p.turnOf(p.status.Waiting[0].Time).replaces {
		return
	}
	for _, one := range p.status.Active {
		if r, exists := p.facts.runs[one.Operation]; exists && r.cancels != asked {
			p.cancel = append(p.cancel, one.Operation)
		}
	}
}

// planNextTimes tells the next times, and wakes at the first.
func (p *planner) planNextTimes() {
	at := p.status.SettledTime.Time
	for range shownTimes {
		if at = p.schedule.Next(at); at.IsZero() {
			return
		}
		if len(p.status.NextTimes) == 0 {
			p.wakeAt(p.startOf(at))
			if !p.startOf(at).After(p.facts.now) {
				p.wakeAt(p.facts.now.Add(time.Second))
			}
		}
		p.status.NextTimes = append(p.status.NextTimes, *stamp(at))
	}
}

// shown is a time as a person in the zone of the schedule reads it.
func (p *planner) shown(at time.Time) string { return at.In(p.schedule.Zone()).Format(time.RFC3339) }

func stamp(at time.Time) *metav1.Time { return new(metav1.NewTime(at.UTC())) }

func latest(was *metav1.Time, at time.Time) *metav1.Time {
	if was != nil && was.After(at) {
		return was
	}
	return stamp(at)
}
