// SPDX-License-Identifier: Apache-2.0

package failover_test

import (
	"testing"
	"time"

	"github.com/zeroinfra/platform-core/agentproto/report"
	"github.com/zeroinfra/platform-core/internal/failover"
)

// handingOver is the trio with a primary that was paused at once, for a pod that has less than it has.
func handingOver(t *testing.T, m *failover.Memory) failover.Facts {
	t.Helper()
	f := trio()
	f.Handover, f.Measures, f.Order = failover.Declared, failover.ByAction, &failover.Order{To: "a-2"}
	for _, p := range f.Pods {
		m.Told(p.Name, 1, failover.Answer{At: f.Now, Member: p.Member})
	}
	m.Measured("a-2", f.Now, failover.Measurement{Order: 1})
	labelRemoved(t, m, &f)
	d := failover.Plan(f, m)
	if len(d.Steps) != 1 || d.Steps[0].Action != failover.Pause || d.Steps[0].Attempt != 1 {
		t.Fatalf("the steps are %v", d.Steps)
	}
	return f
}

// removePrimaryLabel has the primary lose its label, and lets the time pass until it may be paused.
func labelRemoved(t *testing.T, m *failover.Memory, f *failover.Facts) {
	t.Helper()
	d := failover.Plan(*f, m)
	if len(d.Steps) != 0 || d.Wake <= f.Now || d.Wake > f.Now+time.Second || !m.PrimaryLabelRemoved() {
		t.Fatalf("the steps are %v, and it looks again after %s", d.Steps, d.Wake-f.Now)
	}
	f.Pods[0].HasPrimaryLabel = false
	f.Now = d.Wake
}

// TestWhatComesBeforeAPause is done first, once for each attempt, and nobody waits for it for long.
func TestWhatComesBeforeAPause(t *testing.T) {
	for name, done := range map[string]bool{"done": true, "not done": false} {
		t.Run(name, func(t *testing.T) {
			var m failover.Memory
			f := trio()
			f.Handover, f.Measures, f.Before, f.Order = failover.Declared, failover.ByAction, failover.SomeBefore,
				&failover.Order{To: "a-2"}
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
			if took := paused - begun; paused == 0 || done && took > 1200*time.Millisecond || !done &&
				(took < 2*time.Second || took > 3200*time.Millisecond) {
				t.Errorf("the primary is paused after %s", took)
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
	if m.PrimaryLabelRemoved() {
		t.Error("Services do not lead to it after a pause that failed")
	}
	f.Now += 10 * time.Second
	f.Pods[0].HasPrimaryLabel = true
	m.Measured("a-2", f.Now, failover.Measurement{Order: 2})
	labelRemoved(t, &m, &f)
	d = failover.Plan(f, &m)
	if len(d.Steps) != 1 || d.Steps[0].Action != failover.Pause || d.Steps[0].Attempt != 2 {
		t.Errorf("it does not ask anew: %v", d.Steps)
	}
}

// TestAPrimaryThatIsGoneWhilePausedIsReplaced, and one that died in its pause too.
func TestAPrimaryThatIsGoneWhilePausedIsReplaced(t *testing.T) {
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
				if d := failover.Plan(f, &m); len(d.Steps) == 1 && d.Steps[0].Action == failover.Write &&
					d.Steps[0].Record.Primary == nil {
					return
				}
			}
			t.Error("the primary is not replaced")
		})
	}
}
