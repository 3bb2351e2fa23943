// SPDX-License-Identifier: Apache-2.0

package failover_test

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zeroinfra/platform-core/agentproto/permission"
	"github.com/zeroinfra/platform-core/agentproto/report"
	"github.com/zeroinfra/platform-core/internal/failover"
)

// trio is a set of three members in term 5, of which the first writes.
func trio() failover.Facts {
	f := failover.Facts{Now: time.Hour, Mode: failover.Auto, After: 2 * time.Second, Measures: failover.FromReports}
	for _, name := range []string{"a-0", "a-1", "a-2"} {
		f.Wanted = append(f.Wanted, name)
		f.Record.List.Members = append(f.Record.List.Members, permission.Member{Name: name, Identity: "of " + name})
		f.Pods = append(f.Pods, failover.Pod{Name: name, Presence: failover.Alive, Health: report.Healthy,
			Sync:   failover.InSync,
			Member: failover.MemberState{Identity: "of " + name, Promised: 5, Primary: "a-0"}})
	}
	f.Record.Term, f.Record.List.Version, f.Record.Primary = 5, 1, &f.Record.List.Members[0]
	f.Former = f.Record.Primary
	primary := &f.Pods[0]
	primary.Member.Term, primary.Member.ListVersion, primary.Member.Writing, primary.HasPrimaryLabel = 5, 1, true, true
	return f
}

// TestALaterTermWithoutItsPrimaryHasNoFormer, since another one than the record names may have written in between.
func TestALaterTermWithoutItsPrimaryHasNoFormer(t *testing.T) {
	f := trio()
	f.Pods[1].Member.Promised = 7
	d := failover.Plan(f, &failover.Memory{})
	if len(d.Steps) != 1 || d.Steps[0].Action != failover.Write {
		t.Fatalf("the steps are %v", d.Steps)
	}
	if s := d.Steps[0]; s.Record.Term != 8 || s.Record.Primary != nil || s.Former != nil {
		t.Errorf("it writes %v with the former primary %v", s, s.Former)
	}
	f.Pods[1].Member.Term = 7
	d = failover.Plan(f, &failover.Memory{})
	if s := d.Steps[0]; s.Record.Primary == nil || s.Record.Primary.Name != "a-1" || s.Former == nil ||
		*s.Former != *s.Record.Primary {
		t.Errorf("it writes %v with the former primary %v", s, s.Former)
	}
}

// TestATermBeyondReasonIsNotBelieved: no pod can use up the terms.
func TestATermBeyondReasonIsNotBelieved(t *testing.T) {
	f := trio()
	f.Pods[2].Member.Promised = math.MaxInt64
	for _, s := range failover.Plan(f, &failover.Memory{}).Steps {
		if s.Action == failover.Write {
			t.Errorf("it does %v", s)
		}
	}
}

// TestOneFailedMeasurementRulesNobodyOut: the pod with the most data is measured again before another takes over, and
// not for ever.
func TestOneFailedMeasurementRulesNobodyOut(t *testing.T) {
	for name, tc := range map[string]struct {
		failures int
		want     string
	}{
		"once":    {1, "a-2"},
		"for all": {1000, "a-1"},
	} {
		t.Run(name, func(t *testing.T) {
			var m failover.Memory
			f := trio()
			f.Measures = failover.ByAction
			f.Pods[0].Presence = failover.Leaving
			for end := f.Now + 10*time.Second; f.Now < end; f.Now += 100 * time.Millisecond {
				for _, s := range failover.Plan(f, &m).Steps {
					switch {
					case s.Action == failover.Write:
						if want := tc.want + " can take over"; !strings.Contains(s.Reason, want) {
							t.Errorf("it does %v, want that %s", s, want)
						}
						return
					case s.Action == failover.Measure && s.Pod == "a-2" && tc.failures > 0:
						tc.failures--
						m.Measured(s.Pod, f.Now, failover.Measurement{Problem: "it takes too long"})
					case s.Action == failover.Measure:
						m.Measured(s.Pod, f.Now, failover.Measurement{Order: int64(s.Pod[2])})
					}
				}
			}
			t.Error("nobody takes over")
		})
	}
}

// TestTheTimeOfTheProbeCounts: a process that has not answered for as long as others wait is replaced when that is
// known.
func TestTheTimeOfTheProbeCounts(t *testing.T) {
	for failed, want := range map[time.Duration]time.Duration{0: 2 * time.Second,
		500 * time.Millisecond: 1500 * time.Millisecond, 4 * time.Second: 0, -time.Hour: 2 * time.Second, 1 << 62: 0} {
		f, m := trio(), failover.Memory{}
		failover.Plan(f, &m)
		begun := f.Now
		f.Pods[0].Health, f.Pods[0].FailedFor = report.Unhealthy, failed
		for deposed := false; !deposed && f.Now < begun+10*time.Second; {
			d := failover.Plan(f, &m)
			if deposed = len(d.Steps) == 1 && d.Steps[0].Action == failover.Write && d.Steps[0].Record.Primary == nil; !deposed {
				f.Now += 100 * time.Millisecond
			}
		}
		if took := f.Now - begun; took != want {
			t.Errorf("after it had failed for %v another takes over in %v, want %v", failed, took, want)
		}
	}
}

