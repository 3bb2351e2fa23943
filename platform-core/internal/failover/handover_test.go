// SPDX-License-Identifier: Apache-2.0

package failover_test

import (
	"testing"
	"time"

	"github.com/zeroinfra/platform-core/agentproto/permission"
	"github.com/zeroinfra/platform-core/agentproto/report"
	"github.com/zeroinfra/platform-core/internal/failover"
)

// pausedFor is a trio whose primary is paused for a-2, and what both were measured to have then.
func pausedFor(t *testing.T, m *failover.Memory, primary, candidate failover.Measurement) failover.Facts {
	t.Helper()
	f := handingOver(t, m)
	m.Paused(1, f.Now, failover.PauseHeld, "")
	m.Measured("a-0", f.Now, primary)
	m.Measured("a-2", f.Now, candidate)
	return f
}

// TestCandidateLosesItsLabelBeforeThePrimary, a second before, until it has the primary label or ten seconds are over;
// one that no Service leads to is not waited for.
func TestCandidateLosesItsLabelBeforeThePrimary(t *testing.T) {
	var m failover.Memory
	f := trio()
	f.Handover, f.Measures, f.Order = failover.Declared, failover.ByAction, &failover.Order{To: "a-2"}
	m.Measured("a-2", f.Now, failover.Measurement{Order: 1})
	f.Pods[2].HasRoleLabel = true
	began := f.Now
	unlabelled := func(want string) {
		t.Helper()
		if candidate, rest := m.UnlabelledCandidate(f.Now); candidate != want ||
			want != "" && rest != began+10*time.Second-f.Now {
			t.Errorf("%q is unlabelled for %s, want %q", candidate, rest, want)
		}
	}
	for at := f.Now; at < began+time.Second; at += 250 * time.Millisecond {
		f.Now = at
		if d := failover.Plan(f, &m); len(d.Steps) != 0 || d.Wake > began+time.Second || m.PrimaryLabelRemoved() {
			t.Fatalf("after %s the steps are %v, it looks again at %s, and that it is shut is %t", f.Now-began, d.Steps,
				d.Wake-began, m.PrimaryLabelRemoved())
		}
		unlabelled("a-2")
		f.Pods[2].HasRoleLabel = false
	}
	f.Now = began + time.Second
	m.Measured("a-2", f.Now, failover.Measurement{Order: 1})
	labelRemoved(t, &m, &f)
	if d := failover.Plan(f, &m); len(d.Steps) != 1 || d.Steps[0].Action != failover.Pause {
		t.Fatalf("the steps are %v", d.Steps)
	}
	m.Paused(1, f.Now, failover.PauseHeld, "")
	m.Measured("a-0", f.Now, failover.Measurement{Order: 1})
	m.Measured("a-2", f.Now, failover.Measurement{Order: 1})
	step := deposed(f, &m)
	if step == nil {
		t.Fatal("the primary is not deposed")
	}
	f.Record = step.Record
	m.Wrote(f.Record, f.Now)
	unlabelled("a-2")
	f.Record.Primary = &f.Record.List.Members[2]
	m.Wrote(f.Record, f.Now)
	unlabelled("a-2")
	f.Order = nil
	f.Pods[0].Member.Writing = false
	f.Pods[2].Member.Writing, f.Pods[2].Member.Term, f.Pods[2].HasPrimaryLabel = true, f.Record.Term, true
	failover.Plan(f, &m)
	unlabelled("")
}

// TestCandidateIsWithoutItsLabelForABoundedTime than ten seconds, nor when the primary does not hand over.
func TestCandidateIsWithoutItsLabelForABoundedTime(t *testing.T) {
	for name, ends := range map[string]func(*failover.Facts, *failover.Memory){
		"after ten seconds": func(f *failover.Facts, _ *failover.Memory) { f.Now += 10 * time.Second },
		"than a pause that failed": func(f *failover.Facts, m *failover.Memory) {
			m.Paused(1, f.Now, failover.PauseFailed, "it cannot")
		},
		"than an order": func(f *failover.Facts, m *failover.Memory) {
			f.Order = nil
			failover.Plan(*f, m)
		},
	} {
		var m failover.Memory
		f := trio()
		f.Handover, f.Measures, f.Order = failover.Declared, failover.FromReports, &failover.Order{To: "a-2"}
		f.Pods[2].HasRoleLabel = true
		failover.Plan(f, &m)
		if candidate, _ := m.UnlabelledCandidate(f.Now); candidate != "a-2" {
			t.Fatalf("%q is unlabelled", candidate)
		}
		ends(&f, &m)
		if candidate, rest := m.UnlabelledCandidate(f.Now); candidate != "" || rest != 0 {
			t.Errorf("%s: %q is unlabelled for %s", name, candidate, rest)
		}
	}
}

// TestWhoHasAnotherHistoryHasNotCaughtUp, however far it is.
func TestWhoHasAnotherHistoryHasNotCaughtUp(t *testing.T) {
	for name, tc := range map[string]struct {
		primary, candidate failover.Measurement
		want               bool
	}{
		"the same": {failover.Measurement{Order: 5, History: "x"},
			failover.Measurement{Order: 5, History: "x"}, true},
		"less of the same": {failover.Measurement{Order: 5, History: "x"},
			failover.Measurement{Order: 4, History: "x"}, false},
		"more of another": {failover.Measurement{Order: 5, History: "x"},
			failover.Measurement{Order: 9, History: "y"}, false},
		"more of the one before": {failover.Measurement{Order: 5, History: "x", Earlier: "y"},
			failover.Measurement{Order: 9, History: "y"}, false},
		"there is no word for it": {failover.Measurement{Order: 5}, failover.Measurement{Order: 5}, true},
	} {
		t.Run(name, func(t *testing.T) {
			var m failover.Memory
			f := pausedFor(t, &m, tc.primary, tc.candidate)
			if step := deposed(f, &m); (step != nil) != tc.want {
				t.Errorf("it does %v", step)
			}
		})
	}
}

