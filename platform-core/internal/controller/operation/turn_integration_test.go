// SPDX-License-Identifier: Apache-2.0

//go:build integration

package operation

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/platform-core/agentproto/report"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

func (f *fixture) patch(obj client.Object, body string) {
	f.t.Helper()
	f.patchAs(env.Client, obj, body)
}

func (f *fixture) patchAs(c client.Client, obj client.Object, body string) {
	f.t.Helper()
	if err := c.Patch(f.t.Context(), obj, client.RawPatch(types.MergePatchType, []byte(body))); err != nil {
		f.t.Fatal(err)
	}
}

// stepOf makes an Operation a step of another.
func stepOf(parent *platformv1.Operation) func(*platformv1.Operation) {
	return func(op *platformv1.Operation) {
		op.OwnerReferences = []metav1.OwnerReference{
			{APIVersion: platformv1.GroupVersion.String(), Kind: "Operation", Name: parent.Name, UID: parent.UID,
				Controller: ptr(true)}}
	}
}

// An approval may take days: others run in the meantime, and what was approved takes its turn again.
func TestOthersRunWhileAnApprovalIsAwaited(t *testing.T) {
	f := newFixture(t, 1)
	f.healthy(0)
	f.controller(nil)
	ask := f.operation("ask", "Ask", func(op *platformv1.Operation) { op.Spec.Author = "ada" })
	f.waitPhase(ask, platformv1.OperationAwaitingApproval)
	f.waitPhase(f.operation("second", "Restart", nil), platformv1.OperationSucceeded)
	f.stopAgents(0)
	third := f.operation("third", "Restart", nil)
	f.waitPhase(third, platformv1.OperationRunning)
	f.patchAs(f.person("bob"), ask, `{"spec":{"approval":{"by":"bob","decision":"Approved"}}}`)
	f.waitPhase(ask, platformv1.OperationPending)
	f.startAgents(0)
	f.waitPhase(third, platformv1.OperationSucceeded)
	f.waitPhase(ask, platformv1.OperationSucceeded)
	if ask.Status.StartTime.Before(third.Status.CompletionTime) || ask.Status.Steps[0].Outputs["by"] != "bob" ||
		len(ask.Status.Steps) != 2 {
		t.Errorf("it went on at %v, the other ended at %v: %+v", ask.Status.StartTime, third.Status.CompletionTime,
			ask.Status.Steps)
	}
	other := f.operation("other", "Ask", func(op *platformv1.Operation) { op.Spec.Author = "ada" })
	f.waitPhase(other, platformv1.OperationAwaitingApproval)
	f.patch(other, `{"spec":{"cancel":true}}`)
	f.waitPhase(other, platformv1.OperationCancelled)
}

// What has not begun can be cancelled, whatever is wrong with its target.
func TestCancelNeedsNoTarget(t *testing.T) {
	f := newFixture(t, 1)
	f.create(testkit.BuildApplication(f.namespace, "unclaimed").Build())
	f.controller(nil)
	op := f.operation("waits", "Restart", func(op *platformv1.Operation) {
		op.Spec.TargetRef = platformv1.TargetReference{APIVersion: platformv1.GroupVersion.String(), Kind: "Application",
			Name: "unclaimed"}
	})
	f.patch(op, `{"spec":{"cancel":true}}`)
	f.waitPhase(op, platformv1.OperationCancelled)
}

// What an Operation finds under the name of its step is not taken for its own unless it could have made it.
func TestAStepTakesNoOtherOperationForItsOwn(t *testing.T) {
	f := newFixture(t, 1)
	parent := f.operation("parent", "Within", nil)
	f.operation("parent-tell", "Reload", stepOf(parent))
	f.controller(nil)
	f.waitPhase(parent, platformv1.OperationFailed)
	if !strings.Contains(parent.Status.Error,
		`there is an Operation "parent-tell" that asks for something else than this step`) {
		t.Errorf("error is %q", parent.Status.Error)
	}
	right := f.operation("right", "Within", func(op *platformv1.Operation) {
		op.Spec.ServiceAccountName, op.Spec.Author, op.Spec.Retry = "deployer", "ada", &platformv1.OperationRetry{Limit: 1}
	})
	f.waitPhase(right, platformv1.OperationSucceeded)
	child := &platformv1.Operation{}
	err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: f.namespace, Name: "right-tell"}, child)
	if err != nil {
		t.Fatal(err)
	}
	if child.Spec.ServiceAccountName != "deployer" || child.Spec.Retry == nil || child.Spec.Retry.Limit != 1 {
		t.Errorf("the step made %+v", child.Spec)
	}
}

