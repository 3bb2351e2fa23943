// SPDX-License-Identifier: Apache-2.0

package opsserver

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/zeroinfra/agents/internal/callrecord"
	"github.com/zeroinfra/agents/internal/driver"
	"github.com/zeroinfra/agents/internal/entity"
	"github.com/zeroinfra/agents/internal/server"
	agentv1 "github.com/zeroinfra/platform-core/agentproto/v1"
)

// changePatience is how long a call waits for its changes to end.
const changePatience = 2 * time.Second

// ObserveEntities implements agentv1.OpsServiceServer.
func (s service) ObserveEntities(ctx context.Context,
	r *agentv1.ObserveEntitiesRequest) (*agentv1.ObserveEntitiesResponse, error) {
	var queries []driver.Query
	for _, query := range r.GetEntities() {
		queries = append(queries, driver.Query{Name: query.GetName(), Password: query.GetPassword()})
	}
	before := s.starts(ctx)
	states, err := s.Entities.Observe(ctx, r.GetType(), queries)
	if err != nil {
		return nil, status.Error(server.CodeOf(err, codesOfActions), err.Error())
	}
	after := s.starts(ctx)
	if before != after || after == between {
		return nil, status.Error(codes.Aborted, "the process is being stopped or started, so that it is not known which one "+
			"was asked: ask again")
	}
	response := &agentv1.ObserveEntitiesResponse{Starts: after}
	for _, state := range states {
		response.Entities = append(response.Entities, &agentv1.EntityState{
			Name: state.Name, Parameters: state.Parameters, OtherPassword: state.Password == driver.OtherPassword,
			Facts:   state.Facts,
			Pending: state.Pending,
		})
	}
	return response, nil
}

// between stands for the number of a process that is not known for sure: one is being stopped, and the next one may
// answer before the process manager tells of it.
const between = -1

// starts is the number of the process that runs now; 0 where nobody tells.
func (s service) starts(ctx context.Context) int64 {
	now, err := s.Process.Status(ctx)
	switch {
	case err != nil:
		return 0
	case now.GetPid() == 0 || now.GetState() == agentv1.ProcessState_PROCESS_STATE_STOPPING:
		return between
	}
	return now.GetStarts()
}

var intents = map[agentv1.EntityIntent]driver.Intent{
	agentv1.EntityIntent_ENTITY_INTENT_CREATE: driver.Create,
	agentv1.EntityIntent_ENTITY_INTENT_UPDATE: driver.Update,
	agentv1.EntityIntent_ENTITY_INTENT_DELETE: driver.Delete,
}

// ChangeEntities implements agentv1.OpsServiceServer.
func (s service) ChangeEntities(ctx context.Context,
	r *agentv1.ChangeEntitiesRequest) (*agentv1.ChangeEntitiesResponse, error) {
	call := entity.Call{Key: r.GetHeader().GetIdempotencyKey(), Term: r.GetHeader().GetTerm(), Type: r.GetType()}
	for _, change := range r.GetChanges() {
		call.Changes = append(call.Changes, driver.Change{
			Query:  driver.Query{Name: change.GetName(), Password: change.GetPassword()},
			Intent: intents[change.GetIntent()], Parameters: change.GetParameters(),
		})
	}
	run, err := s.Entities.Change(call)
	if err != nil {
		return nil, status.Error(server.CodeOf(err, codesOfActions), err.Error())
	}
	patience := time.NewTimer(changePatience)
	defer patience.Stop()
	select {
	case <-run.Done():
	case <-patience.C:
	case <-s.closing:
	case <-ctx.Done():
	}
	record := run.Record()
	response := &agentv1.ChangeEntitiesResponse{Call: callRecord(record)}
	if record.Phase == callrecord.Succeeded {
		response.Problems = record.Outputs
	}
	return response, nil
}
