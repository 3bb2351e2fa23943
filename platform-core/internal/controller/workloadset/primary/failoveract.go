// SPDX-License-Identifier: Apache-2.0

package primary

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/platform-core/agentproto/permission"
	agentreport "github.com/zeroinfra/platform-core/agentproto/report"
	agentv1 "github.com/zeroinfra/platform-core/agentproto/v1"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/agentclient"
	"github.com/zeroinfra/platform-core/internal/controller/workloadset/record"
	"github.com/zeroinfra/platform-core/internal/failover"
	"github.com/zeroinfra/platform-core/internal/rollout"
	"github.com/zeroinfra/platform-core/sdk/frame"
)

// actionPatience bounds the wait for the outcome of a short action.
const actionPatience = 1500 * time.Millisecond

// take executes the steps of one decision: a write alone, or calls in parallel.
func (t *reconcile) take(ctx context.Context, steps []failover.Step) error {
	if steps[0].Action == failover.Write {
		return t.write(ctx, steps[0])
	}
	var mu sync.Mutex
	var notes []func()
	var calls []func() error
	for _, step := range steps {
		calls = append(calls, func() error {
			note := t.call(ctx, step)
			mu.Lock()
			defer mu.Unlock()
			notes = append(notes, note)
			return nil
		})
	}
	err := frame.Together(calls...)
	for _, note := range notes {
		note()
	}
	return err
}

// write writes the record if it has not changed meanwhile, and removes the label of the pod that loses it.
func (t *reconcile) write(ctx context.Context, step failover.Step) error {
	planned := record.Of(t.Primary)
	if step.Until != 0 {
		// A later write would depose a primary that takes writes again, without a measurement of its data.
		left := step.Until - t.states.since(t.Now())
		if left <= 0 {
			return nil // it is decided anew
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, left)
		defer cancel()
	}
	if err := t.read(ctx); err != nil {
		return err
	}
	if !record.Same(planned, record.Of(t.Primary)) {
		return nil // it is decided anew
	}
	var since *metav1.Time
	if t.Primary != nil {
		since = t.Primary.Since
	}
	next := record.Stored(step, t.Primary, t.Now())
	next.Data = t.set.Spec.Generation()
	written, err := t.writeRecord(ctx, t.set, t.version, next)
	if err != nil || !written {
		return err
	}
	t.known.memory.Wrote(step.Record, t.states.since(t.Now()))
	if step.CaughtUp != nil {
		t.known.memory.RecordCaughtUp(*step.CaughtUp, step.Record.Term, step.Until)
	}
	t.known.wrote, t.Facts = next, t.WithPrimary(next)
	t.announce(planned, since, step)
	// If this fails, the next reconcile removes the label: no record names the pod.
	return t.unlabel(ctx, step.Unlabel)
}

// announce emits the event and the metrics of a change of the primary.
func (t *reconcile) announce(before permission.Record, vacant *metav1.Time, step failover.Step) {
	switch {
	case step.Record.Primary == nil:
		t.Events.Warning(t.set, "PrimaryDeposed", "%s", step)
		failovers.WithLabelValues("deposed").Inc()
	case before.Primary == nil || *before.Primary != *step.Record.Primary:
		t.Events.Normal(t.set, "PrimaryNamed", "%s", step)
		failovers.WithLabelValues("named").Inc()
		if before.Term > 0 && before.Primary == nil && vacant != nil {
			failoverSeconds.Observe(t.Now().Sub(vacant.Time).Seconds())
		}
	}
}

// read reads the live record, and the resource version that guards its next write.
func (t *reconcile) read(ctx context.Context) error {
	live := &platformv1.WorkloadSet{}
	if err := t.Live.Get(ctx, client.ObjectKeyFromObject(t.set), live); err != nil {
		return err
	}
	if live.UID != t.set.UID {
		return fmt.Errorf("WorkloadSet %q is another one by now", t.set.Name)
	}
	if live.Spec.Generation() != t.Asked {
		return fmt.Errorf("the pods of WorkloadSet %q are to have other volumes by now", t.set.Name)
	}
	if w := live.Status.Primary; w != nil && w.Data != t.set.Spec.Generation() {
		return fmt.Errorf("the primary of WorkloadSet %q is recorded for other volumes by now", t.set.Name)
	}
	t.version, t.Facts = live.ResourceVersion, t.WithPrimary(live.Status.Primary)
	return nil
}

// unlabel removes the primary label of a pod, if it has it.
func (t *reconcile) unlabel(ctx context.Context, name string) error {
	i := slices.IndexFunc(t.Rollout.Pods, func(p rollout.Pod) bool { return p.Name == name })
	if i < 0 || !t.Rollout.IsPrimaryRole(t.Rollout.Pods[i].Role) {
		return nil
	}
	if err := t.Roles.SetRole(ctx, t.Pods[name], ""); err != nil {
		return err
	}
	t.Rollout.Pods[i].Role = ""
	return nil
}