// The record of a step is kept as long as the Operation that reads it there runs.
func TestRecordsOfStepsOutliveTheirOperation(t *testing.T) {
	f := newFixture(t, 1)
	f.healthy(0)
	f.stopAgents(0)
	f.patch(&platformv1.Application{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "redis-a"}},
		`{"spec":{"operationHistory":{"limit":1}}}`)
	f.controller(nil)
	parent := f.operation("parent", "Restart", nil)
	f.waitPhase(parent, platformv1.OperationRunning)
	brief := func(op *platformv1.Operation) { op.Spec.DryRun, op.Spec.TTLSecondsAfterFinished = true, ptr(int32(1)) }
	step := f.operation("step", "Restart", func(op *platformv1.Operation) { brief(op); stepOf(parent)(op) })
	f.waitPhase(step, platformv1.OperationSucceeded)
	// These came later, and are deleted for their time and for the limit.
	testkit.WaitGone(t, env.Client, f.operation("brief", "Restart", brief))
	earlier := f.operation("earlier", "Restart", func(op *platformv1.Operation) { op.Spec.DryRun = true })
	f.waitPhase(earlier, platformv1.OperationSucceeded)
	f.operation("latest", "Restart", func(op *platformv1.Operation) { op.Spec.DryRun = true })
	testkit.WaitGone(t, env.Client, earlier)
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(step), step); err != nil {
		t.Fatalf("the record of the step is gone: %v", err)
	}
	f.startAgents(0)
	testkit.WaitGone(t, env.Client, step)
}

