// SPDX-License-Identifier: Apache-2.0

//go:build integration

package operation

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/opsflow"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// midst is a restore that comes to have its pods go to other volumes, or has asked for that, and an operator without
// its plugin.
func (f *fixture) midst(swap platformv1.OperationPhase) *platformv1.Operation {
	f.t.Helper()
	op := f.operation("back", opsflow.TemplateRestore, func(op *platformv1.Operation) {
		op.Spec.Parameters = platformv1.Parameters{"backup": "b", "safetyCopy": "Skip"}
	})
	template, at := opsflow.Defaults()[opsflow.TemplateRestore], metav1.Now()
	for _, name := range template.Order() {
		op.Status.Steps = append(op.Status.Steps, platformv1.StepStatus{Name: name, Phase: platformv1.OperationPending})
	}
	prepare, copied, swapped := &op.Status.Steps[0], &op.Status.Steps[1], &op.Status.Steps[2]
	prepare.Phase, prepare.Attempts, prepare.StartTime = platformv1.OperationSucceeded, 1, &at
	prepare.Outputs = map[string]string{opsflow.OutputWorkloadSet: setName, opsflow.OutputFormer: "",
		opsflow.OutputData: "g2"}
	copied.Phase = platformv1.OperationSkipped
	if swapped.Phase = swap; swap == platformv1.OperationRunning {
		swapped.Attempts, swapped.StartTime, swapped.Outputs = 1, &at, map[string]string{"done": "Succeeded"}
	}
	op.Status.Phase, op.Status.Application, op.Status.Trigger, op.Status.StartTime = platformv1.OperationRunning,
		"redis-a", platformv1.TriggerUser, &at
	if err := env.Client.Status().Update(f.t.Context(), op); err != nil {
		f.t.Fatal(err)
	}
	f.index = plugin.NewIndex()
	f.controller(nil)
	return op
}

// A restore waits when the operator comes without the plugin, says so, and can be cancelled.
func TestARestoreWaitsForItsPlugin(t *testing.T) {
	f := newFixture(t, 1)
	f.stopAgents(0)
	op := f.midst(platformv1.OperationPending)
	testkit.WaitFor(t, env.Client, op, "waiting for the plugin", func() error {
		if ready := conditions.Get(op, platformv1.ReadyCondition); ready == nil ||
			ready.Reason != platformv1.ReasonPluginMissing || !strings.Contains(ready.Message, "install it again") {
			return fmt.Errorf("it is %+v", op.Status)
		}
		return nil
	})
	f.waitPhase(op, platformv1.OperationRunning)
	f.patch(op, `{"spec":{"cancel":true}}`)
	f.waitPhase(op, platformv1.OperationCancelled)
}

// Pods that are between the volumes go back to those of before without the plugin.
func TestARestoreGoesBackWithoutItsPlugin(t *testing.T) {
	f := newFixture(t, 1)
	f.stopAgents(0)
	set := &platformv1.WorkloadSet{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: setName}}
	f.patch(set, `{"spec":{"data":{"generation":"g2","access":"Closed"}}}`)
	op := f.midst(platformv1.OperationRunning)
	f.patch(op, `{"spec":{"cancel":true}}`)
	testkit.WaitFor(t, env.Client, set, "back on its own volumes", func() error {
		if data := set.Spec.Data; data != nil && *data != (platformv1.SetData{}) {
			return fmt.Errorf("it has %+v", data)
		}
		return nil
	})
}

// A copy that was whole before an Operation began lacks what was written since, and keeps the pods where they are.
func TestVolumesStayForACopyFromBefore(t *testing.T) {
	f := newDataFixture(t)
	f.wanted.Verb = opsflow.DataSwap
	began := metav1.NewTime(time.Now().Truncate(time.Second))
	op := &platformv1.Operation{ObjectMeta: metav1.ObjectMeta{Namespace: f.set.Namespace, UID: "op"},
		Status: platformv1.OperationStatus{StartTime: &began}}
	swaps := func(says string) {
		t.Helper()
		answer, err := f.c.data(t.Context(), op, nil, &f.wanted)
		f.must(err)
		if says == "" && answer.Failure != "" || !strings.Contains(answer.Problem, says) {
			t.Errorf("it says %q, want %q", answer.Problem, says)
		}
	}
	backup := &platformv1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: f.set.Namespace, Name: f.wanted.Copy}}
	completed := func(at time.Time) {
		body := fmt.Sprintf(`{"status":{"completionTime":%q}}`, at.UTC().Format(time.RFC3339))
		f.must(f.c.client.Status().Patch(t.Context(), backup, client.RawPatch(types.MergePatchType, []byte(body))))
	}
	completed(began.Add(-time.Second))
	swaps("lacks what was written since")
	f.wanted.Copy = "another"
	swaps("was deleted")
	f.wanted.Copy = backup.Name
	completed(began.Time)
	swaps("")
}
