// SPDX-License-Identifier: Apache-2.0

//go:build integration

package engine_test

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// operatedBy waits until the status of an Application names this Operation as the one that runs, or none.
func operatedBy(t *testing.T, app *platformv1.Application, want string) {
	t.Helper()
	testkit.WaitFor(t, env.Client, app, fmt.Sprintf("names Operation %q", want), func() error {
		if got := app.Status.ActiveOperation; got != want {
			return fmt.Errorf("it names %q", got)
		}
		return nil
	})
}

// The status of an Application names the Operation that runs, as long as it does, and none that waits for it or is a
// step of it.
func TestTheOperationThatRuns(t *testing.T) {
	namespace := env.Namespace(t)
	run(t, -1)
	node(t, namespace)
	app := tiers(t, namespace)
	operatedBy(t, app, "")
	grant(t, namespace, "able", "get", "create", "patch")
	first := operate(t, app, "first", "Open",
		func(s *platformv1.OperationSpec) { s.ServiceAccountName, s.Author = "able", author }, "replicas", "3")
	ends(t, first, platformv1.OperationAwaitingApproval)
	operatedBy(t, app, "first")
	second := operate(t, app, "second", "Open",
		func(s *platformv1.OperationSpec) { s.ServiceAccountName, s.Author = "able", author }, "replicas", "4")
	ends(t, second, platformv1.OperationPending)
	operatedBy(t, app, "first")
	cancel := []byte(`{"spec":{"cancel":true}}`)
	if err := env.Client.Patch(t.Context(), first, client.RawPatch(types.MergePatchType, cancel)); err != nil {
		t.Fatal(err)
	}
	ends(t, first, platformv1.OperationCancelled)
	ends(t, second, platformv1.OperationAwaitingApproval)
	operatedBy(t, app, "second")
	approve(t, second, "somebody")
	ends(t, second, platformv1.OperationSucceeded)
	operatedBy(t, app, "")
	testkit.WaitForReady(t, env.Client, app)
}
