// SPDX-License-Identifier: Apache-2.0

package failover_test

import (
	"math"
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
		f.Pods = append(f.Pods, failover.Pod{Name: name, Presence: failover.Alive, Health: report.Healthy, Sync: failover.InSync,
			Member: failover.Known{Identity: "of " + name, Promised: 5, Primary: "a-0"}})
	}
	f.Record.Term, f.Record.List.Version, f.Record.Primary = 5, 1, &f.Record.List.Members[0]
	f.Former = f.Record.Primary
	writer := &f.Pods[0]
	writer.Member.Term, writer.Member.ListVersion, writer.Member.Writing, writer.Established = 5, 1, true, true
	return f
}

// TestALaterTermWithoutItsWriterHasNoFormer, since another one than the record names may have written in between.
func TestALaterTermWithoutItsWriterHasNoFormer(t *testing.T) {
	f := trio()
	f.Pods[1].Member.Promised = 7
	d := failover.Plan(f, &failover.Memory{})
	if len(d.Steps) != 1 || d.Steps[0].Action != failover.Write {
		t.Fatalf("the steps are %v", d.Steps)
	}
	if s := d.Steps[0]; s.Record.Term != 8 || s.Record.Primary != nil || s.Former != nil {
		t.Errorf("it writes %v with the former writer %v", s, s.Former)
	}
	f.Pods[1].Member.Term = 7
	d = failover.Plan(f, &failover.Memory{})
	if s := d.Steps[0]; s.Record.Primary == nil || s.Record.Primary.Name != "a-1" || s.Former == nil || *s.Former != *s.Record.Primary {
		t.Errorf("it writes %v with the former writer %v", s, s.Former)
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

// handingOver is the trio with a writer that was paused at once, for a pod that has less than it has.
func handingOver(t *testing.T, m *failover.Memory) failover.Facts {
	t.Helper()
	f := trio()
	f.Handover, f.Measures, f.Order = failover.Declared, failover.ByAction, &failover.Order{To: "a-2"}
	for _, p := range f.Pods {
		m.Told(p.Name, 1, failover.Answer{At: f.Now, Member: p.Member})
	}
	m.Measured("a-2", f.Now, failover.Measurement{Order: 1})
	d := failover.Plan(f, m)
	if len(d.Steps) != 1 || d.Steps[0].Action != failover.Pause || d.Steps[0].Attempt != 1 {
		t.Fatalf("the steps are %v", d.Steps)
	}
	return f
}

// TestWhatComesBeforeAPause is done first, once for each attempt, and nobody waits for it for long.
func TestWhatComesBeforeAPause(t *testing.T) {
	for name, done := range map[string]bool{"done": true, "not done": false} {
		t.Run(name, func(t *testing.T) {
			var m failover.Memory
			f := trio()
			f.Handover, f.Measures, f.Before, f.Order = failover.Declared, failover.ByAction, failover.SomeBefore, &failover.Order{To: "a-2"}
			for _, p := range f.Pods {
				m.Told(p.Name, 1, failover.Answer{At: f.Now, Member: p.Member})
			}
			begun, paused := f.Now, time.Duration(0)
			for paused == 0 && f.Now < begun+10*time.Second {
				m.Measured("a-2", f.Now, failover.Measurement{Order: 1})
				d := failover.Plan(f, &m)
				switch {
				case len(d.Steps) != 1 || d.Steps[0].Attempt != 1:
					t.Fatalf("after %s the steps are %v", f.Now-begun, d.Steps)
				case d.Steps[0].Action == failover.Pause:
					paused = f.Now
				case d.Steps[0].Action != failover.Prepare:
					t.Fatalf("after %s it does %v", f.Now-begun, d.Steps)
				case done && f.Now-begun >= time.Second:
					m.Prepared(1, f.Now)
				}
				f.Now += 100 * time.Millisecond
			}
			if took := paused - begun; paused == 0 || done && took > 1200*time.Millisecond || !done && (took < 2*time.Second || took > 3200*time.Millisecond) {
				t.Errorf("the writer is paused after %s", took)
			}
			// The pause has all of its time.
			f.Now = paused + 2500*time.Millisecond
			m.Paused(1, f.Now, failover.PauseHeld, "")
			m.Measured("a-0", f.Now, failover.Measurement{Order: 1})
			m.Measured("a-2", f.Now, failover.Measurement{Order: 1})
			if d := failover.Plan(f, &m); len(d.Steps) != 1 || d.Steps[0].Action != failover.Write {
				t.Errorf("it does %v", d.Steps)
			}
		})
	}
}

// TestAPauseEnds: what is held for too long counts no more, whenever in it the call was answered.
func TestAPauseEnds(t *testing.T) {
	const limit = 3 * time.Second
	var m failover.Memory
	f := handingOver(t, &m)
	asked := f.Now
	f.Now = asked + limit - 200*time.Millisecond
	m.Paused(1, f.Now, failover.PauseHeld, "")
	m.Measured("a-0", f.Now, failover.Measurement{Order: 2})
	m.Measured("a-2", f.Now, failover.Measurement{Order: 1})
	if d := failover.Plan(f, &m); d.Wake == 0 || d.Wake > asked+limit {
		t.Errorf("it looks again at %s, and the pause is over at %s", d.Wake, asked+limit)
	}
	f.Now = asked + limit
	m.Measured("a-0", f.Now, failover.Measurement{Order: 2})
	m.Measured("a-2", f.Now, failover.Measurement{Order: 2})
	d := failover.Plan(f, &m)
	for _, s := range d.Steps {
		if s.Action == failover.Write || s.Action == failover.Pause {
			t.Errorf("on a pause that is over it does %v", s)
		}
	}
	f.Now += 10 * time.Second
	m.Measured("a-2", f.Now, failover.Measurement{Order: 2})
	d = failover.Plan(f, &m)
	if len(d.Steps) != 1 || d.Steps[0].Action != failover.Pause || d.Steps[0].Attempt != 2 {
		t.Errorf("it does not ask anew: %v", d.Steps)
	}
}

// TestAWriterThatIsGoneWhilePausedIsReplaced, and one that died in its pause too.
func TestAWriterThatIsGoneWhilePausedIsReplaced(t *testing.T) {
	for name, lose := range map[string]func(f *failover.Facts){
		"gone": func(f *failover.Facts) { f.Pods = f.Pods[1:] },
		"down": func(f *failover.Facts) { f.Pods[0].Health, f.Pods[0].Member.Writing = report.Stopped, false },
	} {
		t.Run(name, func(t *testing.T) {
			var m failover.Memory
			f := handingOver(t, &m)
			m.Paused(1, f.Now, failover.PauseHeld, "")
			f.Order = &failover.Order{To: "a-0"}
			lose(&f)
			for end := f.Now + 10*time.Second; f.Now < end; f.Now += 100 * time.Millisecond {
				m.Measured("a-1", f.Now, failover.Measurement{Order: 1})
				m.Measured("a-2", f.Now, failover.Measurement{Order: 1})
				if d := failover.Plan(f, &m); len(d.Steps) == 1 && d.Steps[0].Action == failover.Write && d.Steps[0].Record.Primary == nil {
					return
				}
			}
			t.Error("the writer is not replaced")
		})
	}
}

// TestOneFailedMeasurementRulesNobodyOut: the pod with the most data is measured again before another takes over, and not for ever.
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

// TestTheTimeOfTheProbeCounts: a process that has not answered for as long as others wait is replaced when that is known.
func TestTheTimeOfTheProbeCounts(t *testing.T) {
	for failed, want := range map[time.Duration]time.Duration{0: 2 * time.Second, 500 * time.Millisecond: 1500 * time.Millisecond, 4 * time.Second: 0, -time.Hour: 2 * time.Second, 1 << 62: 0} {
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

// TestOneAloneIsNotAwaited: where nobody could take over, the pod itself says what is wrong with it; that its volume is another one, it cannot know.
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

// TestOtherVolumesHaveANewFirstWriter: the first pod has the data, whatever term the others have heard of.
func TestOtherVolumesHaveANewFirstWriter(t *testing.T) {
	f := trio()
	f.Record = f.Record.Refound()
	f.Former = nil
	founded := f.Record.Term
	for i := range f.Pods {
		p := &f.Pods[i]
		p.Established, p.Member = false, failover.Known{Identity: "new of " + p.Name}
		if i > 0 {
			p.Member.Promised = founded
		}
	}
	d := failover.Plan(f, &failover.Memory{})
	if len(d.Steps) != 1 || d.Steps[0].Action != failover.Write {
		t.Fatalf("the steps are %v", d.Steps)
	}
	s := d.Steps[0]
	if s.Record.Primary == nil || s.Record.Primary.Name != "a-0" || s.Record.Term <= founded || len(s.Record.List.Members) != 1 || s.Record.List.Version <= f.Record.List.Version || s.Change != nil {
		t.Errorf("it writes %v, by %+v", s, s.Change)
	}
	// One is missing, which may be the one that has the data.
	f.Pods = f.Pods[1:]
	if d := failover.Plan(f, &failover.Memory{}); len(d.Steps) != 0 {
		t.Errorf("without the first pod it does %v", d.Steps)
	}
}