// call makes a call, and returns the function that records its outcome.
func (t *reconcile) call(ctx context.Context, step failover.Step) func() {
	memory := &t.known.memory
	switch step.Action {
	case failover.Measure:
		result := t.measure(ctx, step)
		at := t.states.since(t.Now())
		return func() { memory.Measured(step.Pod, at, result) }
	case failover.Prepare:
		if !t.prepare(ctx, step) {
			return func() {}
		}
		at := t.states.since(t.Now())
		return func() { memory.Prepared(step.Attempt, at) }
	case failover.Pause:
		state, problem := t.pause(ctx, step)
		at := t.states.since(t.Now())
		return func() { memory.Paused(step.Attempt, at, state, problem) }
	}
	answer := t.ask(ctx, step)
	if step.Action == failover.Tell {
		return func() { memory.Told(step.Pod, t.Primary.List.Version, answer) }
	}
	return func() { memory.Answered(step.Pod, answer) }
}

// ask calls the agent of a pod for its membership state, a promise, or to send the record.
func (t *reconcile) ask(ctx context.Context, step failover.Step) failover.Answer {
	member, err := t.Members.DialPermission(ctx, t.Pods[step.Pod])
	var status *agentv1.MemberStatus
	present := record.Of(t.Primary)
	if err == nil {
		switch step.Action {
		case failover.Tell:
			status, err = member.Learn(ctx, record.Sent(present))
		case failover.Promise:
			status, err = member.Promise(ctx, present.Term)
		default:
			status, err = member.Member(ctx)
		}
	}
	// The time is taken after the answer.
	answer := failover.Answer{At: t.states.since(t.Now())}
	if err != nil {
		answer.Problem = agentclient.ProblemOf(err)
		if agentclient.IsAlive(err) {
			answer.Refusal = failover.Refused
		}
		return answer
	}
	answer.Member = failover.MemberState{Identity: status.GetIdentity(), Promised: status.GetPromised(),
		Term:        status.GetTerm(),
		ListVersion: status.GetListVersion(),
		Writing:     status.GetWriting(), Primary: status.GetPrimary()}
	return answer
}

// measure runs the action that measures the data of a pod.
func (t *reconcile) measure(ctx context.Context, step failover.Step) failover.Measurement {
	pod := t.Pods[step.Pod]
	i := slices.IndexFunc(t.Rollout.Pods, func(p rollout.Pod) bool { return p.Name == step.Pod })
	key := fmt.Sprintf("measure/%d/%s/%d", t.Primary.Term, pod.UID, t.Now().UnixNano())
	call, err := t.await(agentclient.Within(ctx, t.Primary.Term), pod,
		agentclient.Action{Key: key, Name: t.set.Spec.Failover.Measure, Timeout: actionPatience})
	switch {
	case err != nil:
		return failover.Measurement{Problem: agentclient.ProblemOf(err)}
	case call.Phase == agentreport.CallRunning:
		return failover.Measurement{Problem: "it takes too long"}
	case call.Phase != agentreport.CallSucceeded:
		return failover.Measurement{Problem: call.Message}
	}
	p := t.Rollout.Pods[i]
	attributes := maps.Clone(p.Report.Attributes)
	if attributes == nil {
		attributes = map[string]string{}
	}
	maps.Copy(attributes, call.Outputs)
	return t.measurement(p, attributes)
}

// pause runs the action that pauses the primary. Its key identifies the attempt, so that a repeated call has no effect.
func (t *reconcile) pause(ctx context.Context, step failover.Step) (failover.PauseOutcome, string) {
	pod := t.Pods[step.Pod]
	t.Events.Normal(t.set, "SwitchingOver", "%s", step)
	key := fmt.Sprintf("handover/%d/%s/%d/%d/%d", t.Primary.Term, pod.UID, step.Attempt, t.states.started(), step.Began)
	call, err := t.await(agentclient.Within(ctx, t.Primary.Term), pod,
		agentclient.Action{Key: key, Name: t.set.Spec.Failover.Handover})
	switch {
	case err != nil && agentclient.IsRefused(err):
		return failover.PauseFailed, agentclient.ProblemOf(err)
	case err != nil, call.Phase == agentreport.CallRunning:
		return failover.PauseRunning, ""
	case call.Phase == agentreport.CallSucceeded:
		return failover.PauseHeld, ""
	}
	return failover.PauseFailed, call.Message
}

func (t *reconcile) await(ctx context.Context, pod *corev1.Pod,
	action agentclient.Action) (agentclient.ActionCall, error) {
	ctx, cancel := context.WithTimeout(ctx, actionPatience)
	defer cancel()
	ops, err := t.Ops.DialOps(ctx, pod)
	if err != nil {
		return agentclient.ActionCall{}, err
	}
	return ops.Await(ctx, action)
}
