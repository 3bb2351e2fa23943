// SPDX-License-Identifier: Apache-2.0

package failover_test

import (
	"strings"
	"testing"
	"time"

	"github.com/zeroinfra/platform-core/agentproto/report"
	"github.com/zeroinfra/platform-core/internal/failover"
)

// leaving is the trio whose primary is on its way out, with these measurements of the two others.
func leaving(one, two failover.Measurement) failover.Facts {
	f := trio()
	f.Pods[0].Presence = failover.Leaving
	f.Pods[1].Measurement, f.Pods[2].Measurement = one, two
	return f
}

// deposed is what a plan writes; nil when it does not.
func deposed(f failover.Facts, m *failover.Memory) *failover.Step {
	d := failover.Plan(f, m)
	if len(d.Steps) == 1 && d.Steps[0].Action == failover.Write && d.Steps[0].Record.Primary == nil {
		return &d.Steps[0]
	}
	return nil
}

// TestDataOfAnotherHistory: how far data is counts within one stream of writes only.
func TestDataOfAnotherHistory(t *testing.T) {
	for name, tc := range map[string]struct {
		primary  string
		one, two failover.Measurement
		want     string
	}{
		"the same history": {"x", failover.Measurement{Order: 120, History: "x"},
			failover.Measurement{Order: 110, History: "x"}, "a-1"},
		"one goes on from what the other has": {"", failover.Measurement{Order: 120, History: "x"},
			failover.Measurement{Order: 110, History: "y", Earlier: "x"}, "a-2"},
		"the same, the other way round": {"", failover.Measurement{Order: 110, History: "y", Earlier: "x"},
			failover.Measurement{Order: 120, History: "x"}, "a-1"},
		"one has another history than the primary": {"y", failover.Measurement{Order: 120, History: "x"},
			failover.Measurement{Order: 10, History: "y"}, "a-2"},
		"both have another one": {"z", failover.Measurement{Order: 120, History: "x"},
			failover.Measurement{Order: 10, History: "y"}, "a-1"},
		"nobody knows the primary's": {"", failover.Measurement{Order: 120, History: "x"},
			failover.Measurement{Order: 10, History: "y"}, "a-1"},
		"the primary began another one, and did not come to say so": {"x",
			failover.Measurement{Order: 120, History: "x", LastContact: new(int64(4))},
			failover.Measurement{Order: 10, History: "y", LastContact: new(int64(1))}, "a-2"},
		"that, the other way round": {"x", failover.Measurement{Order: 10, History: "y", LastContact: new(int64(1))},
			failover.Measurement{Order: 120, History: "x", LastContact: new(int64(4))}, "a-1"},
		"the primary began another one before": {"x",
			failover.Measurement{Order: 10, History: "x", LastContact: new(int64(1))},
			failover.Measurement{Order: 120, History: "y", LastContact: new(int64(4))}, "a-1"},
		"the primary had that one before": {"x y", failover.Measurement{Order: 120, History: "x", LastContact: new(int64(1))},
			failover.Measurement{Order: 10, History: "y", LastContact: new(int64(4))}, "a-2"},
		"one has heard of no primary since it started": {"x",
			failover.Measurement{Order: 10, History: "x", LastContact: new(int64(4))},
			failover.Measurement{Order: 120, History: "y"}, "a-1"},
		"the plugin has no word for it": {"", failover.Measurement{Order: 10}, failover.Measurement{Order: 120}, "a-2"},
	} {
		t.Run(name, func(t *testing.T) {
			var m failover.Memory
			for history := range strings.FieldsSeq(tc.primary) {
				well := trio()
				well.Pods[0].History = history
				failover.Plan(well, &m)
			}
			step := deposed(leaving(tc.one, tc.two), &m)
			if step == nil || !strings.HasSuffix(step.Reason, tc.want+" can take over") {
				t.Errorf("it does %v, want that %s takes over", step, tc.want)
			}
		})
	}
}

