// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/zeroinfra/platform-core/agentproto/report"
	"github.com/zeroinfra/platform-core/internal/agentclient"
	"github.com/zeroinfra/platform-core/internal/opsflow"
	"github.com/zeroinfra/platform-core/internal/plugin/optemplate"
)

// call makes a call and asks which call the process manager has on record as its latest.
func (c *Controller) call(ctx context.Context, pod *corev1.Pod, effect *opsflow.Effect) *opsflow.Answer {
	call := effect.Call
	logger := log.FromContext(ctx).WithValues("pod", pod.Name, "method", call.Method, "key", effect.Key)
	process, err := c.Dialer.Dial(ctx, pod)
	if err != nil {
		return failed(ctx, pod, err)
	}
	var record report.Call
	switch call.Method {
	case optemplate.AgentRestart:
		record, err = process.Restart(ctx, effect.Key, nil)
	case optemplate.AgentReload:
		record, err = process.Reload(ctx, effect.Key, nil)
	case optemplate.AgentStart:
		record, err = process.Start(ctx, effect.Key)
	case optemplate.AgentStop:
		record, err = process.Stop(ctx, effect.Key)
	case optemplate.AgentSignal:
		record, err = process.Signal(ctx, effect.Key, call.Signal)
	default:
		err = fmt.Errorf("cannot call %s: this operator does not know it", call.Method)
	}
	if err != nil {
		return failed(ctx, pod, err)
	}
	logger.Info("Called the process manager", "phase", record.Phase)
	status, err := process.Status(ctx)
	if err != nil {
		return failed(ctx, pod, err)
	}
	return &opsflow.Answer{Call: record, Latest: status.GetLastCall().GetIdempotencyKey()}
}

// act has the ops agent run an action, or asks how it stands.
func (c *Controller) act(ctx context.Context, pod *corev1.Pod, effect *opsflow.Effect) *opsflow.Answer {
	ops, err := c.Ops.DialOps(ctx, pod)
	if err != nil {
		return failed(ctx, pod, err)
	}
	call, err := ops.Run(ctx, agentclient.Action{Key: effect.Key, Name: effect.Call.Action,
		Parameters: effect.Call.Parameters})
	if err != nil {
		answer := failed(ctx, pod, err)
		if agentclient.IsUnknown(err) {
			// The plugin has it, or nobody would have called: the plan is on its way, as after another version of the plugin.
			answer.Failure = opsflow.FailureUnreachable
		}
		return answer
	}
	return &opsflow.Answer{Call: call.Call, Latest: call.Key, Outputs: call.Outputs}
}

func failed(ctx context.Context, pod *corev1.Pod, err error) *opsflow.Answer {
	log.FromContext(ctx).Info("A call to an agent failed", "pod", pod.Name, "error", err.Error())
	answer := &opsflow.Answer{Failure: opsflow.FailureUnreachable, Problem: agentclient.ProblemOf(err)}
	if agentclient.IsRefused(err) {
		answer.Failure = opsflow.FailureRefused
	}
	return answer
}
