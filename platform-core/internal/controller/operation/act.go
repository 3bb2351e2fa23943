// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/zeroinfra/platform-core/agentproto/report"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/agentclient"
	"github.com/zeroinfra/platform-core/internal/opsflow"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/internal/scheduling"
	"github.com/zeroinfra/platform-core/sdk/telemetry"
)

// carryOut records a decision, makes its call, and goes on until there is nothing to call.
// seen may be nil for a decision that ends the Operation.
func (c *Controller) carryOut(ctx context.Context, op *platformv1.Operation, seen *observation, d opsflow.Decision) (reconcile.Result, error) {
	for {
		if d.Call == nil || !equality.Semantic.DeepEqual(d.Status, op.Status) {
			if err := c.record(ctx, op, d); err != nil {
				return reconcile.Result{}, ignoreOvertaken(err)
			}
		}
		if d.Call == nil {
			telemetry.Outcome(owner, d.Outcome)
			return d.Outcome.Result()
		}
		answer := c.call(ctx, seen.pods[d.Call.Pod], d.Call)
		for i := range seen.facts.Pods {
			if seen.facts.Pods[i].UID == d.Call.UID {
				seen.facts.Pods[i].Answer = answer
			}
		}
		d = opsflow.Next(op, seen.facts)
	}
}

// ignoreOvertaken drops the error of a write that came too late: what was written or deleted
// in the meantime wakes us.
func ignoreOvertaken(err error) error {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// call makes a call and asks which call the process manager has on record as its latest.
func (c *Controller) call(ctx context.Context, pod *corev1.Pod, call *opsflow.Call) *opsflow.Answer {
	logger := log.FromContext(ctx).WithValues("pod", pod.Name, "method", call.Method, "key", call.Key)
	process, err := c.Dialer.Dial(ctx, pod)
	if err != nil {
		return failed(ctx, pod, err)
	}
	var record report.Call
	switch call.Method {
	case plugin.AgentRestart:
		record, err = process.Restart(ctx, call.Key, nil)
	case plugin.AgentReload:
		record, err = process.Reload(ctx, call.Key, nil)
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

func failed(ctx context.Context, pod *corev1.Pod, err error) *opsflow.Answer {
	log.FromContext(ctx).Info("A call to a process manager failed", "pod", pod.Name, "error", err.Error())
	answer := &opsflow.Answer{Failure: opsflow.FailureUnreachable, Problem: agentclient.ProblemOf(err)}
	if agentclient.IsRefused(err) {
		answer.Failure = opsflow.FailureRefused
	}
	return answer
}

// expire deletes a finished Operation whose time to live is over.
func (c *Controller) expire(ctx context.Context, op *platformv1.Operation) (reconcile.Result, error) {
	at, expires := opsflow.Expiry(op)
	if !expires {
		return reconcile.Result{}, nil
	}
	if left := at.Sub(c.Now()); left > 0 {
		return reconcile.Result{RequeueAfter: left}, nil
	}
	if recorded, err := c.recorded(ctx, op); err != nil || !recorded {
		return reconcile.Result{RequeueAfter: unclaimedRetry}, err
	}
	err := c.client.Delete(ctx, op, client.Preconditions{UID: &op.UID})
	return reconcile.Result{}, client.IgnoreNotFound(err)
}

// recorded says whether the Application knows of the Operation of its schedule: without that it would be made again.
func (c *Controller) recorded(ctx context.Context, op *platformv1.Operation) (bool, error) {
	if op.Labels[platformv1.ScheduleLabel] == "" {
		return true, nil
	}
	app := &platformv1.Application{}
	if err := c.client.Get(ctx, client.ObjectKey{Namespace: op.Namespace, Name: op.Labels[platformv1.ApplicationLabel]}, app); err != nil {
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	}
	return scheduling.Recorded(app, op), nil
}