// TestTheHistoryIsKnownFromTheFormerPrimary, to an engine that has just begun: its report is still there.
func TestTheHistoryIsKnownFromTheFormerPrimary(t *testing.T) {
	f := leaving(failover.Measurement{Order: 120, History: "x"}, failover.Measurement{Order: 10, History: "y"})
	f.Record = f.Record.Depose()
	f.Pods[0].History = "y"
	var m failover.Memory
	for range 20 {
		for _, s := range failover.Plan(f, &m).Steps {
			switch s.Action {
			case failover.Promise, failover.Ask:
				p := f.Pods[s.Pod[2]-'0']
				m.Answered(s.Pod, failover.Answer{At: f.Now,
					Member: failover.MemberState{Identity: p.Member.Identity, Promised: f.Record.Term}})
			case failover.Write:
				if s.Record.Primary != nil {
					if s.Record.Primary.Name != "a-2" || s.Chosen == nil || s.Chosen.Order != 10 {
						t.Errorf("it does %v, chosen for %+v", s, s.Chosen)
					}
					return
				}
				f.Record = s.Record
			}
		}
		f.Now += 500 * time.Millisecond
	}
	t.Error("nobody is named")
}

// TestAChangeSaysWhy, and which Operation asked for it.
func TestAChangeSaysWhy(t *testing.T) {
	order := func(way failover.Way) *failover.Order { return &failover.Order{Way: way, By: "asked"} }
	for name, tc := range map[string]struct {
		change func(f *failover.Facts)
		want   failover.Change
	}{
		"failed": {func(f *failover.Facts) { f.Pods[0].Presence = failover.Leaving },
			failover.Change{Cause: failover.Failed, Why: "pod a-0, the primary, is being deleted"}},
		"failed while it was to hand over": {
			func(f *failover.Facts) { f.Pods[0].Presence, f.Order = failover.Leaving, order(failover.HandOver) },
			failover.Change{Cause: failover.Failed, Why: "pod a-0, the primary, is being deleted"}},
		"handed over": {func(f *failover.Facts) { f.Order = order(failover.HandOver) },
			failover.Change{Cause: failover.Ordered, Why: "pod a-0 was told to hand over", By: "asked"}},
		"taken over": {func(f *failover.Facts) { f.Order, f.Handover = order(failover.TakeOver), failover.Declared },
			failover.Change{Cause: failover.Failed, Why: "another pod than a-0 was told to take over", By: "asked"}},
		"taken over from one that failed": {func(f *failover.Facts) {
			f.Pods[0].Health, f.Order, f.Mode = report.Unhealthy, order(failover.TakeOver), failover.Manual
		}, failover.Change{Cause: failover.Failed, Why: "the process of pod a-0, the primary, is down", By: "asked"}},
		"later term": {func(f *failover.Facts) { f.Pods[1].Member.Promised = 7 },
			failover.Change{Cause: failover.Recovered, Why: "volumes know of term 7"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := trio()
			tc.change(&f)
			step := deposed(f, &failover.Memory{})
			if step == nil || step.Change == nil || *step.Change != tc.want {
				t.Errorf("it does %v with %+v", step, step.Change)
			}
		})
	}
}

// TestOneThatWasNoMemberIsNeverNamed, whatever a person accepts: who wrote may write on where nobody sees it, by the
// acknowledgement of members alone. What to do instead is said.
func TestOneThatWasNoMemberIsNeverNamed(t *testing.T) {
	const says = "the volumes of all members (a-0) are gone, and a pod that was no member cannot become the primary, " +
		"not even with acceptDataLoss, since a member that is cut off may still take writes: restore a backup, or copy " +
		"the data that another pod still has into another instance"
	f := trio()
	f.Record.List.Members = f.Record.List.Members[:1]
	f.Pods[1].Sync, f.Pods[2].Sync = failover.OutOfSync, failover.OutOfSync
	f.Order = &failover.Order{To: "a-2", Way: failover.TakeOver, Loss: failover.Accepted}
	d := failover.Plan(f, &failover.Memory{})
	if len(d.Steps) > 0 && d.Steps[0].Action == failover.Write || !strings.Contains(d.Refused, "a-2 is no member") ||
		strings.Contains(d.Refused, "are gone") {
		t.Errorf("while the primary can come back it does %v and says %q", d.Steps, d.Refused)
	}
	f.Pods[0].Member.Identity, f.Pods[0].Member.Writing, f.Pods[0].Health = "empty", false, report.Unhealthy
	for name, change := range map[string]func(f *failover.Facts){
		"by order": func(*failover.Facts) {}, "by itself": func(f *failover.Facts) { f.Order = nil },
		"in a term without a primary": func(f *failover.Facts) { f.Record = f.Record.Depose() },
	} {
		f := f
		change(&f)
		var m failover.Memory
		for range 40 {
			d = failover.Plan(f, &m)
			for _, s := range d.Steps {
				if s.Action == failover.Write {
					t.Fatalf("%s it does %v", name, s)
				}
			}
			f.Now += 500 * time.Millisecond
		}
		if !strings.Contains(d.Message, says) || name == "by order" && d.Refused != d.Message {
			t.Errorf("%s it says %q and refuses with %q", name, d.Message, d.Refused)
		}
	}
}

