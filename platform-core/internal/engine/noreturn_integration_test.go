// SPDX-License-Identifier: Apache-2.0

//go:build integration

package engine_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/platform-core/agentproto/report"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// tryCancel asks for the end of an Operation.
func tryCancel(t *testing.T, op *platformv1.Operation) error {
	t.Helper()
	return env.Client.Patch(t.Context(), op.DeepCopy(),
		client.RawPatch(types.MergePatchType, []byte(`{"spec":{"cancel":true}}`)))
}

// stands waits until an Operation says where it stands to its point of no return.
func stands(t *testing.T, op *platformv1.Operation, reason, text string) {
	t.Helper()
	testkit.WaitFor(t, env.Client, op, reason, func() error {
		if point := conditions.Get(op, platformv1.PointOfNoReturnCondition); point == nil || point.Reason != reason ||
			!strings.Contains(point.Message, text) {
			return fmt.Errorf("it says %+v", point)
		}
		return testkit.StatusLint(op)
	})
}

// Nobody cancels what has passed its point of no return, and is told why and what to do; what has not is cancelled.
func TestThePointOfNoReturn(t *testing.T) {
	app := served(t)
	admits(t, app.Namespace, as(t, app.Namespace, "ada", "create"))
	said := ends(t, operate(t, app, "dry", "UpgradePaaS", func(s *platformv1.OperationSpec) { s.DryRun = true }, "version",
		"8.0"), platformv1.OperationSucceeded)
	plan := strings.Join(said.Plan, "\n")
	if !strings.Contains(plan, "upgrade: from here on there is no way back: pods begin to write with the new version") {
		t.Errorf("the plan is %q", plan)
	}
	refused := operate(t, app, "refused", "UpgradePaaS", nil, "version", "9.9")
	ends(t, refused, platformv1.OperationFailed)
	stands(t, refused, platformv1.ReasonNotPassed, "was refused and touched nothing")
	// The instance does not become Ready, so that it goes on.
	ill := podOf(t, app)
	says := report.Report{Health: report.Unhealthy, Message: "no luck"}.String()
	if err := testkit.Edit(t.Context(), env.Client, ill,
		func() { metav1.SetMetaDataAnnotation(&ill.ObjectMeta, platformv1.ReportAnnotation, says) }); err != nil {
		t.Fatal(err)
	}
	testkit.WaitFor(t, env.Client, app, "is not Ready", func() error {
		if conditions.IsTrue(app, platformv1.ReadyCondition) {
			return errors.New("it is Ready")
		}
		return nil
	})
	generation := app.Generation
	for name, dry := range map[string]bool{"ill": false, "ill-dry": true} {
		said := ends(t, operate(t, app, name, "UpgradePaaS", func(s *platformv1.OperationSpec) { s.DryRun = dry }, "version",
			"8.0"), platformv1.OperationFailed)
		if !strings.Contains(said.Error, "cannot begin: pod "+ill.Name+
			" reports that it is Unhealthy: no luck; mend that first") || !strings.Contains(said.Error, "acceptUnhealthy") ||
			len(said.Steps) > 0 {
			t.Errorf("%s says %q, %+v", name, said.Error, said.Steps)
		}
	}
	if refresh(t, app); app.Generation != generation || app.Spec.Version != "7.0" {
		t.Errorf("generation %d became %d, version %s", generation, app.Generation, app.Spec.Version)
	}
	op := operate(t, app, "upgrade", "UpgradePaaS", nil, "version", "8.0", "acceptUnhealthy", "true")
	stands(t, op, platformv1.ReasonPassed, `step "upgrade" has begun: pods begin to write with the new version`)
	forbidden(t, "cancel", tryCancel(t, op),
		"Operation 'upgrade' has passed its point of no return and cannot be cancelled any more: "+
			"step \"upgrade\" has begun: "+
			"pods begin to write with the new version, which the former one may not be able to read; to go back, restore a "+
			"backup")
	next := operate(t, app, "next", "UpgradePaaS", nil, "version", "8.0")
	ends(t, next, platformv1.OperationPending)
	if err := tryCancel(t, next); err != nil {
		t.Errorf("one that has not begun: %v", err)
	}
	ends(t, next, platformv1.OperationCancelled)
	ends(t, op, platformv1.OperationRunning)
	// One that pre-empts others does not wait for what nobody can end.
	ends(t, operate(t, app, "stop", "Stop", nil), platformv1.OperationSucceeded)
}