// TestTheTimeBeforeItWasNamedDoesNotCount: a pod that was down for long, and is named since nobody else can be, has the
// time of a new primary to begin.
func TestTheTimeBeforeItWasNamedDoesNotCount(t *testing.T) {
	for named, want := range map[time.Duration]time.Duration{0: 30 * time.Second, 2 * time.Second: 28 * time.Second} {
		f, m := trio(), failover.Memory{}
		f.Pods[0].Member.Writing, f.Pods[0].Health, f.Pods[0].FailedFor, f.Pods[0].HasPrimaryLabel = false, report.Unhealthy,
			time.Hour, false
		f.NamedFor = named
		begun := f.Now
		for deposed := false; !deposed && f.Now < begun+time.Minute; {
			d := failover.Plan(f, &m)
			if deposed = len(d.Steps) == 1 && d.Steps[0].Action == failover.Write && d.Steps[0].Record.Primary == nil; !deposed {
				f.Now, f.NamedFor = f.Now+100*time.Millisecond, f.NamedFor+100*time.Millisecond
			}
		}
		if took := f.Now - begun; took != want {
			t.Errorf("named for %v, another takes over in %v, want %v", named, took, want)
		}
	}
}

// TestOneThatDoesNotComeToWriteIsReplaced: its process is well, and no primary all the same. What a primary's process
// complains of is no reason.
func TestOneThatDoesNotComeToWriteIsReplaced(t *testing.T) {
	f, m := trio(), failover.Memory{}
	f.Pods[0].HasPrimaryLabel, f.Pods[0].NotWritingReason = false, "cannot promote: exit code 1; it is tried again"
	begun := f.Now
	var d failover.Decision
	for d = failover.Plan(f, &m); len(d.Steps) == 0 && f.Now < begun+time.Minute; d = failover.Plan(f, &m) {
		if !strings.Contains(d.Message, "pod a-0 is named as the primary and does not take writes yet: cannot promote: "+
			"exit code 1") ||
			d.State != failover.Starting {
			t.Fatalf("after %s it is %s: %q", f.Now-begun, d.State, d.Message)
		}
		f.Now += 100 * time.Millisecond
	}
	if took := f.Now - begun; took != 30*time.Second || d.Steps[0].Action != failover.Write ||
		d.Steps[0].Record.Primary != nil {
		t.Fatalf("after %s it does %v", took, d.Steps)
	}
	former := *f.Record.Primary
	f.Record, f.Former, f.Pods[0].Member.Writing = d.Steps[0].Record, &former, false
	for f.Record.Primary == nil && f.Now < begun+2*time.Minute {
		for _, s := range failover.Plan(f, &m).Steps {
			switch s.Action {
			case failover.Write:
				f.Record = s.Record
			case failover.Promise, failover.Ask:
				p := &f.Pods[slices.IndexFunc(f.Pods, func(p failover.Pod) bool { return p.Name == s.Pod })]
				p.Member.Promised = f.Record.Term
				m.Answered(s.Pod, failover.Answer{At: f.Now, Member: p.Member})
			case failover.Measure:
				m.Measured(s.Pod, f.Now, failover.Measurement{})
			}
		}
		f.Now += 100 * time.Millisecond
	}
	if f.Record.Primary == nil || f.Record.Primary.Name == "a-0" {
		t.Errorf("the next one is %+v", f.Record.Primary)
	}

	f, m = trio(), failover.Memory{}
	f.Pods[0].NotWritingReason = "a hook failed"
	if d := failover.Plan(f, &m); d.State != failover.Steady || d.Message != "" {
		t.Errorf("a primary that complains is %s: %q", d.State, d.Message)
	}
}