// TestADeposalAfterAPauseIsWrittenInTime or not at all, and says who has all.
func TestADeposalAfterAPauseIsWrittenInTime(t *testing.T) {
	var m failover.Memory
	f := handingOver(t, &m)
	began := f.Now
	f.Now += time.Second
	m.Paused(1, f.Now, failover.PauseHeld, "")
	m.Measured("a-0", f.Now, failover.Measurement{Order: 1})
	m.Measured("a-2", f.Now, failover.Measurement{Order: 1})
	step := deposed(f, &m)
	if step == nil || step.Until <= f.Now || step.Until >= began+5*time.Second {
		t.Fatalf("it does %+v", step)
	}
	if want := f.Record.List.Members[2]; step.CaughtUp == nil || *step.CaughtUp != want {
		t.Errorf("%v is said to have all, want %v", step.CaughtUp, want)
	}
}

// TestOneThatHasAllIsNamedAtOnce: what others have does not matter, nor that they do not say it. Where nobody has
// caught up in this term, or the previous primary has ended when its pause was over, they are waited for.
func TestOneThatHasAllIsNamedAtOnce(t *testing.T) {
	for name, tc := range map[string]struct {
		recordCaughtUp func(m *failover.Memory, candidate permission.Member, s *failover.Step)
		ended          time.Duration
		want           bool
	}{
		"it has all": {func(m *failover.Memory, candidate permission.Member, s *failover.Step) {
			m.RecordCaughtUp(candidate, s.Record.Term, s.Until)
		}, time.Second, true},
		"the primary ended too late": {func(m *failover.Memory, candidate permission.Member, s *failover.Step) {
			m.RecordCaughtUp(candidate, s.Record.Term, s.Until)
		}, 6 * time.Second, false},
		"the record came too late": {func(*failover.Memory, permission.Member, *failover.Step) {}, time.Second, false},
		"it had all of an earlier one": {func(m *failover.Memory, candidate permission.Member, s *failover.Step) {
			m.RecordCaughtUp(candidate, s.Record.Term-1, s.Until)
		}, time.Second, false},
		"its volume is another one": {func(m *failover.Memory, candidate permission.Member, s *failover.Step) {
			m.RecordCaughtUp(permission.Member{Name: candidate.Name, Identity: "lost"}, s.Record.Term, s.Until)
		}, time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			var m failover.Memory
			f := pausedFor(t, &m, failover.Measurement{Order: 1}, failover.Measurement{Order: 1})
			step := deposed(f, &m)
			if step == nil {
				t.Fatal("the primary is not deposed")
			}
			f.Record = step.Record
			m.Wrote(f.Record, f.Now)
			tc.recordCaughtUp(&m, f.Record.List.Members[2], step)
			f.Now += tc.ended
			for _, n := range []int{0, 2} {
				f.Pods[n].Member.Promised, f.Pods[n].Member.Writing = f.Record.Term, false
				m.Answered(f.Pods[n].Name, failover.Answer{At: f.Now, Member: f.Pods[n].Member})
			}
			named := false
			for range 3 {
				f.Now += time.Millisecond
				for _, s := range failover.Plan(f, &m).Steps {
					named = named || s.Action == failover.Write && s.Record.Primary != nil && s.Record.Primary.Name == "a-2"
				}
			}
			if named != tc.want {
				t.Errorf("that it is named at once is %t", named)
			}
		})
	}
}

// TestAPrimaryThatComesUpForLongIsReplaced: the time in which it was down before goes on. One that was not down is
// given longer, since it may be its agent that has begun anew.
func TestAPrimaryThatComesUpForLongIsReplaced(t *testing.T) {
	for name, tc := range map[string]struct {
		down     time.Duration
		from, to time.Duration
	}{
		"down before":     {time.Second, 2 * time.Second, 2500 * time.Millisecond},
		"not seen before": {0, 30 * time.Second, 31 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			var m failover.Memory
			f := trio()
			if d := failover.Plan(f, &m); d.State != failover.Steady {
				t.Fatalf("it is %s", d.State)
			}
			begun := f.Now
			for ; f.Now < begun+time.Minute; f.Now += 100 * time.Millisecond {
				f.Pods[0].Health = report.Starting
				if f.Now < begun+tc.down {
					f.Pods[0].Health = report.Unhealthy
				}
				if deposed(f, &m) != nil {
					break
				}
			}
			if took := f.Now - begun; took < tc.from || took > tc.to {
				t.Errorf("it is replaced after %s, want %s to %s", took, tc.from, tc.to)
			}
		})
	}
}

// TestAnAgentThatBeginsAnewReplacesNobody.
func TestAnAgentThatBeginsAnewReplacesNobody(t *testing.T) {
	var m failover.Memory
	f := trio()
	for n := range 600 {
		f.Pods[0].Health = report.Healthy
		if n%100 < 50 {
			f.Pods[0].Health = report.Starting
		}
		if step := deposed(f, &m); step != nil {
			t.Fatalf("after %d looks it does %v", n, step)
		}
		f.Now += 100 * time.Millisecond
	}
}
