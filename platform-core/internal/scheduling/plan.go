// SPDX-License-Identifier: Apache-2.0

package scheduling

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/maintenance"
	"github.com/zeroinfra/platform-core/internal/schedule"
	"github.com/zeroinfra/platform-core/sdk/cron"
)

const (
	// Late is how much later than its time an Operation is made as if on time: an operator that is replaced is back by
	// then.
	Late = 5 * time.Minute
	// setBack is how far a clock can be behind the record of a schedule and still be believed.
	setBack = time.Hour
	// defaultMissed is how many missed times are made up for at most where the spec does not say.
	defaultMissed = 10
)

// Facts are what a plan rests on beside the Application.
type Facts struct {
	// Now is the time.
	Now time.Time
	// Operations of the schedules that are there.
	Operations []Made
	Templates
}

// Templates says what is to be known of the template that a schedule names.
type Templates struct {
	// Disrupts says whether it restarts or replaces pods, and so waits for maintenance windows.
	Disrupts func(templateRef string) bool
	// Impossible says why it cannot come to anything with this instance, so that its times pass; empty when it can. Nil
	// says so of all.
	Impossible func(templateRef string) string
}

func (t Templates) against(spec *platformv1.Schedule) string {
	if t.Impossible == nil {
		return ""
	}
	return t.Impossible(spec.Operation.TemplateRef)
}

// Made is an Operation that is there.
type Made struct {
	Name, Schedule string
	Phase          MadePhase
}

// MadePhase says whether an Operation is under way.
type MadePhase string

// Values of MadePhase.
const (
	Unfinished MadePhase = "Unfinished"
	Finished   MadePhase = "Finished"
)

// Run is an Operation to make.
type Run struct {
	Schedule *platformv1.Schedule
	// Time of the schedule, in its zone.
	Time time.Time
	// Name of the Operation.
	Name string
}

// Plan is what comes of the schedules now.
type Plan struct {
	// Runs to make before Records are written, the earliest first.
	Runs []Run
	// Records to remember.
	Records Records
	// Passed tells, by schedule, which time was passed over now and why.
	Passed map[string]string
	// Next is when the next time comes; zero for never.
	Next time.Time
}

// Check returns what cannot be read in the schedules of a spec, each naming its place.
func Check(app *platformv1.Application) []error {
	var problems []error
	for i := range app.Spec.Schedules {
		if _, err := parse(&app.Spec.Schedules[i]); err != nil {
			problems = append(problems, fmt.Errorf("schedules[%d] %q: %w", i, app.Spec.Schedules[i].Name, err))
		}
	}
	return problems
}

// For plans what comes of the schedules of an Application. A schedule that cannot be read does nothing and keeps its
// record.
func For(app *platformv1.Application, f Facts) Plan {
	p := Plan{Records: Records{}, Passed: map[string]string{}}
	known := RecordsOf(app)
	for i := range app.Spec.Schedules {
		spec := &app.Spec.Schedules[i]
		record, has := known[spec.Name]
		line, err := parse(spec)
		if err != nil {
			if has {
				p.Records[spec.Name] = record
			}
			continue
		}
		one := timed{app: app, spec: spec, line: line, windows: windowsFor(app, spec, f.Disrupts)}
		switch paused := spec.Suspend || app.Spec.Suspend || f.against(spec) != ""; {
		case paused && has && record.Paused:
			// Its times pass.
		case !has, paused, record.Paused, record.Schedule != one.text():
			record = Record{Schedule: one.text(), Since: f.Now.Truncate(time.Second).UTC(), Paused: paused, Last: record.Last,
				Operation: record.Operation}
		case record.Since.Sub(f.Now) > setBack:
			record.Note = fmt.Sprintf("the clock was set back from %s: times count from %s", in(record.Since, line),
				in(f.Now, line))
			record.Since = f.Now.Truncate(time.Second).UTC()
			p.Passed[spec.Name] = record.Note
		default:
			one.settle(&record, f, &p)
		}
		p.Records[spec.Name] = record
		if next := one.next(record); !next.IsZero() && (p.Next.IsZero() || next.Before(p.Next)) {
			p.Next = next
		}
	}
	slices.SortStableFunc(p.Runs, func(a, b Run) int { return a.Time.Compare(b.Time) })
	return p
}

// Status is what is shown of the schedules of an Application, the next one first. It depends on no clock.
func Status(app *platformv1.Application, templates Templates) []platformv1.ScheduleStatus {
	var all []platformv1.ScheduleStatus
	records := RecordsOf(app)
	for i := range app.Spec.Schedules {
		spec := &app.Spec.Schedules[i]
		record := records[spec.Name]
		status := platformv1.ScheduleStatus{Name: spec.Name, LastTime: shown(record.Last), LastOperation: record.Operation,
			Message: record.Note}
		line, err := parse(spec)
		if why := templates.against(spec); why != "" {
			status.Reason, status.Message = platformv1.ReasonNotPossible, why
		} else if err == nil {
			one := timed{app: app, spec: spec, line: line, windows: windowsFor(app, spec, templates.Disrupts)}
			if record.Schedule == one.text() {
				status.NextTime = shown(one.next(record))
			}
		}
		all = append(all, status)
	}
	slices.SortStableFunc(all, func(a, b platformv1.ScheduleStatus) int {
		if a.NextTime == nil || b.NextTime == nil {
			return cmp.Compare(absent(a.NextTime), absent(b.NextTime))
		}
		return a.NextTime.Compare(b.NextTime.Time)
	})
	return all
}

