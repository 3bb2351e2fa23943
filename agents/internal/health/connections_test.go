// SPDX-License-Identifier: Apache-2.0

package health_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/zeroinfra/agents/internal/probe"
	"github.com/zeroinfra/platform-core/agentproto/report"
	agentv1 "github.com/zeroinfra/platform-core/agentproto/v1"
)

const tooMany = "ERR max number of clients reached"

var turnedAway = probe.Outcome{
	Cause: probe.CauseOutOfConnections, Message: "no connection: " + tooMany, OutOfConnections: tooMany}

// connections checks what is reported of the connections.
func (s *story) connections(want string) {
	s.Helper()
	if got := s.judge.Report().OutOfConnections; got != want {
		s.Errorf("after %v the report says %q of connections, want %q", s.now.Sub(t0), got, want)
	}
}

// A middleware that turns its probe away is alive: however long that lasts, it is reported as it was.
func TestOutOfConnectionsIsNotDown(t *testing.T) {
	s := begin(t)
	s.up(7, 1)
	s.probe(good)
	before := s.judge.Report()
	for range 2 {
		s.after(2 * time.Second)
		s.probe(turnedAway)
		s.want(report.Healthy, "")
		s.connections("")
	}
	for range 100 {
		s.after(2 * time.Second)
		s.probe(turnedAway)
		s.connections(tooMany)
	}
	before.OutOfConnections = tooMany
	if got := s.judge.Report(); !reflect.DeepEqual(got, before) {
		t.Errorf("got %+v, want %+v", got, before)
	}
	// One that does not answer any more is down, as it always was.
	for range 3 {
		s.probe(refused)
	}
	s.want(report.Unhealthy, "Connection refused")
	s.connections("")
	s.probe(turnedAway)
	s.want(report.Healthy, "")
}

// Where clients come and go the report does not change with each probe that is let in.
func TestConnectionsAreReportedAsFreeAfterAWhile(t *testing.T) {
	s := begin(t)
	s.up(7, 1)
	s.probe(good)
	for range 3 {
		s.probe(turnedAway)
	}
	for range 20 {
		s.after(30 * time.Second)
		s.probe(good)
		s.connections(tooMany)
		s.after(30 * time.Second)
		s.probe(turnedAway)
		s.connections(tooMany)
	}
	s.after(59 * time.Second)
	s.probe(good)
	s.connections(tooMany)
	s.after(time.Second)
	s.probe(good)
	s.connections("")
}

// The reserved way in tells of the role, too.
func TestAProbeThatIsLetInByTheReservedWayTellsTheRole(t *testing.T) {
	s := begin(t)
	s.up(7, 1)
	for range 3 {
		s.probe(probe.Outcome{Role: "primary", OutOfConnections: tooMany})
	}
	s.want(report.Healthy, "")
	s.connections(tooMany)
	if got := s.judge.Report().Role; got != "primary" {
		t.Errorf("the role is %q", got)
	}
}

// Of a process that has never let the probe in nothing is known but that it is up. A crash before it explains nothing
// any more.
func TestOutOfConnectionsFromTheStart(t *testing.T) {
	s := begin(t)
	s.up(7, 1)
	s.probe(good)
	s.process(agentv1.ProcessState_PROCESS_STATE_BACKOFF, 0, 1)
	s.want(report.Unhealthy, "ended by itself")
	s.up(8, 2)
	s.probe(turnedAway)
	s.want(report.Starting, tooMany)
	s.connections(tooMany)
	s.probe(good)
	s.want(report.Healthy, "")
}
