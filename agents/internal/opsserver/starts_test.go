// SPDX-License-Identifier: Apache-2.0

package opsserver

import (
	"context"
	"errors"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/zeroinfra/agents/internal/entity"
	"github.com/zeroinfra/agents/internal/testpod"
	"github.com/zeroinfra/platform-core/agentproto/plan"
	agentv1 "github.com/zeroinfra/platform-core/agentproto/v1"
)

// manager is a process manager that says one thing.
type manager struct {
	status *agentv1.ProcessStatus
	err    error
}

// Status implements Process.
func (m manager) Status(context.Context) (*agentv1.ProcessStatus, error) { return m.status, m.err }

// A process is known by its number while it runs: not while it is stopped, when the next one may answer before the
// process manager tells of it.
func TestProcessIsKnownWhileItRuns(t *testing.T) {
	is := func(state agentv1.ProcessState, pid int64) manager {
		return manager{status: &agentv1.ProcessStatus{State: state, Starts: 3, Pid: pid}}
	}
	for name, test := range map[string]struct {
		manager manager
		want    int64
	}{
		"it runs":             {is(agentv1.ProcessState_PROCESS_STATE_RUNNING, 7), 3},
		"it starts":           {is(agentv1.ProcessState_PROCESS_STATE_STARTING, 7), 3},
		"it is being stopped": {is(agentv1.ProcessState_PROCESS_STATE_STOPPING, 7), between},
		"it has ended":        {is(agentv1.ProcessState_PROCESS_STATE_BACKOFF, 0), between},
		"nobody tells":        {manager{err: errors.New("nobody is there")}, 0},
	} {
		if got := (service{Server: Server{Process: test.manager}}).starts(t.Context()); got != test.want {
			t.Errorf("%s: it is number %d, want %d", name, got, test.want)
		}
	}
}

// restarting is a process manager whose process is another one each time it is asked, from a number on.
type restarting struct{ starts, step int64 }

// Status implements Process.
func (r *restarting) Status(context.Context) (*agentv1.ProcessStatus, error) {
	r.starts += r.step
	return &agentv1.ProcessStatus{State: agentv1.ProcessState_PROCESS_STATE_RUNNING, Starts: r.starts, Pid: 7}, nil
}

// An answer says which process it is of. One that two processes may have given is none.
func TestAnswerSaysWhichProcessItIsOf(t *testing.T) {
	dirs := testpod.Dirs(t, "a-0", plan.Plan{
		Entities: []plan.EntityType{{Type: "thing", Actions: &plan.EntityActions{List: "list"}}},
		Actions:  []plan.Action{{Name: "list", Command: []string{"echo", `{"a": {"size": "1"}}`}}}})
	keeper := entity.New(testpod.Runner(t, dirs))
	look := func(process Process) (*agentv1.ObserveEntitiesResponse, error) {
		return service{Server: Server{Entities: keeper, Process: process}}.ObserveEntities(t.Context(),
			&agentv1.ObserveEntitiesRequest{Type: "thing", Entities: []*agentv1.EntityQuery{{Name: "a"}}})
	}
	if answer, err := look(&restarting{starts: 3}); err != nil || answer.GetStarts() != 3 ||
		len(answer.GetEntities()) != 1 {
		t.Errorf("it answers %v, %v; want that of process 3", answer, err)
	}
	if answer, err := look(manager{err: errors.New("nobody is there")}); err != nil || answer.GetStarts() != 0 {
		t.Errorf("without a process manager it answers %v, %v", answer, err)
	}
	if answer, err := look(&restarting{starts: 3, step: 1}); status.Code(err) != codes.Aborted {
		t.Errorf("while the process is restarted it answers %v, %v", answer, err)
	}
}