// TestOneAloneIsNotAwaited: where nobody could take over, the pod itself says what is wrong with it; that its volume is
// another one, it cannot know.
func TestOneAloneIsNotAwaited(t *testing.T) {
	alone := func() failover.Facts {
		f := trio()
		f.Wanted, f.Pods, f.Record.List.Members = f.Wanted[:1], f.Pods[:1], f.Record.List.Members[:1]
		f.Pods[0].Health, f.Pods[0].Member.Writing = report.Unhealthy, false
		return f
	}
	for name, c := range map[string]struct {
		change func(*failover.Facts)
		told   bool
	}{
		"its process is down":     {func(*failover.Facts) {}, false},
		"failover is manual":      {func(f *failover.Facts) { f.Mode = failover.Manual }, false},
		"its volume is lost":      {func(f *failover.Facts) { f.Pods[0].Member.Identity = "another" }, true},
		"another pod is wanted":   {func(f *failover.Facts) { f.Wanted = []string{"a-0", "a-1"} }, true},
		"another pod has to stay": {func(f *failover.Facts) { f.Wanted = []string{"a-1"} }, true},
	} {
		f, memory := alone(), &failover.Memory{}
		c.change(&f)
		failover.Plan(f, memory)
		f.Now += time.Minute
		d := failover.Plan(f, memory)
		if told := d.Message != ""; told != c.told || d.State == failover.Steady {
			t.Errorf("%s: it says %q in state %s", name, d.Message, d.State)
		}
		for _, s := range d.Steps {
			if s.Action == failover.Write {
				t.Errorf("%s: it does %v", name, s)
			}
		}
	}
}

// TestOtherVolumesHaveANewFirstPrimary: the first pod has the data, whatever term the others have heard of.
func TestOtherVolumesHaveANewFirstPrimary(t *testing.T) {
	f := trio()
	f.Record = f.Record.Refound()
	f.Former = nil
	founded := f.Record.Term
	for i := range f.Pods {
		p := &f.Pods[i]
		p.HasPrimaryLabel, p.Member = false, failover.MemberState{Identity: "new of " + p.Name}
		if i > 0 {
			p.Member.Promised = founded
		}
	}
	d := failover.Plan(f, &failover.Memory{})
	if len(d.Steps) != 1 || d.Steps[0].Action != failover.Write {
		t.Fatalf("the steps are %v", d.Steps)
	}
	s := d.Steps[0]
	if s.Record.Primary == nil || s.Record.Primary.Name != "a-0" || s.Record.Term <= founded ||
		len(s.Record.List.Members) != 1 || s.Record.List.Version <= f.Record.List.Version || s.Change != nil {
		t.Errorf("it writes %v, by %+v", s, s.Change)
	}
	// One that has no volume yet has nothing to say, but of the first it is waited for.
	blank := f
	blank.Pods = slices.Clone(f.Pods)
	blank.Pods[2].Member, blank.Pods[2].WithoutVolume = failover.MemberState{}, true
	if d := failover.Plan(blank, &failover.Memory{}); len(d.Steps) != 1 || d.Steps[0].Record.Primary == nil {
		t.Errorf("with one that has no volume it says %q", d.Message)
	}
	blank.Pods[0].Member, blank.Pods[0].WithoutVolume = failover.MemberState{}, true
	if d := failover.Plan(blank, &failover.Memory{}); len(d.Steps) != 0 {
		t.Errorf("without the volume of the first it does %v", d.Steps)
	}
	// One is missing, which may be the one that has the data.
	f.Pods = f.Pods[1:]
	if d := failover.Plan(f, &failover.Memory{}); len(d.Steps) != 0 {
		t.Errorf("without the first pod it does %v", d.Steps)
	}
}

// down lets time pass in steps, with a primary that is down as often as is said, and returns when it was deposed; 0
// when it was not.
func down(f *failover.Facts, m *failover.Memory, limit time.Duration,
	isDown func(since time.Duration) bool) time.Duration {
	for begun := f.Now; f.Now < begun+limit; f.Now += 100 * time.Millisecond {
		f.Pods[0].Health = report.Healthy
		if isDown(f.Now - begun) {
			f.Pods[0].Health = report.Unhealthy
		}
		if d := failover.Plan(*f, m); len(d.Steps) == 1 && d.Steps[0].Action == failover.Write {
			return f.Now - begun
		}
		// The rollout goes by it.
		f.Pods[0].HasPrimaryLabel = !m.PrimaryLabelRemoved() &&
			(f.Pods[0].HasPrimaryLabel || f.Pods[0].Health == report.Healthy)
	}
	return 0
}

func always(time.Duration) bool { return true }

