// SPDX-License-Identifier: Apache-2.0

package opsserver

import (
	"context"
	"time"

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
	states, err := s.Entities.Observe(ctx, r.GetType(), queries)
	if err != nil {
		return nil, status.Error(server.CodeOf(err, codesOfActions), err.Error())
	}
	response := &agentv1.ObserveEntitiesResponse{}
	for _, state := range states {
		response.Entities = append(response.Entities, &agentv1.EntityState{
			Name: state.Name, Parameters: state.Parameters, OtherPassword: state.Password == driver.OtherPassword,
			Facts:   state.Facts,
			Pending: state.Pending,
		})
	}
	return response, nil
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
