// SPDX-License-Identifier: Apache-2.0

package agentclient

import (
	"context"
	"errors"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/zeroinfra/platform-core/agentproto/report"
	agentv1 "github.com/zeroinfra/platform-core/agentproto/v1"
)

// runMethod names the call in errors.
const runMethod = "Run"

// Action is a call to the ops agent of a pod.
type Action struct {
	// Key is the idempotency key.
	Key string
	// Name of the action.
	Name string
	// Parameters by name.
	Parameters map[string]string
	// Timeout until the action is killed; 0 is what it declares.
	Timeout time.Duration
}

// ActionCall is what is known of a call to an action.
type ActionCall struct {
	report.Call
	// Outputs by name, when it succeeded.
	Outputs map[string]string
}

// Ops runs the actions of one pod. Every error is an *Error.
type Ops interface {
	// Run begins the action, or asks how it stands when it was called with the key before. It does not wait for the end:
	// with report.CallRunning, call again with the same key.
	Run(ctx context.Context, action Action) (ActionCall, error)
	// Await is Run for an action that ends soon: it returns its outcome, or how it stands when ctx ends.
	Await(ctx context.Context, action Action) (ActionCall, error)
}

// OpsDialer finds the ops agent of a pod.
type OpsDialer interface {
	// DialOps is to Ops what Dialer.Dial is to Process.
	DialOps(ctx context.Context, pod *corev1.Pod) (Ops, error)
}

// DialOps implements OpsDialer.
func (c *Connections) DialOps(_ context.Context, pod *corev1.Pod) (Ops, error) {
	a, conn, err := c.dial(pod, c.opsPort)
	if err != nil {
		return nil, err
	}
	return &ops{agent: a, client: agentv1.NewOpsServiceClient(conn)}, nil
}

type ops struct {
	agent
	client agentv1.OpsServiceClient
}

// Run implements Ops. The first message says that the call is recorded, and how it stands; the action does not end with
// the stream.
func (o *ops) Run(ctx context.Context, action Action) (ActionCall, error) {
	return o.follow(ctx, action, func(ActionCall) bool { return true })
}

// Await implements Ops.
func (o *ops) Await(ctx context.Context, action Action) (ActionCall, error) {
	return o.follow(ctx, action, func(call ActionCall) bool { return call.Phase != report.CallRunning })
}

// follow begins an action and listens until what it says is enough.
func (o *ops) follow(ctx context.Context, action Action, enough func(ActionCall) bool) (ActionCall, error) {
	ctx, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	stream, err := o.client.Run(ctx, &agentv1.RunRequest{Header: header(ctx, action.Key), Action: action.Name,
		Parameters: action.Parameters,
		TimeoutMs:  action.Timeout.Milliseconds()})
	if err != nil {
		return ActionCall{}, o.failure(runMethod, err)
	}
	var last *ActionCall
	for {
		update, err := stream.Recv()
		switch {
		case err != nil && last != nil && ctx.Err() != nil:
			return *last, nil
		case errors.Is(err, io.EOF):
			return ActionCall{}, &Error{Pod: o.pod, Address: o.address, Method: runMethod, Kind: Unreachable,
				Problem: "the agent does not say how the action stands"}
		case err != nil:
			return ActionCall{}, o.failure(runMethod, err)
		}
		record := update.GetCall()
		if record == nil {
			continue
		}
		call, err := o.callOf(runMethod, record.GetRecord())
		outcome := ActionCall{Call: call, Outputs: record.GetOutputs()}
		if err != nil || enough(outcome) {
			return outcome, err
		}
		last = &outcome
	}
}
