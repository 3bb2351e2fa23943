// SPDX-License-Identifier: Apache-2.0

//go:build integration

package operation

import (
	"context"
	"fmt"
	"slices"
	"testing"

	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// told waits until the events of an Operation are these, each as "Type Reason: note", in the order in which they came.
func (f *fixture) told(op *platformv1.Operation, want ...string) {
	f.t.Helper()
	testkit.Eventually(f.t, "the events of "+op.Name, func(ctx context.Context) error {
		var list eventsv1.EventList
		if err := env.Client.List(ctx, &list, client.InNamespace(f.namespace)); err != nil {
			return err
		}
		slices.SortFunc(list.Items, func(a, b eventsv1.Event) int { return a.EventTime.Compare(b.EventTime.Time) })
		var got []string
		for _, e := range list.Items {
			if e.Regarding.Kind == "Operation" && e.Regarding.UID == op.UID {
				got = append(got, fmt.Sprintf("%s %s: %s", e.Type, e.Reason, e.Note))
			}
			if e.Regarding.UID == op.UID && e.Series != nil {
				f.t.Fatalf("it was told %d times: %s", e.Series.Count, e.Note)
			}
		}
		if !slices.Equal(got, want) {
			return fmt.Errorf("they are %q, want %q", got, want)
		}
		return nil
	})
}

// What becomes of an Operation is told once, in words that name template and target.
func TestEventsTellWhatBecomesOfAnOperation(t *testing.T) {
	f := newFixture(t, 1)
	f.healthy(0)
	f.controller(nil)
	restart := f.operation("restart", "Restart", nil)
	f.waitPhase(restart, platformv1.OperationSucceeded)
	f.told(restart, `Normal Started: Restart of Redis "a" started`, `Normal Succeeded: Restart of Redis "a" succeeded`)

	reload := f.operation("reload", "Reload", nil)
	f.waitPhase(reload, platformv1.OperationFailed)
	f.told(reload, `Normal Started: Reload of Redis "a" started`, `Warning Failed: Reload of Redis "a" failed: `+
		reload.Status.Error)

	refused := f.operation("refused", "Explode", nil)
	f.waitPhase(refused, platformv1.OperationFailed)
	f.told(refused, `Warning Failed: Explode of Redis "a" failed: `+refused.Status.Error)

	asks := func(op *platformv1.Operation) { op.Spec.Author = "ada" }
	ask := f.operation("ask", "Ask", asks)
	f.waitPhase(ask, platformv1.OperationAwaitingApproval)
	f.patchAs(f.person("bob"), ask, `{"spec":{"approval":{"by":"bob","decision":"Approved"}}}`)
	f.waitPhase(ask, platformv1.OperationSucceeded)
	f.told(ask, `Normal AwaitingApproval: Ask of Redis "a" waits for an approval`,
		`Normal Succeeded: Ask of Redis "a" succeeded`)

	dropped := f.operation("dropped", "Ask", asks)
	f.waitPhase(dropped, platformv1.OperationAwaitingApproval)
	f.patch(dropped, `{"spec":{"cancel":true}}`)
	f.waitPhase(dropped, platformv1.OperationCancelled)
	f.told(dropped, `Normal AwaitingApproval: Ask of Redis "a" waits for an approval`,
		`Normal Cancelled: Ask of Redis "a" was cancelled`)

	dry := f.operation("dry", "Restart", func(op *platformv1.Operation) { op.Spec.DryRun = true })
	f.waitPhase(dry, platformv1.OperationSucceeded)
	f.told(dry, `Normal Succeeded: Restart of Redis "a" succeeded`)
}
