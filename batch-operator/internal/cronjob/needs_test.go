// SPDX-License-Identifier: Apache-2.0

package cronjob

import (
	"fmt"
	"math/rand"
	"slices"
	"testing"
	"time"

	"github.com/zeroinfra/platform-core/sdk/cron/oracle"

	batchv1 "github.com/zeroinfra/batch-operator/api/v1"
	"github.com/zeroinfra/batch-operator/internal/cronjob/runoracle"
)

// kindsOfNeeds are those of the dependencies of a history.
var kindsOfNeeds = []string{batchv1.DependsOnCronJob, batchv1.DependsOnWorkflow}

// needs of the runs of a line, which hold for some of its times, from some time after them for others, or never.
func (h *history) needs(random *rand.Rand, zone *time.Location) []runoracle.Need {
	conditions := []batchv1.DependencyCondition{batchv1.DependencySucceededWithin, batchv1.DependencySucceededSameDay,
		batchv1.DependencyLastRunSucceeded}
	timeouts := []time.Duration{0, 10*time.Minute + 7*time.Second, 31*time.Minute + 7*time.Second,
		80*time.Minute + 7*time.Second}
	var all []runoracle.Need
	for range 1 + random.Intn(len(kindsOfNeeds)) {
		n := runoracle.Need{Condition: string(conditions[random.Intn(len(conditions))]), Zone: zone,
			Timeout: timeouts[random.Intn(len(timeouts))], Otherwise: []string{"Skip", "Skip", "Run"}[random.Intn(3)]}
		if n.Condition == string(batchv1.DependencySucceededWithin) {
			n.Within = []time.Duration{20 * time.Minute, 3 * hour, 30 * hour}[random.Intn(3)]
		}
		n.Events = h.events(random)
		all = append(all, n)
	}
	return all
}

// events around the times of a line, each at a second of its own.
func (h *history) events(random *rand.Rand) []runoracle.Event {
	offsets := []time.Duration{-26 * hour, -3 * hour, -150 * time.Minute, -20 * time.Minute, -time.Second, 0, time.Second,
		9 * time.Minute, 31 * time.Minute, 75 * time.Minute}
	known := map[int64]struct{}{}
	var all []runoracle.Event
	for _, at := range h.times {
		for range random.Intn(3) {
			e := runoracle.Event{At: at.Add(offsets[random.Intn(len(offsets))]), What: "Succeeded"}
			if _, is := known[e.At.Unix()]; is || !e.At.After(begin) {
				continue
			}
			switch random.Intn(12) {
			case 0:
				e.What = "Gone"
			case 1, 2, 3:
				e.What = "Failed"
			}
			known[e.At.Unix()] = struct{}{}
			all = append(all, e)
		}
	}
	slices.SortFunc(all, func(a, b runoracle.Event) int { return a.At.Compare(b.At) })
	return all
}

// dependent has each run need something.
func (h *history) dependent(needs []runoracle.Need) {
	h.rules.Needs = needs
	for i, n := range needs {
		key := dependencyKey{kind: kindsOfNeeds[i], name: fmt.Sprintf("need-%d", i)}
		d := batchv1.Dependency{Kind: key.kind, Name: key.name, Condition: batchv1.DependencyCondition(n.Condition),
			Otherwise: n.Otherwise, Timeout: duration(n.Timeout)}
		if n.Within > 0 {
			d.Within = duration(n.Within)
		}
		h.cj.Spec.DependsOn = append(h.cj.Spec.DependsOn, d)
		for _, e := range n.Events {
			h.news = append(h.news, news{Event: e, of: key})
		}
	}
	slices.SortStableFunc(h.news, func(a, b news) int { return a.At.Compare(b.At) })
}

// A run begins when what it depends on has succeeded, or when the time to wait for that is over and otherwise is Run,
// and at no other moment; where otherwise is Skip there is none then. The oracle says the same under each policy, with
// suspensions, times without an operator and killed leaders.
func TestDependenciesOfTwoYears(t *testing.T) {
	inEachZone(t, func(t *testing.T, i int, zone string, clock *oracle.Clock) {
		location, err := time.LoadLocation(zone)
		if err != nil {
			t.Fatal(err)
		}
		for n, rules := range missed {
			if (i+n)%3 == 2 {
				continue
			}
			line := []string{burst, nightly}[(i+n)%2]
			rules.Concurrency = concurrency[(i/2+n)%len(concurrency)]
			random := rand.New(rand.NewSource(int64(100*i + n)))
			h := newHistory(t, clock, zone, line, clockChanges[(i+n)%len(clockChanges)], rules)
			h.dependent(h.needs(random, location))
			outages := h.forgetless(h.outages(random))
			h.expect(absencesOf(outages))
			h.liveThrough(outages)
			h.check()
			h.checkBegins()
			h.checkNeeds()
		}
	})
}

// forgetless has no leader killed that creates a run and forgets with it what else it decided: that a time is skipped,
// or has come.
func (h *history) forgetless(outages []outage) []outage {
	for i := range outages {
		o := &outages[i]
		o.again = time.Time{}
		o.decided = o.decided && !slices.ContainsFunc(h.news, func(n news) bool { return n.At.Equal(o.from) })
	}
	return outages
}

// checkNeeds checks that all that a run needs held when it began, or was not waited for any longer.
func (h *history) checkNeeds() {
	h.t.Helper()
	for _, of := range h.order {
		at := h.created[nameOf(h.cj, of)]
		for _, n := range h.rules.Needs {
			if n.Holds(at, of) || n.Otherwise == "Run" && !at.Before(h.rules.Due(of).Add(n.Timeout)) {
				continue
			}
			h.t.Errorf("%s under %v: the run of %s began at %s, when %v did not hold", h.line, h.rules, of, at, n)
		}
	}
}