// TestOrdersAreRefused with a reason, when they cannot be carried out.
func TestOrdersAreRefused(t *testing.T) {
	far := failover.Measurement{Lag: new(int64(100))}
	for name, tc := range map[string]struct {
		change func(f *failover.Facts)
		want   string
	}{
		"nobody is healthy": {func(f *failover.Facts) {
			f.Order = &failover.Order{Way: failover.TakeOver}
			f.Pods[1].Health, f.Pods[2].Health = report.Unhealthy, report.Unhealthy
		}, "no other can take over: a-1 is not healthy; a-2 is not healthy"},
		"there is no other": {func(f *failover.Facts) {
			f.Order = &failover.Order{Way: failover.TakeOver}
			f.Wanted, f.Pods = f.Wanted[:1], f.Pods[:1]
			f.Pods[0].Health = report.Unhealthy
		}, "no other pod can take over: there is none"},
		"all are too far behind": {func(f *failover.Facts) {
			f.Order, f.MaxLag = &failover.Order{Way: failover.TakeOver}, new(int64(10))
			f.Pods[1].Measurement, f.Pods[2].Measurement = far, far
		}, "a-1 is 100 bytes behind, and failover.maxLag is 10"},
		"the one that is named is no member": {func(f *failover.Facts) {
			f.Order = &failover.Order{Way: failover.TakeOver, To: "a-2", Loss: failover.Accepted}
			f.Record.List.Members = f.Record.List.Members[:2]
		}, "a-2 is no member"},
		"a failed one is to hand over": {func(f *failover.Facts) {
			f.Order, f.Mode = &failover.Order{}, failover.Manual
			f.Pods[0].Presence = failover.Leaving
		}, "run an Operation of template Failover"},
	} {
		t.Run(name, func(t *testing.T) {
			f := trio()
			tc.change(&f)
			d := failover.Plan(f, &failover.Memory{})
			if deposed(f, &failover.Memory{}) != nil || !strings.Contains(d.Refused, tc.want) {
				t.Errorf("it does %v and refuses with %q", d.Steps, d.Refused)
			}
		})
	}
}

// TestAnAcceptedLoss lets the pod take over that the order names, and any where it names none.
func TestAnAcceptedLoss(t *testing.T) {
	far := func(order int64) failover.Measurement {
		return failover.Measurement{Order: order, Lag: new(int64(100))}
	}
	for to, want := range map[string]string{"": "a-1", "a-2": "a-2"} {
		f := trio()
		f.MaxLag = new(int64(10))
		f.Pods[1].Measurement, f.Pods[2].Measurement = far(9), far(3)
		f.Order = &failover.Order{Way: failover.TakeOver, To: to, Loss: failover.Accepted}
		if step := deposed(f, &failover.Memory{}); step == nil || !strings.Contains(step.Reason, want+" can take over") {
			t.Errorf("told that %q is to take over it does %v", to, step)
		}
	}
}

// TestAnAgentThatRefusesIsThere: the primary is not deposed when nothing is wrong with it but a certificate.
func TestAnAgentThatRefusesIsThere(t *testing.T) {
	for refusal, want := range map[failover.Refusal]bool{failover.NotRefused: true, failover.Refused: false} {
		var m failover.Memory
		f := trio()
		f.Pods[1].SuspectsPrimary = true
		for _, p := range f.Pods {
			m.Told(p.Name, 1, failover.Answer{At: f.Now, Member: p.Member})
		}
		m.Answered("a-0", failover.Answer{At: f.Now, Problem: "it does not accept the certificate", Refusal: refusal})
		if got := deposed(f, &m) != nil; got != want {
			t.Errorf("refusal %q: deposed %t", refusal, got)
		}
	}
}
