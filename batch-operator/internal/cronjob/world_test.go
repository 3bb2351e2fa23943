// SPDX-License-Identifier: Apache-2.0

package cronjob

import (
	"cmp"
	"maps"
	"math/rand"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/cron"

	batchv1 "github.com/zeroinfra/batch-operator/api/v1"
	"github.com/zeroinfra/batch-operator/internal/cronjob/runoracle"
)

var begin = time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)

// world plays the API server, the engine and the clock for one CronJob.
type world struct {
	t        testing.TB
	cj       *batchv1.CronJob
	schedule cron.Schedule
	now      time.Time
	// takes is how long a run takes, and fails whether it does then.
	takes time.Duration
	fails func(name string) bool
	// runs that exist, and the times of all that ever did.
	runs    map[string]run
	created map[string]time.Time
	order   []time.Time
	others  map[dependencyKey]*dependency
	// news of what it depends on that have not come yet, in their order.
	news []news
	// cancelled is when runs were.
	cancelled map[string]time.Time
	// random decides when a controller is killed; nil for never. left is after how many writes it is, or never.
	random *rand.Rand
	left   int
	// version of the CronJob, and how many runs were not created since they existed.
	version, refused int
}

// news is what happens to a dependency, and when.
type news struct {
	runoracle.Event
	of dependencyKey
}

func newWorld(t testing.TB, change func(*batchv1.CronJobSpec)) *world {
	t.Helper()
	cj := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "report", UID: "u",
		CreationTimestamp: metav1.NewTime(begin)}}
	cj.Spec = batchv1.CronJobSpec{Schedules: []string{"0 * * * *"}, TimeZone: "UTC",
		Task: batchv1.Task{HTTP: &batchv1.HTTPTask{URL: "https://example.com"}}}
	if change != nil {
		change(&cj.Spec)
	}
	w := &world{t: t, cj: cj, now: begin, takes: time.Minute, runs: map[string]run{}, created: map[string]time.Time{},
		others: map[dependencyKey]*dependency{}, cancelled: map[string]time.Time{}, left: never}
	w.read()
	return w
}

// read takes over another schedule.
func (w *world) read() {
	w.t.Helper()
	schedule, err := scheduleOf(w.cj)
	if err != nil {
		w.t.Fatal(err)
	}
	w.schedule = schedule
}

// never is after how many writes a controller is killed that is not.
const never = -1

// dies says whether the controller is killed at this point.
func (w *world) dies() bool {
	switch {
	case w.random != nil:
		return w.random.Intn(4) == 0
	case w.left == never:
		return false
	}
	w.left--
	return w.left < 0
}

// view is what a controller has decided on what it has read.
type view struct {
	plan    plan
	version int
}

// turn is one reconciliation. It returns when the next one comes by itself.
func (w *world) turn() time.Time {
	w.t.Helper()
	return w.act(w.look())
}

// killedTurn is a turn of a controller that is killed after so many writes.
func (w *world) killedTurn(writes int) {
	w.t.Helper()
	w.left = writes
	w.turn()
	w.left = never
}

// look reads what there is and decides on it.
func (w *world) look() view {
	for name, r := range w.runs {
		ends := w.endOf(name)
		if !r.ended.IsZero() || w.now.Before(ends) {
			continue
		}
		r.ended, r.phase = ends, platformv1.OperationSucceeded
		switch {
		case ends.Before(w.created[name].Add(w.takes)):
			r.phase, r.failure = platformv1.OperationCancelled, "it was cancelled"
		case w.fails != nil && w.fails(name):
			r.phase, r.failure = platformv1.OperationFailed, "it broke"
		}
		w.runs[name] = r
	}
	w.hear()
	return view{version: w.version, plan: decide(w.cj.DeepCopy(), w.schedule,
		facts{now: w.now, runs: maps.Clone(w.runs), dependencies: w.others})}
}

// endOf is when a run ends.
func (w *world) endOf(name string) time.Time {
	ends := w.created[name].Add(w.takes)
	if at, is := w.cancelled[name]; is && at.Add(runoracle.Cancelling).Before(ends) {
		return at.Add(runoracle.Cancelling)
	}
	return ends
}

// hear takes over the news that have come.
func (w *world) hear() {
	for len(w.news) > 0 && !w.news[0].At.After(w.now) {
		n := w.news[0]
		w.news = w.news[1:]
		var on dependency
		if known := w.others[n.of]; known != nil {
			on = *known
		}
		switch n.What {
		case "Gone":
			delete(w.others, n.of)
			continue
		case "Succeeded":
			on.success = stamp(n.At)
		default:
			on.failure = stamp(n.At)
		}
		w.others[n.of] = &on
	}
}

// act carries out what was decided. A run that exists is not created, and a status is written only on what was read.
func (w *world) act(v view) time.Time {
	w.t.Helper()
	p, again := v.plan, w.now.Add(time.Second)
	for _, c := range p.create {
		if w.dies() {
			return again
		}
		if _, exists := w.runs[c.name]; exists {
			w.refused++
			continue
		}
		if _, was := w.created[c.name]; was {
			w.t.Fatalf("%s: the run of %s is created once more", w.now, c.time)
		}
		w.runs[c.name], w.created[c.name] = run{name: c.name, time: c.time, created: w.now}, w.now
		w.order = append(w.order, c.time)
	}
	for _, name := range p.cancel {
		if w.random != nil && w.dies() {
			return again
		}
		r, exists := w.runs[name]
		if !exists || !r.ended.IsZero() || r.cancels == asked {
			continue
		}
		r.cancels = asked
		w.runs[name], w.cancelled[name] = r, w.now
	}
	for _, name := range p.remove {
		if w.random != nil && w.dies() {
			return again
		}
		delete(w.runs, name)
	}
	if w.dies() || v.version != w.version {
		return again
	}
	w.version++
	w.cj.Status = p.status
	return p.wake
}

// live goes on until a time.
func (w *world) live(until time.Time) {
	w.t.Helper()
	for w.now.Before(until) {
		w.now = w.following(w.turn(), until)
	}
	w.turn()
}

// following is when somebody looks again: at a moment that a plan named, or until one, or before that when a run ends
// or there is news of a dependency.
func (w *world) following(next, until time.Time) time.Time {
	if next.IsZero() || next.After(until) {
		next = until
	}
	for name, r := range w.runs {
		if ends := w.endOf(name); r.ended.IsZero() && ends.After(w.now) && ends.Before(next) {
			next = ends
		}
	}
	if len(w.news) > 0 && w.news[0].At.Before(next) {
		return w.news[0].At
	}
	return next
}

// times that runs were created for, in order.
func (w *world) times() []time.Time {
	times := slices.Clone(w.order)
	slices.SortFunc(times, time.Time.Compare)
	return times
}

// want checks the times of all runs, as hours and minutes since the beginning.
func (w *world) want(want ...time.Duration) {
	w.t.Helper()
	var got []time.Duration
	for _, at := range w.order {
		got = append(got, at.Sub(begin))
	}
	slices.SortFunc(got, cmp.Compare[time.Duration])
	if !slices.Equal(got, want) {
		w.t.Errorf("runs are for %v, want %v; status: %+v", got, want, w.cj.Status)
	}
}