// TestServicesLeadToNobodyBeforeAnotherTakesOver: the label of a primary that is down goes before its time is over,
// where another one can take over. It is not kept from one that is back, and comes back when no other can any more.
func TestServicesLeadToNobodyBeforeAnotherTakesOver(t *testing.T) {
	others := func(f *failover.Facts, health report.Health) { f.Pods[1].Health, f.Pods[2].Health = health, health }
	f, m := trio(), failover.Memory{}
	failover.Plan(f, &m)
	if down(&f, &m, 900*time.Millisecond, always); m.PrimaryLabelRemoved() {
		t.Error("Services do not lead to it more than a second before another one can")
	}
	if down(&f, &m, time.Second, always); !m.PrimaryLabelRemoved() {
		t.Error("Services lead to it")
	}
	quick, m2 := trio(), failover.Memory{}
	quick.After = time.Second
	failover.Plan(quick, &m2)
	if down(&quick, &m2, 400*time.Millisecond, always); m2.PrimaryLabelRemoved() {
		t.Error("Services do not lead to one that has half of a second to come back")
	}
	if down(&quick, &m2, 500*time.Millisecond, always); !m2.PrimaryLabelRemoved() {
		t.Error("Services lead to one that is not back after half of the time")
	}
	others(&f, report.Unhealthy)
	if at := down(&f, &m, 5*time.Second, always); at != 0 || m.PrimaryLabelRemoved() {
		t.Errorf("no other can take over, and Services do not lead to it: it is deposed after %s", at)
	}
	others(&f, report.Healthy)
	f, m = trio(), failover.Memory{}
	failover.Plan(f, &m)
	if down(&f, &m, 3*time.Second,
		func(since time.Duration) bool { return since < 1500*time.Millisecond }); m.PrimaryLabelRemoved() ||
		!f.Pods[0].HasPrimaryLabel {
		t.Error("Services do not lead to it, and it is back")
	}
}

// TestAnotherFailureWhileAnOrderWaits: a primary that did not hand over and was down for a moment meanwhile is one that
// Services lead to.
func TestAnotherFailureWhileAnOrderWaits(t *testing.T) {
	var m failover.Memory
	f := handingOver(t, &m)
	m.Paused(1, f.Now, failover.PauseFailed, "it cannot")
	f.Measures = failover.FromReports
	if at := down(&f, &m, 5*time.Second,
		func(since time.Duration) bool { return since >= time.Second && since < 2500*time.Millisecond }); at != 0 ||
		m.PrimaryLabelRemoved() {
		t.Errorf("Services do not lead to it, and it is back: it is deposed after %s", at)
	}
}

// TestAPrimaryThatKeepsDyingIsReplaced: to be back for a moment is not to be back. The time in which it is down adds
// up, and that of a moment with it; one that stays has all of the time again.
func TestAPrimaryThatKeepsDyingIsReplaced(t *testing.T) {
	for name, tc := range map[string]struct {
		down, up, want time.Duration
	}{
		"for a moment": {500 * time.Millisecond, 300 * time.Millisecond, 2000 * time.Millisecond},
		"longer":       {600 * time.Millisecond, 1200 * time.Millisecond, 5600 * time.Millisecond},
		"nearly":       {1100 * time.Millisecond, 1900 * time.Millisecond, 3900 * time.Millisecond},
		"for a while":  {1900 * time.Millisecond, 2200 * time.Millisecond, 0},
	} {
		f, m := trio(), failover.Memory{}
		failover.Plan(f, &m)
		at := down(&f, &m, 20*time.Second, func(since time.Duration) bool { return since%(tc.down+tc.up) < tc.down })
		if at < tc.want-100*time.Millisecond || at > tc.want+300*time.Millisecond {
			t.Errorf("back %s: it is deposed after %v, want %v", name, at, tc.want)
		}
	}
}

// TestANewPrimaryIsGivenTime, and one that has been one for long is not given that again by an engine that knows
// nothing.
func TestANewPrimaryIsGivenTime(t *testing.T) {
	for named, want := range map[time.Duration]time.Duration{0: 30 * time.Second, 10 * time.Second: 20 * time.Second,
		time.Hour: 2 * time.Second} {
		f, m := trio(), failover.Memory{}
		f.Pods[0].HasPrimaryLabel = false
		begun := f.Now
		var at time.Duration
		for at == 0 && f.Now < begun+time.Minute {
			f.NamedFor = 0
			if named > 0 {
				f.NamedFor = named + f.Now - begun
			}
			f.Pods[0].Health = report.Unhealthy
			if d := failover.Plan(f, &m); len(d.Steps) == 1 && d.Steps[0].Action == failover.Write {
				at = f.Now - begun
			}
			f.Now += 100 * time.Millisecond
		}
		if at < want-100*time.Millisecond || at > want+300*time.Millisecond {
			t.Errorf("named for %s, it is deposed after %s, want %s", named, at, want)
		}
	}
	// What it was down before it wrote counts for nothing.
	f, m := trio(), failover.Memory{}
	f.Pods[0].HasPrimaryLabel = false
	down(&f, &m, 20*time.Second, always)
	down(&f, &m, 500*time.Millisecond, func(time.Duration) bool { return false })
	if at := down(&f, &m, 5*time.Second, always); at < 1900*time.Millisecond {
		t.Errorf("it is deposed after %s", at)
	}
}
