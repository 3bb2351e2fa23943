// SPDX-License-Identifier: Apache-2.0

package health_test

import (
	"math/rand/v2"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/zeroinfra/agents/internal/health"
	"github.com/zeroinfra/agents/internal/probe"
	"github.com/zeroinfra/platform-core/agentproto/report"
	agentv1 "github.com/zeroinfra/platform-core/agentproto/v1"
)

// t0 is when each story begins.
var t0 = time.Unix(1_800_000_000, 0)

var (
	good    = probe.Outcome{Role: "primary", Version: "7.0.15", Attributes: map[string]string{"a": "1"}}
	refused = probe.Outcome{Cause: "exit code 1", Message: "the probe failed with exit code 1: Connection refused"}
)

// story tells a judge what happens, second by second.
type story struct {
	*testing.T
	judge *health.Judge
	now   time.Time
}

func begin(t *testing.T) *story { return &story{T: t, judge: health.New(), now: t0} }

func (s *story) process(state agentv1.ProcessState, pid, starts int64) bool {
	return s.judge.Process(s.now, &agentv1.ProcessStatus{State: state, Pid: pid, Starts: starts, ConfigDigest: "sha256:1",
		RestartDigest: "sha256:2", Message: messages[state]})
}

var messages = map[agentv1.ProcessState]string{
	agentv1.ProcessState_PROCESS_STATE_BACKOFF: "the process ended by itself: exit code 1"}

func (s *story) up(pid, starts int64) bool {
	return s.process(agentv1.ProcessState_PROCESS_STATE_RUNNING, pid, starts)
}

func (s *story) probe(o probe.Outcome) { s.judge.Probe(s.now, s.judge.PID(), o, 0) }

func (s *story) after(d time.Duration) { s.now = s.now.Add(d) }

func (s *story) want(h report.Health, message string) {
	s.Helper()
	got := s.judge.Report()
	if got.Health != h || !strings.Contains(got.Message, message) || message == "" && got.Message != "" {
		s.Errorf("after %v: got %s, %q; want %s, %q", s.now.Sub(t0), got.Health, got.Message, h, message)
	}
	if h != report.Healthy && (got.Role != "" || got.Attributes != nil) {
		s.Errorf("%s with role %q and attributes %v", h, got.Role, got.Attributes)
	}
}

