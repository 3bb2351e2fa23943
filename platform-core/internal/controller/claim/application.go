// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/conditions"
)

// reconcileApplication claims an Application, or says why nobody does.
func (c *Controller) reconcileApplication(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	app := &platformv1.Application{}
	if is, err := c.unclaimedObject(ctx, request.NamespacedName, "Application", app); err != nil || !is {
		return reconcile.Result{}, err
	}
	var published platformv1.PluginList
	if err := c.client.List(ctx, &published); err != nil {
		return reconcile.Result{}, fmt.Errorf("cannot list plugins: %w", err)
	}
	switch v := judge(app, c.Domain, c.Index, published.Items, c.age(app)); v.action {
	case actClaim:
		return reconcile.Result{}, overtaken(c.claim(ctx, app, nil))
	case actReport:
		return c.report(ctx, app, v)
	default:
		return reconcile.Result{RequeueAfter: v.after}, nil
	}
}

// report writes why nobody claims an Application; nothing when it says so already.
func (c *Controller) report(ctx context.Context, app *platformv1.Application, v verdict) (reconcile.Result, error) {
	if said(app, v) {
		return reconcile.Result{}, nil
	}
	before := app.DeepCopy()
	conditions.Set(app, metav1.Condition{Type: platformv1.AcceptedCondition, Status: metav1.ConditionFalse,
		Reason: v.problem.Reason(), Message: v.problem.Message()})
	conditions.Report(app, v.problem, "")
	app.Status.Phase = platformv1.PhaseStalled
	return c.writeStatus(ctx, before, app)
}
