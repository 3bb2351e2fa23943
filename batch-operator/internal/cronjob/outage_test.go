// SPDX-License-Identifier: Apache-2.0

package cronjob

import (
	"math/rand"
	"sort"
	"testing"
	"time"

	"github.com/zeroinfra/platform-core/sdk/cron/oracle"

	"github.com/zeroinfra/batch-operator/internal/cronjob/runoracle"
)

// missed are the policies for times at which nobody was there, with and without a deadline.
var missed = []runoracle.Rules{
	{Missed: "Skip"}, {Missed: "Latest"}, {Missed: "All", Max: 3},
	{Missed: "Skip", Deadline: 90 * time.Second}, {Missed: "Latest", Deadline: 7 * time.Minute},
	{Missed: "All", Max: 4, Deadline: 65 * time.Minute},
}

// outage is a span without runs.
type outage struct {
	from, to time.Time
	// suspended tells a suspension from an operator that is away.
	suspended bool
	// decided says that the leader that is killed at the beginning creates first what is due.
	decided bool
	// again is when a leader takes over from the one at the end, which is killed once it has created a run; zero for no
	// such kill.
	again time.Time
}

// outages of a history: they begin and end a second before the run of a time is due, then, and a second or some minutes
// after that.
func (h *history) outages(random *rand.Rand) []outage {
	var all []outage
	spans := []time.Duration{0, 0, 4 * time.Minute, 25 * time.Minute, 2 * time.Hour, 3 * 24 * time.Hour}
	ends := []time.Duration{-time.Second, 0, time.Second, 2 * time.Second, 4 * time.Minute, 6 * time.Minute}
	for i := random.Intn(3); i < len(h.moments); {
		o := outage{from: h.moments[i].Add(time.Duration(random.Intn(3)-1) * time.Second), suspended: random.Intn(2) == 0,
			decided: random.Intn(2) == 0}
		last := h.after(o.from.Add(spans[random.Intn(len(spans))]))
		if last == len(h.moments) {
			break
		}
		o.to = h.moments[last].Add(ends[random.Intn(len(ends))])
		if o.to.Sub(o.from) < 2*time.Second {
			o.to = o.from.Add(2 * time.Second)
		}
		through := o.to
		if next := h.after(o.to); random.Intn(2) == 0 && next < len(h.moments) &&
			h.moments[next].Sub(o.to) > time.Minute {
			o.again = o.to.Add(30 * time.Second)
			through = o.again
		}
		all = append(all, o)
		i = h.after(through.Add(4*time.Second)) + random.Intn(4)
	}
	return all
}

// after is the first of the moments that comes after another one.
func (h *history) after(at time.Time) int {
	return sort.Search(len(h.moments), func(i int) bool { return h.moments[i].After(at) })
}

// absencesOf are the spans of some outages in which no run begins. One that begins with a killed leader does so after
// what that one did.
func absencesOf(outages []outage) []runoracle.Absence {
	var absences []runoracle.Absence
	for _, o := range outages {
		from := o.from
		if o.decided {
			from = from.Add(1)
		}
		absences = append(absences, runoracle.Absence{From: from, To: o.to, Suspended: o.suspended})
		if !o.again.IsZero() {
			absences = append(absences, runoracle.Absence{From: o.to.Add(1), To: o.again})
		}
	}
	return absences
}

// play lives through an outage. Leaders are killed at its beginning and its end, some before their first write.
func (h *history) play(o outage) {
	h.t.Helper()
	h.live(o.from.Add(-1))
	h.now = o.from
	if o.decided {
		h.killedTurn(1)
		h.now = o.from.Add(1)
	} else {
		h.look()
	}
	if o.suspended {
		runs := len(h.order)
		h.cj.Spec.Suspend = true
		h.live(o.to.Add(-time.Second))
		if n := len(h.order) - runs; n > 0 {
			h.t.Errorf("%s under %v: %d runs began from %s to %s, while it was suspended", h.line, h.rules, n, o.from, o.to)
		}
		h.cj.Spec.Suspend = false
	}
	if h.now = o.to.Add(-time.Second); o.to.Sub(o.from) > 2*time.Second {
		h.look()
	}
	h.now = o.to
	if !o.again.IsZero() {
		h.killedTurn(1)
		h.now = o.again
	}
	// What was cancelled has ended when somebody looks again.
	h.now = h.following(h.turn(), h.now.Add(time.Second))
}

// liveThrough lives through outages and up to the end.
func (h *history) liveThrough(outages []outage) {
	h.t.Helper()
	for _, o := range outages {
		h.play(o)
	}
	h.live(end.Add(-time.Second))
}

// checkBegins checks when runs began. Only where they may be under way together can one begin later than that, when a
// leader is killed that creates the first of several: the next one creates the others. It tells of the first alone.
func (h *history) checkBegins() {
	h.t.Helper()
	for _, r := range h.want {
		at, begun := h.created[nameOf(h.cj, r.Of)]
		if !begun {
			continue
		}
		after := at.Sub(r.Begins)
		if after < 0 || after > 0 && (h.rules.Concurrency != "Allow" || after > 30*time.Second) {
			h.t.Errorf("%s under %v and %s: the run of %s began %s after %s", h.line, h.rules, h.change, r.Of, after, r.Begins)
			return
		}
	}
}

// After suspensions and times without an operator there are the runs that the policies name, and none twice, though
// leaders are killed around the times at which that begins and ends.
func TestOutagesOfTwoYears(t *testing.T) {
	inEachZone(t, func(t *testing.T, i int, zone string, clock *oracle.Clock) {
		for n, rules := range missed {
			rules.Concurrency = concurrency[(i+n)%len(concurrency)]
			for k, line := range []string{burst, dense, nightly} {
				h := newHistory(t, clock, zone, line, clockChanges[(i+n)%len(clockChanges)], rules)
				h.cj.Spec.History.MaxAge = duration(hour)
				outages := h.outages(rand.New(rand.NewSource(int64(100*i + 10*n + k))))
				h.expect(absencesOf(outages))
				h.liveThrough(outages)
				h.check()
				h.checkBegins()
			}
		}
	})
}