func TestFromStartToHealthy(t *testing.T) {
	s := begin(t)
	s.want(report.Starting, "waiting for the process manager")
	if !s.process(agentv1.ProcessState_PROCESS_STATE_STARTING, 7, 1) {
		t.Error("a new process is no reason to probe")
	}
	s.want(report.Starting, "has not succeeded yet")
	s.probe(refused)
	s.want(report.Starting, "Connection refused")
	if s.up(7, 1) {
		t.Error("the same process is a reason to probe")
	}
	s.probe(good)
	s.want(report.Healthy, "")
	want := report.Report{Health: report.Healthy, Role: "primary", Version: "7.0.15", Attributes: good.Attributes,
		ConfigDigest: "sha256:1", RestartDigest: "sha256:2", Starts: 1}
	if got := s.judge.Report(); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestProcessThatWaitsForItsDataSaysSo(t *testing.T) {
	s := begin(t)
	waits := func(message string) {
		s.judge.Process(s.now, &agentv1.ProcessStatus{State: agentv1.ProcessState_PROCESS_STATE_STARTING, Message: message})
	}
	waits("another process manager still has the data folder")
	s.want(report.Starting, "still has the data folder")
	if s.judge.PID() != 0 {
		t.Error("there is nothing to probe")
	}
	if !s.up(7, 1) {
		t.Error("the process is no reason to probe")
	}
	s.want(report.Starting, "has not succeeded yet")
	s.probe(good)
	s.want(report.Healthy, "")
}

// TestHowLongItFailed: whoever waits for a while before another takes over counts the time that the probe took to be
// sure.
func TestHowLongItFailed(t *testing.T) {
	s := begin(t)
	failedFor := func(want time.Duration) {
		t.Helper()
		if got := s.judge.Report().FailedForMs; got != want.Milliseconds() {
			t.Errorf("after %v it has failed for %d ms, want %v", s.now.Sub(t0), got, want)
		}
	}
	s.up(7, 1)
	s.probe(good)
	for range 3 {
		s.after(2 * time.Second)
		failedFor(0)
		s.probe(refused)
	}
	s.want(report.Unhealthy, "Connection refused")
	failedFor(4 * time.Second)
	// It is how long it took to be sure, and changes no more.
	s.after(time.Minute)
	s.probe(refused)
	failedFor(4 * time.Second)
	s.probe(good)
	failedFor(0)
	// A crash is told at once.
	s.process(agentv1.ProcessState_PROCESS_STATE_BACKOFF, 0, 1)
	s.want(report.Unhealthy, "exit code 1")
	failedFor(0)
	s.up(8, 2)
	s.probe(good)
	for range 3 {
		s.after(time.Second)
		s.probe(refused)
	}
	failedFor(2 * time.Second)
	s.judge.Away()
	failedFor(0)
}

func TestAFailureOrTwoAreNoDrama(t *testing.T) {
	s := begin(t)
	s.up(7, 1)
	s.probe(good)
	for range 10 {
		s.probe(refused)
		s.probe(refused)
		s.want(report.Healthy, "")
		if !s.judge.Failing() {
			t.Error("a failure is no reason to probe soon")
		}
		s.probe(good)
		if s.judge.Failing() {
			t.Error("failing after a success")
		}
	}
	for range 3 {
		s.probe(refused)
	}
	s.want(report.Unhealthy, "Connection refused")
	if got := s.judge.Report().Version; got != "7.0.15" {
		t.Errorf("version is %q", got)
	}
	s.probe(good)
	s.want(report.Healthy, "")
}

func TestThresholdOfThePlan(t *testing.T) {
	s := begin(t)
	s.up(7, 1)
	s.probe(good)
	s.judge.Probe(s.now, 7, refused, 1)
	s.want(report.Unhealthy, "Connection refused")
}

func TestMessageIsStableWhileTheCauseIs(t *testing.T) {
	s := begin(t)
	s.up(7, 1)
	for _, message := range []string{"waited 1 s", "waited 2 s", "waited 3 s", "waited 4 s"} {
		s.probe(probe.Outcome{Cause: "exit code 1", Message: message})
		s.want(report.Starting, "waited 1 s")
	}
	s.probe(probe.Outcome{Cause: probe.CauseTimeout, Message: "killed"})
	s.want(report.Starting, "killed")
}

func TestRoleFollowsAtOnce(t *testing.T) {
	s := begin(t)
	s.up(7, 1)
	s.probe(good)
	s.probe(probe.Outcome{Role: "secondary"})
	if got := s.judge.Report(); got.Role != "secondary" || got.Health != report.Healthy {
		t.Errorf("got %+v", got)
	}
}

func TestCrash(t *testing.T) {
	s := begin(t)
	s.up(7, 1)
	s.probe(good)
	s.process(agentv1.ProcessState_PROCESS_STATE_BACKOFF, 0, 1)
	s.want(report.Unhealthy, "ended by itself: exit code 1")
	if s.judge.PID() != 0 {
		t.Error("there is nothing to probe")
	}
	// Until it answers, or has been up for a while, the crash is what is wrong: no flapping in a crash loop.
	for starts := int64(2); starts < 5; starts++ {
		s.after(200 * time.Millisecond)
		s.up(7+starts, starts)
		s.want(report.Unhealthy, "ended by itself: exit code 1")
		s.probe(refused)
		s.want(report.Unhealthy, "ended by itself: exit code 1")
		s.process(agentv1.ProcessState_PROCESS_STATE_BACKOFF, 0, starts)
	}
	s.up(50, 5)
	s.after(11 * time.Second)
	s.probe(refused)
	s.want(report.Starting, "Connection refused")
	s.probe(good)
	s.want(report.Healthy, "")
}

// A process that was restarted on request right after a crash must be probed like any other.
func TestRestartRightAfterACrash(t *testing.T) {
	s := begin(t)
	s.up(7, 1)
	s.probe(good)
	s.process(agentv1.ProcessState_PROCESS_STATE_BACKOFF, 0, 1)
	s.up(8, 2)
	s.process(agentv1.ProcessState_PROCESS_STATE_STOPPING, 8, 2)
	s.want(report.Unhealthy, "being stopped")
	s.up(9, 3)
	s.want(report.Starting, "has not succeeded yet")
	s.probe(good)
	s.want(report.Healthy, "")
}

// Whatever happened before: a process that runs under a process manager that answers is probed, and is healthy when
// that succeeds.
func TestARunningProcessIsAlwaysProbed(t *testing.T) {
	const seed, stories, events = 20261121, 2000, 12
	random := rand.New(rand.NewPCG(seed, 0))
	for range stories {
		s := begin(t)
		var told []string
		pid, starts := int64(0), int64(0)
		for range events {
			s.after(time.Duration(random.IntN(4000)) * time.Millisecond)
			event := random.IntN(7)
			told = append(told, strconv.Itoa(event))
			switch event {
			case 0, 1:
				pid, starts = pid+1, starts+1
				s.up(pid, starts)
			case 2:
				s.process(agentv1.ProcessState_PROCESS_STATE_STOPPING, pid, starts)
			case 3:
				s.process(agentv1.ProcessState_PROCESS_STATE_BACKOFF, 0, starts)
			case 4:
				s.judge.Away()
			case 5:
				s.probe(refused)
			case 6:
				s.probe(good)
			}
		}
		s.up(pid+1, starts+1)
		if got := s.judge.PID(); got != pid+1 {
			t.Fatalf("after the events %v process %d runs, and the one to probe is %d", told, pid+1, got)
		}
		s.probe(good)
		if got := s.judge.Report(); got.Health != report.Healthy {
			t.Fatalf("after the events %v and a good probe it is %s: %s", told, got.Health, got.Message)
		}
	}
}

func TestQuickHealing(t *testing.T) {
	s := begin(t)
	s.up(7, 1)
	s.probe(good)
	s.process(agentv1.ProcessState_PROCESS_STATE_BACKOFF, 0, 1)
	s.up(8, 2)
	s.probe(good)
	s.want(report.Healthy, "")
	// A later failure of the new process is not blamed on the old crash.
	for range 3 {
		s.probe(refused)
	}
	s.want(report.Unhealthy, "Connection refused")
}

func TestStopAndStart(t *testing.T) {
	s := begin(t)
	s.up(7, 1)
	s.probe(good)
	s.process(agentv1.ProcessState_PROCESS_STATE_STOPPING, 7, 1)
	s.want(report.Unhealthy, "being stopped")
	s.process(agentv1.ProcessState_PROCESS_STATE_STOPPED, 0, 1)
	s.want(report.Stopped, "")
	if !s.up(8, 2) {
		t.Error("a new process is no reason to probe")
	}
	s.want(report.Starting, "has not succeeded yet")
	s.probe(good)
	s.want(report.Healthy, "")
}

// Attributes of a process that is not healthy are those of its latest probe, and end with it.
func TestAttributesWithoutHealth(t *testing.T) {
	copies := probe.Outcome{Cause: probe.CauseUnhealthy, Message: "it copies", Attributes: map[string]string{"a": "2"}}
	s := begin(t)
	has := func(h report.Health, attribute string) {
		t.Helper()
		if got := s.judge.Report(); got.Health != h || got.Attributes["a"] != attribute || h != report.Healthy &&
			got.Role != "" {
			t.Errorf("got %+v; want %s with %q", got, h, attribute)
		}
	}
	s.up(7, 1)
	s.probe(copies)
	has(report.Starting, "2")
	s.probe(refused)
	has(report.Starting, "")
	s.probe(good)
	for range 2 {
		s.probe(copies)
		has(report.Healthy, "1")
	}
	s.probe(copies)
	has(report.Unhealthy, "2")
	s.up(8, 2)
	has(report.Starting, "")
	for name, end := range map[string]func(){
		"it is stopped":   func() { s.process(agentv1.ProcessState_PROCESS_STATE_STOPPING, 8, 2) },
		"it crashes":      func() { s.process(agentv1.ProcessState_PROCESS_STATE_BACKOFF, 0, 2) },
		"nobody hears it": func() { s.judge.Away() },
	} {
		s.up(8, 2)
		s.probe(copies)
		end()
		if got := s.judge.Report(); got.Attributes != nil {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}

func TestStaleProbesAreIgnored(t *testing.T) {
	s := begin(t)
	s.judge.Probe(s.now, 0, good, 0)
	s.want(report.Starting, "waiting")
	s.up(7, 1)
	s.up(8, 2)
	s.judge.Probe(s.now, 7, good, 0)
	s.want(report.Starting, "has not succeeded yet")
	s.process(agentv1.ProcessState_PROCESS_STATE_STOPPED, 0, 2)
	s.judge.Probe(s.now, 8, good, 0)
	s.want(report.Stopped, "")
}

func TestExpressionsThatFailAreUnhealthy(t *testing.T) {
	broken := probe.Outcome{Cause: probe.CauseExpression, Message: "no such key: role"}
	s := begin(t)
	s.up(7, 1)
	for range 2 {
		s.probe(broken)
		s.want(report.Starting, "no such key")
	}
	s.probe(broken)
	s.want(report.Unhealthy, "no such key")

	s = begin(t)
	s.up(7, 1)
	s.probe(good)
	s.probe(probe.Outcome{Cause: probe.CausePlan, Message: "cannot compile"})
	s.want(report.Unhealthy, "cannot compile")
}

func TestProcessManagerAway(t *testing.T) {
	s := begin(t)
	s.judge.Away()
	s.want(report.Starting, "waiting")
	s.up(7, 1)
	s.probe(good)
	s.judge.Away()
	s.want(report.Unhealthy, "does not answer")
	if s.judge.PID() != 0 {
		t.Error("there is nothing to probe")
	}
	if !s.up(7, 1) {
		t.Error("the return is no reason to probe")
	}
	s.probe(good)
	s.want(report.Healthy, "")
}

func TestLastCallIsReported(t *testing.T) {
	s := begin(t)
	for phase, want := range map[agentv1.CallPhase]string{
		agentv1.CallPhase_CALL_PHASE_RUNNING:   report.CallRunning,
		agentv1.CallPhase_CALL_PHASE_SUCCEEDED: report.CallSucceeded,
		agentv1.CallPhase_CALL_PHASE_FAILED:    report.CallFailed,
	} {
		s.judge.Process(s.now, &agentv1.ProcessStatus{
			LastCall: &agentv1.CallRecord{IdempotencyKey: "k", Method: "Restart", Phase: phase,
				Reason: report.ReasonRestartRequired, Message: "m"}})
		if got := s.judge.Report().LastCall; got == nil ||
			*got != (report.Call{Key: "k", Phase: want, Reason: report.ReasonRestartRequired, Message: "m"}) {
			t.Errorf("got %+v, want phase %s", got, want)
		}
	}
}

func TestAnotherRoleIsProbedAtOnce(t *testing.T) {
	j, now := health.New(), time.Now()
	status := &agentv1.ProcessStatus{State: agentv1.ProcessState_PROCESS_STATE_RUNNING, Pid: 7, Starts: 1}
	j.Process(now, status)
	j.Probe(now, 7, probe.Outcome{Role: "replica"}, 3)
	promoted := &agentv1.ProcessStatus{State: status.State, Pid: 7, Starts: 1, RoleChanges: 1}
	if !j.Process(now, promoted) {
		t.Error("no probe is wanted")
	}
	if got := j.Report(); got.Health != report.Healthy || got.Role != "replica" {
		t.Errorf("the report is %v", got)
	}
	if j.Process(now, promoted) {
		t.Error("a probe is wanted although nothing has changed")
	}
}
