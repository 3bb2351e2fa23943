// SPDX-License-Identifier: Apache-2.0

package cronjob

import (
	"math/rand"
	"testing"
	"time"

	"github.com/zeroinfra/platform-core/sdk/cron/oracle"

	"github.com/zeroinfra/batch-operator/internal/cronjob/runoracle"
)

// jitters are shorter and longer than the spans between the times of a line.
var jitters = []time.Duration{90 * time.Second, 25 * time.Minute, 100 * time.Minute}

// jittered has each run begin later by what delayOf says; nil has the product alone know.
func (h *history) jittered(jitter time.Duration, delayOf func(time.Time) time.Duration) *history {
	h.cj.Spec.Jitter, h.rules.Delay = duration(jitter), delayOf
	h.expect(nil)
	return h
}

// delaysOf are those of the runs of a line that nothing is in the way of. Each is within the jitter, ends before the
// next time, and all quarters of that span have some.
func delaysOf(
	t *testing.T, clock *oracle.Clock, zone, line, change string, jitter time.Duration,
) func(time.Time) time.Duration {
	t.Helper()
	h := newHistory(t, clock, zone, line, change, runoracle.Rules{Concurrency: "Allow"}).jittered(jitter, nil)
	h.live(end.Add(-time.Second))
	h.check()
	delays, quarters := map[int64]time.Duration{}, [4]int{}
	for i, of := range h.times {
		span := jitter
		if i+1 < len(h.times) {
			span = min(span, h.times[i+1].Sub(of))
		}
		delay := h.created[nameOf(h.cj, of)].Sub(of)
		if delay < 0 || delay >= span {
			t.Fatalf("%s with a jitter of %s: the run of %s began %s later, want less than %s", line, jitter, of, delay, span)
		}
		delays[of.Unix()] = delay
		quarters[4*delay/span]++
	}
	for _, n := range quarters {
		if n < len(h.times)/6 {
			t.Errorf("%s with a jitter of %s: quarters of it have %v of %d runs", line, jitter, quarters, len(h.times))
		}
	}
	return func(of time.Time) time.Duration { return delays[of.Unix()] }
}

// A run is late by the same jitter whoever begins it: after suspensions, after times without an operator and after
// leaders that were killed around the moment at which it was due, there are the runs of the oracle, and each begins
// then.
func TestJitterOfTwoYears(t *testing.T) {
	inEachZone(t, func(t *testing.T, i int, zone string, clock *oracle.Clock) {
		location, err := time.LoadLocation(zone)
		if err != nil {
			t.Fatal(err)
		}
		line, change, jitter := []string{burst, nightly}[i%2], clockChanges[i%len(clockChanges)], jitters[i%len(jitters)]
		delayOf := delaysOf(t, clock, zone, line, change, jitter)
		if i%4 == 1 || i%4 == 2 {
			// Once for each policy, which is enough for what it costs.
			h := newHistory(t, clock, zone, line, change, runoracle.Rules{Concurrency: concurrency[i/2]})
			h.jittered(jitter, delayOf).killAround()
			h.live(end.Add(-time.Second))
			h.check()
		}
		for n, rules := range missed {
			if n%3 != i%3 {
				continue
			}
			rules.Concurrency = concurrency[(i/2+n)%len(concurrency)]
			h := newHistory(t, clock, zone, line, change, rules).jittered(jitter, delayOf)
			h.cj.Spec.History.MaxAge = duration(hour)
			random := rand.New(rand.NewSource(int64(100*i + n)))
			outages := h.outages(random)
			if n >= len(missed)-2 {
				// What a dependency is waited for counts from when the run is due.
				h.dependent(h.needs(random, location))
				outages = h.forgetless(outages)
			}
			h.expect(absencesOf(outages))
			h.liveThrough(outages)
			h.check()
			h.checkBegins()
			h.checkNeeds()
		}
	})
}
