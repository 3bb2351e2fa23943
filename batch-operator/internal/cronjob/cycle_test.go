// SPDX-License-Identifier: Apache-2.0

package cronjob

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/conditions"

	batchv1 "github.com/zeroinfra/batch-operator/api/v1"
)

// The first time that waits says at once what for, and nothing when none waits any more.
func TestWhatATimeWaitsForIsSaid(t *testing.T) {
	two := int32(2)
	key := dependencyKey{kind: batchv1.DependsOnCronJob, name: "load"}
	depends := func(s *batchv1.CronJobSpec) {
		s.Concurrency.Policy, s.DependsOn = "Allow", []batchv1.Dependency{
			{Name: "load", Within: duration(hour), Timeout: duration(24 * hour)},
			{Name: "check", Within: duration(hour), Timeout: duration(24 * hour)}}
	}
	const waits = "2027-01-01T01:00:00Z waits: "
	for title, c := range map[string]struct {
		change func(*batchv1.CronJobSpec)
		live   func(w *world)
		want   string
	}{
		"not there": {depends, nil, waits + `CronJob "load", which it depends on, does not exist`},
		"no success": {depends, func(w *world) { w.others[key] = &dependency{} },
			waits + `CronJob "load", which it depends on, did not succeed within 1h0m0s before`},
		"the next one": {depends, func(w *world) { w.others[key] = &dependency{success: stamp(begin)} },
			waits + `CronJob "check", which it depends on, does not exist`},
		"a run": {func(s *batchv1.CronJobSpec) { s.Concurrency = batchv1.Concurrency{Policy: "Queue", Max: &two} }, nil,
			"2027-01-01T02:00:00Z waits: another run is under way"},
		"suspended": {depends, func(w *world) {
			w.live(begin.Add(hour + time.Minute))
			w.cj.Spec.Suspend = true
		}, waits + "no run begins while spec.suspend is true"},
	} {
		t.Run(title, func(t *testing.T) {
			w := newWorld(t, c.change)
			w.takes = 24 * hour
			if c.live != nil {
				c.live(w)
			}
			w.live(begin.Add(3*hour + time.Minute))
			if got := w.cj.Status.WaitingFor; got != c.want {
				t.Errorf("it says %q, want %q", got, c.want)
			}
			w.cj.Spec.Suspend, w.cj.Spec.DependsOn, w.cj.Spec.Concurrency.Policy = false, nil, "Allow"
			if w.turn(); w.cj.Status.WaitingFor != "" || len(w.cj.Status.Waiting) != 0 {
				t.Errorf("the status is %+v", w.cj.Status)
			}
		})
	}
}

// graph has CronJobs by name. "a: b, ?c" has a depend on b, and on c with otherwise: Run.
func graph(lines ...string) map[string]*batchv1.CronJob {
	all := map[string]*batchv1.CronJob{}
	for _, line := range lines {
		name, others, _ := strings.Cut(line, ": ")
		cj := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 1}}
		for _, other := range strings.Split(others, ", ") {
			d := batchv1.Dependency{Name: strings.TrimPrefix(other, "?")}
			if d.Name != other {
				d.Otherwise = batchv1.DependencyRun
			}
			cj.Spec.DependsOn = append(cj.Spec.DependsOn, d)
		}
		all[name] = cj
	}
	return all
}

// The shortest cycle is found that a CronJob is in. One that only leads to a cycle is in none, and what is not waited
// for closes none.
func TestCycleOfDependencies(t *testing.T) {
	for title, c := range map[string]struct {
		all  map[string]*batchv1.CronJob
		want string
	}{
		"none":              {graph("a: b, c", "b: c", "c: none"), ""},
		"two":               {graph("a: b", "b: a"), "a b a"},
		"three":             {graph("a: c", "c: b", "b: a"), "a c b a"},
		"the shortest":      {graph("a: b, d", "b: c", "c: a", "d: a"), "a d a"},
		"that of others":    {graph("a: b", "b: c", "c: b"), ""},
		"runs all the same": {graph("a: b", "b: ?a"), ""},
	} {
		read := func(name string) (*batchv1.CronJob, error) { return c.all[name], nil }
		got, err := cycleOf(c.all["a"], read)
		if err != nil || strings.Join(got, " ") != c.want {
			t.Errorf("%s: the cycle is %v (%v), want %q", title, got, err, c.want)
		}
	}
	all := graph("a: b", "b: a")
	all["b"].Spec.DependsOn[0].Kind = batchv1.DependsOnWorkflow
	if got, err := cycleOf(all["a"], func(name string) (*batchv1.CronJob, error) { return all[name], nil }); got != nil {
		t.Errorf("a Workflow closes the cycle %v (%v)", got, err)
	}
	broken := errors.New("broken")
	_, err := cycleOf(all["a"], func(string) (*batchv1.CronJob, error) { return nil, broken })
	if !errors.Is(err, broken) {
		t.Errorf("the error is %v", err)
	}
}

// A cycle of many CronJobs is not looked for to its end.
func TestCycleIsFollowedSoFar(t *testing.T) {
	var lines []string
	for i := range 10 * mostFollowed {
		lines = append(lines, fmt.Sprintf("c%d: c%d", i, (i+1)%(10*mostFollowed)))
	}
	all, reads := graph(lines...), 0
	got, err := cycleOf(all["c0"], func(name string) (*batchv1.CronJob, error) {
		reads++
		return all[name], nil
	})
	if got != nil || err != nil || reads != mostFollowed {
		t.Errorf("after %d reads the cycle is %v: %v", reads, got, err)
	}
}

// The condition names each object that is not there and the cycle, and goes with them.
func TestConditionOfDependencies(t *testing.T) {
	const cycle = "CronJobs depend on each other in a cycle, a depends on b depends on a, and each waits for a success " +
		"of the others: take one of these dependencies out"
	const one = `spec.dependsOn names CronJob "b", which does not exist and so has not succeeded: create it, or take it ` +
		"out"
	cj := graph("a: b")["a"]
	there := map[dependencyKey]*dependency{{kind: batchv1.DependsOnCronJob, name: "b"}: {}}
	for _, c := range []struct {
		facts           facts
		more            []batchv1.Dependency
		reason, message string
	}{
		{facts{}, nil, platformv1.ReasonReferenceNotFound, one},
		{facts{dependencies: there}, nil, "", ""},
		{facts{dependencies: there, cycle: []string{"a", "b", "a"}}, nil, batchv1.ReasonDependencyCycle, cycle},
		{facts{cycle: []string{"a", "b", "a"}}, nil, platformv1.ReasonReferenceNotFound, one + "; " + cycle},
		{facts{}, []batchv1.Dependency{{Name: "b", Kind: batchv1.DependsOnWorkflow}}, platformv1.ReasonReferenceNotFound,
			`spec.dependsOn names CronJob "b", Workflow "b", which do not exist and so have not succeeded: create them, or ` +
				`take them out`},
		{facts{dependencies: there}, nil, "", ""},
	} {
		changed := cj.DeepCopy()
		changed.Spec.DependsOn = append(changed.Spec.DependsOn, c.more...)
		tellDependencies(changed, c.facts)
		cj.Status = changed.Status
		got := conditions.Get(cj, batchv1.DependencyInvalidCondition)
		if c.reason == "" {
			if got != nil || invalidDependency(cj) != "" {
				t.Errorf("the condition is %+v", got)
			}
			continue
		}
		if got == nil || got.Status != metav1.ConditionTrue || got.Reason != c.reason || got.Message != c.message {
			t.Errorf("the condition is %+v, want %s: %s", got, c.reason, c.message)
		}
	}
}
