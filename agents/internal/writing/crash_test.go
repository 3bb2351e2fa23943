// SPDX-License-Identifier: Apache-2.0

package writing

import (
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/zeroinfra/platform-core/agentproto/permission"
	"github.com/zeroinfra/platform-core/agentproto/plan"
)

// reopen begins the member of a folder, whose writer may come back with less than it had.
func reopen(t *testing.T, dir string, after plan.AfterCrash) *Member {
	t.Helper()
	m, err := Open(Config{Pod: "set-0", Set: "set", Dir: dir, Peers: nobody{}, AfterCrash: after, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

// reads has the member read a record.
func reads(t *testing.T, m *Member, r permission.Record) {
	t.Helper()
	m.mu.Lock()
	m.wishNow(Boottime())
	m.mu.Unlock()
	if err := m.AnswerRead(wished(t, m), r, ""); err != nil {
		t.Fatal(err)
	}
}

// writes has the member be named in a term, with its process as the writer.
func writes(t *testing.T, m *Member, r permission.Record) *fake {
	t.Helper()
	reads(t, m, r)
	process := newFake()
	if err := m.Begins(); err != nil {
		t.Fatal(err)
	}
	if err := m.Guard().Adopt(process); err != nil {
		t.Fatal(err)
	}
	m.Changed()
	return process
}

// TestWhatBecomesOfAWriterThatEnded: which way its process ended decides whether it may be the writer of its term again, here and in the next container.
func TestWhatBecomesOfAWriterThatEnded(t *testing.T) {
	alone := func(m *Member) permission.Record {
		r := named(m, 3)
		r.List.Members = r.List.Members[:1]
		return r
	}
	others := func(m *Member) permission.Record { return named(m, 3) }
	for name, tc := range map[string]struct {
		record func(*Member) permission.Record
		after  plan.AfterCrash
		ended  func(*Member)
		want   int64
	}{
		"it died":                    {others, plan.TakeOver, func(m *Member) { m.Died(plan.TakeOver) }, 3},
		"it died, alone":             {alone, plan.TakeOver, func(m *Member) { m.Died(plan.TakeOver) }, 0},
		"it died, restarted":         {others, plan.RestartInPlace, func(m *Member) { m.Died(plan.RestartInPlace) }, 0},
		"it died, nothing declared":  {others, "", func(m *Member) { m.Died("") }, 0},
		"it ended":                   {others, plan.TakeOver, func(m *Member) { m.Ended(plan.TakeOver) }, 0},
		"it died, and has rejoined":  {others, plan.TakeOver, func(m *Member) { m.Died(plan.TakeOver); _ = m.Rejoined() }, 0},
		"declared after it had died": {others, plan.TakeOver, func(m *Member) { m.Died("") }, 3},
		"the container was killed":   {others, plan.TakeOver, func(*Member) {}, 3},
		"nobody is left to tell":     {alone, plan.TakeOver, func(*Member) {}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			m := reopen(t, dir, tc.after)
			process := writes(t, m, tc.record(m))
			if view, _ := m.View(); view.Role != Writer || view.Forfeited != 0 {
				t.Fatalf("the writer's view is %+v", view)
			}
			_ = process.SignalGroup(syscall.SIGKILL)
			tc.ended(m)
			if view, _ := m.View(); name != "the container was killed" && name != "declared after it had died" && view.Forfeited != tc.want || view.Role == Writer && view.Forfeited != 0 {
				t.Errorf("the view is %+v, want that it forfeited %d", view, tc.want)
			}
			m.Close()
			m = reopen(t, dir, tc.after)
			if view, _ := m.View(); view.Forfeited != tc.want || view.Report().GetForfeited() != tc.want {
				t.Errorf("in the next container the view is %+v, want that it forfeited %d", view, tc.want)
			}
			reads(t, m, tc.record(m))
			if view, _ := m.View(); (view.Role == Writer) != (tc.want == 0) {
				t.Errorf("named again in its term, the view is %+v", view)
			}
			next := tc.record(m)
			next.Term = 4
			writes(t, m, next)
			if view, _ := m.View(); view.Role != Writer || view.Forfeited != 0 {
				t.Errorf("named in the next term, the view is %+v", view)
			}
		})
	}
}

// TestAnEndThatCannotBeKeptIsNone: the next container would not know of it.
func TestAnEndThatCannotBeKeptIsNone(t *testing.T) {
	dir := t.TempDir()
	m := reopen(t, dir, plan.TakeOver)
	process := writes(t, m, named(m, 3))
	if err := os.Remove(filepath.Join(dir, plan.MemberFile)); err != nil {
		t.Fatal(err)
	}
	_ = process.SignalGroup(syscall.SIGKILL)
	m.Ended(plan.TakeOver)
	if view, _ := m.View(); view.Role == Writer || view.Forfeited != 3 {
		t.Errorf("the view is %+v", view)
	}
}
