// SPDX-License-Identifier: Apache-2.0

package agentclient

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/zeroinfra/platform-core/agentproto/report"
	agentv1 "github.com/zeroinfra/platform-core/agentproto/v1"
)

// Bounds of one call, as the protocol has them.
const (
	MaxEntityQueries = 1000
	MaxEntityChanges = 500
)

// EntityQuery asks for one object inside the middleware.
type EntityQuery struct {
	Name string
	// Password that it is to have; empty for none.
	Password string
}

// EntityState is such an object as the middleware has it.
type EntityState struct {
	Parameters map[string]string
	// OtherPassword says that it does not have the password of the query.
	OtherPassword bool
	// Facts are what else the middleware tells of it, which is compared with nothing.
	Facts map[string]string
	// Pending is what the middleware has yet to do for it to be as Parameters say; empty for nothing.
	Pending string
}

// EntityStates are what a look found.
type EntityStates struct {
	// Objects that are there, by name.
	Objects map[string]EntityState
	// Starts of the process that had them, as in report.Report; 0 where the agent does not tell.
	Starts int64
}

// EntityIntent is what is to become of an object.
type EntityIntent string

// Values of EntityIntent.
const (
	EntityCreate EntityIntent = "Create"
	EntityUpdate EntityIntent = "Update"
	EntityDelete EntityIntent = "Delete"
)

// EntityChange is one object as it is to be.
type EntityChange struct {
	EntityQuery
	Intent     EntityIntent
	Parameters map[string]string
}

// EntityCall is what is known of a call that changes objects.
type EntityCall struct {
	report.Call
	// Problems of those that could not be changed, by name, once the call has succeeded.
	Problems map[string]string
}

// Entities are the objects inside the middleware of one pod. Every error is an *Error.
type Entities interface {
	// Observe returns those of at most MaxEntityQueries objects of a type that are there.
	Observe(ctx context.Context, entityType string, queries []EntityQuery) (EntityStates, error)
	// Change begins at most MaxEntityChanges changes, or asks how they stand when it was called with the key before. With
	// report.CallRunning, call again with the same key.
	Change(ctx context.Context, key, entityType string, changes []EntityChange) (EntityCall, error)
}

// EntitiesDialer finds the ops agent of a pod.
type EntitiesDialer interface {
	// DialEntities is to Entities what Dialer.Dial is to Process.
	DialEntities(ctx context.Context, pod *corev1.Pod) (Entities, error)
}

// DialEntities implements EntitiesDialer.
func (c *Connections) DialEntities(_ context.Context, pod *corev1.Pod) (Entities, error) {
	a, conn, err := c.dial(pod, c.opsPort)
	if err != nil {
		return nil, err
	}
	return &entities{agent: a, client: agentv1.NewOpsServiceClient(conn)}, nil
}

type entities struct {
	agent
	client agentv1.OpsServiceClient
}

// Observe implements Entities.
func (e *entities) Observe(ctx context.Context, entityType string,
	queries []EntityQuery) (EntityStates, error) {
	ctx, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	request := &agentv1.ObserveEntitiesRequest{Type: entityType}
	for _, query := range queries {
		request.Entities = append(request.Entities, &agentv1.EntityQuery{Name: query.Name, Password: query.Password})
	}
	response, err := e.client.ObserveEntities(ctx, request)
	if err != nil {
		return EntityStates{}, e.failure("ObserveEntities", err)
	}
	states := EntityStates{Objects: make(map[string]EntityState, len(response.GetEntities())),
		Starts: response.GetStarts()}
	for _, state := range response.GetEntities() {
		states.Objects[state.GetName()] = EntityState{Parameters: state.GetParameters(),
			OtherPassword: state.GetOtherPassword(), Facts: state.GetFacts(), Pending: state.GetPending()}
	}
	return states, nil
}

var intents = map[EntityIntent]agentv1.EntityIntent{
	EntityCreate: agentv1.EntityIntent_ENTITY_INTENT_CREATE,
	EntityUpdate: agentv1.EntityIntent_ENTITY_INTENT_UPDATE,
	EntityDelete: agentv1.EntityIntent_ENTITY_INTENT_DELETE,
}

// Change implements Entities.
func (e *entities) Change(ctx context.Context, key, entityType string, changes []EntityChange) (EntityCall, error) {
	ctx, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	request := &agentv1.ChangeEntitiesRequest{Header: header(ctx, key), Type: entityType}
	for _, change := range changes {
		request.Changes = append(request.Changes, &agentv1.EntityChange{
			Name: change.Name, Password: change.Password, Intent: intents[change.Intent], Parameters: change.Parameters,
		})
	}
	response, err := e.client.ChangeEntities(ctx, request)
	if err != nil {
		return EntityCall{}, e.failure("ChangeEntities", err)
	}
	call, err := e.callOf("ChangeEntities", response.GetCall())
	return EntityCall{Call: call, Problems: response.GetProblems()}, err
}
