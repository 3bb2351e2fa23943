// SPDX-License-Identifier: Apache-2.0

package cronjob

import (
	"context"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	batchv1 "github.com/zeroinfra/batch-operator/api/v1"
	"github.com/zeroinfra/batch-operator/internal/semaphore"
)

// synchronize has runs begin that hold all that they need, and releases what runs held that have ended. It returns for
// what each of the others waits, by the name of its Operation.
func (c *Controller) synchronize(
	ctx context.Context, cj *batchv1.CronJob, runs map[string]run,
) (waiting map[string]string, err error) {
	waiting = map[string]string{}
	for _, one := range cj.Status.Active {
		op := runs[one.Operation].synchronized
		switch {
		case op == nil:
		case op.Status.Phase.Ended():
			s, err := semaphore.Of(op)
			if err == nil {
				err = c.locks.Release(ctx, cj.Namespace, s, op.UID)
			}
			if err != nil {
				return nil, err
			}
		case semaphore.Waits(op):
			why, err := c.locks.Resume(ctx, op)
			if err != nil {
				return nil, err
			}
			waiting[op.Name] = why
		}
	}
	return waiting, nil
}

// tellWaiting has the status say for what runs wait.
func tellWaiting(p *plan, waiting map[string]string, now time.Time) {
	for i := range p.status.Active {
		one := &p.status.Active[i]
		one.Message = waiting[one.Operation]
		if at := now.Add(semaphore.Poll); one.Message != "" && (p.wake.IsZero() || at.Before(p.wake)) {
			p.wake = at
		}
	}
}

// waiting wakes the CronJobs with runs that may wait for what the run of an Operation held.
func (c *Controller) waiting(ctx context.Context, obj client.Object) []reconcile.Request {
	return c.wake(ctx, obj.GetNamespace(), func(cj *batchv1.CronJob) bool {
		waits := func(one batchv1.ActiveRun) bool { return cj.Spec.Synchronization != nil || one.Message != "" }
		return slices.ContainsFunc(cj.Status.Active, waits)
	})
}
