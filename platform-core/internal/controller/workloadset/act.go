// SPDX-License-Identifier: Apache-2.0

package workloadset

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	agentreport "github.com/zeroinfra/platform-core/agentproto/report"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/agentclient"
	"github.com/zeroinfra/platform-core/internal/render"
	"github.com/zeroinfra/platform-core/internal/rollout"
	"github.com/zeroinfra/platform-core/sdk/apply"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// pushRetry is how soon a process manager that did not answer is called again.
const pushRetry = 5 * time.Second

// act brings about what the pods stand on, then the steps.
func (c *Controller) act(ctx context.Context, set *platformv1.WorkloadSet, f *facts, steps []rollout.Step) outcome.Outcome {
	if err := c.ensureFinalizer(ctx, set); err != nil {
		return outcome.Failed(err)
	}
	if err := c.ensureShared(ctx, set); err != nil {
		return apply.Outcome(err)
	}
	for ordinal := range set.Spec.Replicas {
		if err := c.ensureCertificate(ctx, set, f, ordinal); err != nil {
			return apply.Outcome(err)
		}
	}
	if err := c.expandClaims(ctx, set, f); err != nil {
		return outcome.Failed(err)
	}
	var pending *outcome.Outcome
	for _, step := range steps {
		o := c.take(ctx, set, f, step)
		if o.Kind() == outcome.KindDone {
			continue
		}
		if pending == nil {
			pending = &o
		}
	}
	if pending != nil {
		return *pending
	}
	return outcome.Done()
}

func (c *Controller) take(ctx context.Context, set *platformv1.WorkloadSet, f *facts, step rollout.Step) outcome.Outcome {
	switch step.Action {
	case rollout.CreatePod:
		return c.createPod(ctx, set, f, step)
	case rollout.DeletePod:
		c.events.Normal(set, "ReplacingPod", "%s", step)
		if err := c.apply.Delete(ctx, f.pods[step.Pod]); err != nil {
			return outcome.Failed(err)
		}
	case rollout.SetRole:
		if err := c.setRole(ctx, f.pods[step.Pod], step.Role); err != nil {
			return outcome.Failed(err)
		}
	case rollout.PushPlan:
		return c.pushPlan(ctx, set, f, step)
	}
	return outcome.Done()
}

func (c *Controller) createPod(ctx context.Context, set *platformv1.WorkloadSet, f *facts, step rollout.Step) outcome.Outcome {
	for _, volume := range set.Spec.Volumes {
		if refused := refuseClaim(set, f, volume, f.claims[platformv1.ClaimNameFor(volume.Name, step.Pod)]); refused != nil && refused.Reason() != platformv1.ReasonVolumeShrinkRefused && refused.Reason() != platformv1.ReasonVolumeExpansionUnsupported {
			return *refused
		}
	}
	if err := c.ensureClaims(ctx, set, f, step.Ordinal); err != nil {
		return apply.Outcome(err)
	}
	pod, err := render.Pod(set, step.Ordinal)
	if err != nil {
		return outcome.Stalled(platformv1.ReasonInvalidSpec, err.Error())
	}
	if err := controllerutil.SetControllerReference(set, pod, c.client.Scheme()); err != nil {
		return outcome.Failed(err)
	}
	if _, err := c.apply.Create(ctx, pod); err != nil {
		return apply.Outcome(err)
	}
	return outcome.Done()
}

// setRole patches the one label that decides which Services lead to a pod.
func (c *Controller) setRole(ctx context.Context, pod *corev1.Pod, role string) error {
	value := any(role)
	if role == "" {
		value = nil
	}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid":    pod.UID, // another pod under this name is refused
		"labels": map[string]any{platformv1.RoleLabel: value},
	}})
	if err != nil {
		return err
	}
	target := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
	err = c.client.Patch(ctx, target, client.RawPatch(client.Merge.Type(), body), client.FieldOwner(owner))
	return client.IgnoreNotFound(err)
}

// pushPlan restarts the process of a pod in place with the current plan. The
// key names the configuration, the generation that asks for it and the pod, so a
// repeated call does nothing again.
func (c *Controller) pushPlan(ctx context.Context, set *platformv1.WorkloadSet, f *facts, step rollout.Step) outcome.Outcome {
	pod := f.pods[step.Pod]
	key := fmt.Sprintf("plan/%s/%d/%s", f.plan.Digest, set.Generation, pod.UID)
	if last := f.callOf(step.Ordinal); last != nil && last.Key == key {
		// It was called; the report tells how it ends.
		return judgeCall(pod, *last)
	}
	process, err := c.Dialer.Dial(ctx, pod)
	if err != nil {
		return outcome.WaitingFor(pushRetry, platformv1.ReasonConfigurationPending, agentclient.ProblemOf(err))
	}
	c.events.Normal(set, "RestartingProcess", "%s", step)
	call, err := process.Restart(ctx, key, set.Spec.Plan.Raw)
	if err != nil {
		return outcome.WaitingFor(pushRetry, platformv1.ReasonConfigurationPending, agentclient.ProblemOf(err))
	}
	return judgeCall(pod, call)
}

// judgeCall says what became of a restart with a new plan. One that failed is not
// called again: only another plan can help.
func judgeCall(pod *corev1.Pod, call agentreport.Call) outcome.Outcome {
	if call.Phase == agentreport.CallFailed {
		return outcome.Stalled(platformv1.ReasonConfigurationPending, fmt.Sprintf("pod %s does not take the configuration: %s", pod.Name, call.Message))
	}
	return outcome.Done()
}

func (f *facts) callOf(ordinal int32) *agentreport.Call {
	for _, p := range f.rollout.Pods {
		if p.Ordinal == ordinal {
			return p.Report.LastCall
		}
	}
	return nil
}