// A call that takes a process out waits while the rollout has another pod out, or is about to.
func TestACallWaitsForItsTurn(t *testing.T) {
	f := newFixture(t, 2)
	f.healthy(0)
	f.healthy(1)
	release, _ := f.locks.TryAcquire(types.NamespacedName{Namespace: f.namespace, Name: "redis-a"})
	f.controller(nil)
	op := f.operation("restart", "Restart", nil)
	says := func(text string) {
		t.Helper()
		testkit.WaitFor(t, env.Client, op, text, func() error {
			if len(op.Status.Steps) == 0 || !strings.Contains(op.Status.Steps[0].Message, text) {
				return fmt.Errorf("it is %+v", op.Status.Steps)
			}
			return nil
		})
	}
	says("another pod of it is being changed")
	writer := f.pod(0)
	f.patch(writer, `{"metadata":{"finalizers":["example.com/hold"]}}`)
	if err := env.Client.Delete(t.Context(), writer, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	release()
	says("pod " + podName(0) + " is being changed or replaced")
	f.wantStarts(1, 1)
	f.patch(writer, `{"metadata":{"finalizers":null}}`)
	testkit.Eventually(t, "the end of the pod", func(ctx context.Context) error {
		if err := env.Client.Get(ctx, client.ObjectKeyFromObject(writer), &corev1.Pod{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %v", err)
		}
		return nil
	})
	f.wantStarts(1, 1)
	f.createPod(0)
	f.startAgents(0)
	f.waitPhase(op, platformv1.OperationSucceeded)
	f.wantStarts(1, 2)
}

// Members of one cluster are taken out one at a time, whichever set they are of: also while nothing shows yet of what
// the rollout does to one.
func TestACallWaitsForMembersOfOtherSets(t *testing.T) {
	f := newFixture(t, 1)
	f.healthy(0)
	set := &platformv1.WorkloadSet{}
	if err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: f.namespace, Name: setName}, set); err != nil {
		t.Fatal(err)
	}
	other := set.DeepCopy()
	other.ObjectMeta = metav1.ObjectMeta{Namespace: f.namespace,
		Name: platformv1.WorkloadSetNameFor("redis-a", "redis", "more"), Labels: set.Labels}
	other.Spec.Set, other.Spec.Members = "more", "1"
	f.create(other)
	f.patch(set, `{"spec":{"members":"1"}}`)
	said := report.Report{Health: report.Healthy, LastCall: &report.Call{Key: "plan/1", Phase: report.CallRunning}}
	member := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: platformv1.PodNameFor(other.Name, 0),
			Labels:      f.labels(map[string]string{platformv1.ComponentLabel: "redis", platformv1.SetLabel: "more"}),
			Annotations: map[string]string{platformv1.ReportAnnotation: said.String()}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "redis", Image: "redis"}}, NodeName: "node"},
	}
	f.create(member)
	member.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	member.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "redis", ContainerID: "sim://1"}}
	if err := env.Client.Status().Update(t.Context(), member); err != nil {
		t.Fatal(err)
	}
	f.controller(nil)
	waits := func(name string) *platformv1.Operation {
		t.Helper()
		op := f.operation(name, "Restart", func(op *platformv1.Operation) {
			op.Spec.TargetRef = platformv1.TargetReference{APIVersion: platformv1.GroupVersion.String(), Kind: "WorkloadSet",
				Name: setName}
		})
		testkit.WaitFor(t, env.Client, op, "what it waits for", func() error {
			if len(op.Status.Steps) == 0 || !strings.Contains(op.Status.Steps[0].Message, "pod "+member.Name+
				" is being changed or replaced") {
				return fmt.Errorf("it is %+v", op.Status.Steps)
			}
			return nil
		})
		return op
	}
	called := waits("called")
	f.wantStarts(0, 1)
	said.LastCall.Phase = report.CallSucceeded
	annotate := func(key, value string) {
		t.Helper()
		before := member.DeepCopy()
		member.Annotations[key] = value
		if err := env.Client.Patch(t.Context(), member, client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
	}
	annotate(platformv1.ReportAnnotation, said.String())
	f.waitPhase(called, platformv1.OperationSucceeded)
	f.wantStarts(0, 2)
	annotate(platformv1.ImagesAnnotation, `{"redis":{"id":"sim://1","image":"redis:1"}}`)
	patched := waits("patched")
	f.wantStarts(0, 2)
	member.Status.ContainerStatuses[0].ContainerID = "sim://2"
	if err := env.Client.Status().Update(t.Context(), member); err != nil {
		t.Fatal(err)
	}
	f.waitPhase(patched, platformv1.OperationSucceeded)
	f.wantStarts(0, 3)
}

// An Operation that tries another one again goes on where that one stopped: what succeeded there is not done again.
func TestRetryGoesOnWhereTheOtherStopped(t *testing.T) {
	f := newFixture(t, 1)
	f.healthy(0)
	f.controller(nil)
	first := f.operation("first", "Sign", nil)
	f.waitPhase(first, platformv1.OperationFailed)
	if !strings.Contains(first.Status.Error, `step "sign" is not done within 1s`) {
		t.Fatalf("it failed with %q", first.Status.Error)
	}
	f.wantStarts(0, 2)
	f.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "sign"}})
	second := f.operation("second", "Sign", func(op *platformv1.Operation) { op.Spec.RetryOf = first.Name })
	f.waitPhase(second, platformv1.OperationSucceeded)
	f.wantStarts(0, 3)
	before, after := first.Status.Steps[0], second.Status.Steps[0]
	if after.Name != "restart" || after.Attempts != 1 || !after.CompletionTime.Equal(before.CompletionTime) ||
		len(after.Targets) != 1 {
		t.Errorf("the first step is %+v; it was %+v", after, before)
	}
	if sign := second.Status.Steps[1]; sign.Phase != platformv1.OperationSucceeded || sign.Attempts != 1 {
		t.Errorf("the second step is %+v", sign)
	}
}