func absent(t *metav1.Time) int {
	if t == nil {
		return 1
	}
	return 0
}

func shown(t time.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	return new(metav1.NewTime(t.UTC()))
}

func parse(spec *platformv1.Schedule) (cron.Schedule, error) {
	return schedule.Parse(string(spec.Schedule), string(spec.TimeZone))
}

// windowsFor returns the windows that a schedule waits for. Those that cannot be read hold nothing: the spec is refused
// for them.
func windowsFor(app *platformv1.Application, spec *platformv1.Schedule,
	disrupts func(string) bool) maintenance.Windows {
	if app.Spec.Maintenance == nil || !disrupts(spec.Operation.TemplateRef) {
		return nil
	}
	windows, _ := maintenance.Parse(app.Spec.Maintenance)
	return windows
}

// timed is a schedule that was read.
type timed struct {
	app     *platformv1.Application
	spec    *platformv1.Schedule
	line    cron.Schedule
	windows maintenance.Windows
}

func (t timed) text() string { return string(t.spec.Schedule) + " " + string(t.spec.TimeZone) }

// effective is when what a time asks for may happen.
func (t timed) effective(at time.Time) time.Time {
	if opening, closed := t.windows.Closed(at); closed {
		return opening.Time
	}
	return at
}

// next is when the first time comes that is not settled; zero while the times pass.
func (t timed) next(record Record) time.Time {
	if record.Paused {
		return time.Time{}
	}
	return t.effective(t.line.Next(record.Since))
}

// settle decides on the times that have come.
func (t timed) settle(record *Record, f Facts, p *Plan) {
	limit := 1
	if t.spec.MissedRuns == platformv1.MissedAll {
		limit = defaultMissed
		if t.spec.MissedLimit != nil {
			limit = int(*t.spec.MissedLimit)
		}
	}
	times, more := t.missed(record.Since, t.windows.Seen(record.Since, f.Now), limit)
	if len(times) == 0 {
		return
	}
	latest := times[len(times)-1]
	record.Since = latest.UTC()
	why := t.against(latest, f)
	if why == "" && more && limit > 1 {
		p.Passed[t.spec.Name] = fmt.Sprintf("times before %s were missed and are more than the limit of %d",
			in(times[0], t.line), limit)
	}
	if why != "" {
		record.Note = fmt.Sprintf("passed over %s: %s", in(latest, t.line), why)
		p.Passed[t.spec.Name] = record.Note
		return
	}
	for _, at := range times {
		p.Runs = append(p.Runs, Run{Schedule: t.spec, Time: at, Name: t.name(at)})
	}
	record.Last, record.Operation, record.Note = latest.UTC(), t.name(latest), p.Passed[t.spec.Name]
}

// mostTimes are how many times are looked at, at most, to find those that have an opening of a maintenance window for
// themselves.
const mostTimes = 10000

// missed are the last times after a moment and until another one, and whether there were more. Of several that wait for
// one opening the last counts.
func (t timed) missed(since, until time.Time, limit int) (times []time.Time, more bool) {
	if limit == 1 {
		return t.line.Last(since, until, limit)
	}
	all, more := t.line.Last(since, until, max(limit, mostTimes))
	for i, at := range all {
		if i == len(all)-1 || !t.effective(at).Equal(t.effective(all[i+1])) {
			times = append(times, at)
		}
	}
	return times[max(0, len(times)-limit):], more || len(times) > limit
}

func (t timed) name(at time.Time) string {
	return platformv1.ScheduledOperationNameFor(t.app.Name, t.spec.Name, at)
}

// against says why no Operation is made for a time; empty when one is.
func (t timed) against(at time.Time, f Facts) string {
	name := t.name(at)
	for _, op := range f.Operations {
		if op.Name == name {
			// It is made, and the record of that was lost.
			return ""
		}
	}
	if t.spec.Concurrency != platformv1.ConcurrencyQueue {
		for _, op := range f.Operations {
			if op.Schedule == t.spec.Name && op.Phase == Unfinished {
				return fmt.Sprintf("Operation %q has not ended", op.Name)
			}
		}
	}
	if late := f.Now.Sub(t.effective(at)); late > Late &&
		(t.spec.MissedRuns == "" || t.spec.MissedRuns == platformv1.MissedSkip) {
		return fmt.Sprintf("no operator was there until %s later", late.Round(time.Second))
	}
	return ""
}

// in returns a time to the minute as a person in the zone of a schedule reads it.
func in(t time.Time, line cron.Schedule) string {
	return maintenance.Opening{Time: t.In(line.Zone())}.String()
}
