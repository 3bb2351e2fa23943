// SPDX-License-Identifier: Apache-2.0

package health_test

import (
	"testing"
	"time"

	"github.com/zeroinfra/agents/internal/health"
	"github.com/zeroinfra/platform-core/agentproto/report"
)

var (
	healthy   = report.Report{Health: report.Healthy, Role: "primary"}
	unhealthy = report.Report{Health: report.Unhealthy, Message: "crash"}
	fresh     = report.Report{Health: report.Starting}
)

// lasted is the report of what has been unhealthy for a while.
func lasted(r report.Report, ms int64) report.Report {
	r.FailedForMs = ms
	return r
}

// says asks and checks what is written now.
func says(t *testing.T, h *health.Hold, at time.Duration, asked, want report.Report) {
	t.Helper()
	if text, _ := h.Due(t0.Add(at), asked); text != want.String() {
		t.Errorf("at %v: got %q; want %q", at, text, want)
	}
}

// due asks and checks the answer: the report is written now, or the wait is as long as said.
func due(t *testing.T, h *health.Hold, at time.Duration, r report.Report, write bool, wait time.Duration) {
	t.Helper()
	text, left := h.Due(t0.Add(at), r)
	if (text != "") != write || left != wait || write && text != r.String() {
		t.Errorf("at %v: got %q and wait %v; want write %v and wait %v", at, text, left, write, wait)
	}
}

func TestGoodNewsGoOutAtOnce(t *testing.T) {
	h := health.NewHold("")
	due(t, h, 0, fresh, false, 3*time.Second)
	due(t, h, time.Second, fresh, false, 2*time.Second)
	due(t, h, 1100*time.Millisecond, healthy, true, 0)
	due(t, h, time.Hour, healthy, false, 0)
	due(t, h, time.Hour, report.Report{Health: report.Healthy, Role: "secondary"}, true, 0)
	due(t, h, time.Hour, report.Report{Health: report.Stopped}, true, 0)
}

func TestSlowStartIsReported(t *testing.T) {
	h := health.NewHold("")
	due(t, h, 0, fresh, false, 3*time.Second)
	due(t, h, 3*time.Second, fresh, true, 0)
}

func TestBadNewsThatPassAreNotWritten(t *testing.T) {
	h := health.NewHold(healthy.String())
	due(t, h, 0, unhealthy, false, 500*time.Millisecond)
	due(t, h, 300*time.Millisecond, fresh, false, 200*time.Millisecond)
	due(t, h, 400*time.Millisecond, healthy, false, 0)
	// A later one has its own time.
	due(t, h, 10*time.Second, unhealthy, false, 500*time.Millisecond)
	says(t, h, 10*time.Second+500*time.Millisecond, unhealthy, lasted(unhealthy, 500))
	due(t, h, 20*time.Second, unhealthy, false, 0)
}

func TestChangingBadNewsDoNotExtendTheWait(t *testing.T) {
	h := health.NewHold(healthy.String())
	due(t, h, 0, unhealthy, false, 500*time.Millisecond)
	due(t, h, 499*time.Millisecond, report.Report{Health: report.Unhealthy, Starts: 2}, false, time.Millisecond)
	third := report.Report{Health: report.Unhealthy, Starts: 3}
	says(t, h, 500*time.Millisecond, third, lasted(third, 500))
}

// TestBadNewsSayForHowLong: from when it began to be bad, whatever was to be told before.
func TestBadNewsSayForHowLong(t *testing.T) {
	h := health.NewHold("")
	due(t, h, 0, fresh, false, 3*time.Second)
	due(t, h, 400*time.Millisecond, fresh, false, 2600*time.Millisecond)
	due(t, h, 450*time.Millisecond, unhealthy, false, 50*time.Millisecond)
	says(t, h, 500*time.Millisecond, unhealthy, lasted(unhealthy, 50))
	due(t, h, time.Second, healthy, true, 0)
	due(t, h, 2*time.Second, unhealthy, false, 500*time.Millisecond)
	says(t, h, 2501*time.Millisecond, unhealthy, lasted(unhealthy, 501))
}

func TestCallUnderWayIsReportedWhenItIsOver(t *testing.T) {
	with := func(phase string) report.Report {
		r := healthy
		r.LastCall = &report.Call{Key: "k", Phase: phase}
		return r
	}
	h := health.NewHold(healthy.String())
	due(t, h, 0, with(report.CallRunning), false, 500*time.Millisecond)
	due(t, h, 300*time.Millisecond, with(report.CallSucceeded), true, 0)
	// A long one is known to run.
	h = health.NewHold(healthy.String())
	due(t, h, 0, with(report.CallRunning), false, 500*time.Millisecond)
	due(t, h, 500*time.Millisecond, with(report.CallRunning), true, 0)
}

func TestARestartOfTheAgentAloneWritesNothing(t *testing.T) {
	h := health.NewHold(healthy.String())
	due(t, h, 0, fresh, false, 500*time.Millisecond)
	due(t, h, 100*time.Millisecond, healthy, false, 0)
}

// TestForHowLongIsNoNews: neither to an agent that begins anew, nor when the same goes on.
func TestForHowLongIsNoNews(t *testing.T) {
	h := health.NewHold(lasted(unhealthy, 700).String())
	due(t, h, 0, unhealthy, false, 0)
	due(t, h, time.Second, lasted(unhealthy, 300), false, 0)
}

func TestAProbeThatHasFailedForLongIsTold(t *testing.T) {
	h := health.NewHold(healthy.String())
	due(t, h, 0, lasted(unhealthy, 4000), true, 0)
}

func TestWhoAMemberIsIsToldAtOnce(t *testing.T) {
	h := health.NewHold("")
	now := time.Now()
	waiting := report.Report{Health: report.Starting, Message: "no primary is known yet",
		Member: &report.Member{Identity: "a"}}
	if text, wait := h.Due(now, waiting); text == "" {
		t.Errorf("the identity is held back for %v", wait)
	}
	promised := waiting
	promised.Member = &report.Member{Identity: "a", Promised: 1}
	if text, wait := h.Due(now, promised); text != "" || wait <= 0 {
		t.Errorf("got %q, %v; a promise alone can wait", text, wait)
	}
	promised.PrimaryUnreachable = true
	if text, wait := h.Due(now, promised); text == "" {
		t.Errorf("that the primary is gone is held back for %v", wait)
	}
}
