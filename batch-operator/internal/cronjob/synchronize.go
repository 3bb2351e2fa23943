// SPDX-License-Identifier: Apache-2.0

package cronjob

import (
	"context"
	"maps"
	"slices"

	batchv1 "github.com/zeroinfra/batch-operator/api/v1"
	"github.com/zeroinfra/batch-operator/internal/semaphore"
)

// synchronize has runs begin that hold all that they need, and releases what runs held that have ended. It returns for
// what each of the others waits, by the name of its Operation.
func (c *Controller) synchronize(
	ctx context.Context, cj *batchv1.CronJob, runs map[string]run,
) (waiting map[string]string, err error) {
	for _, one := range cj.Status.Active {
		op := runs[one.Operation].synchronized
		if op == nil || !op.Status.Phase.Ended() {
			continue
		}
		s, err := semaphore.Of(op)
		if err == nil {
			err = c.locks.Release(ctx, cj.Namespace, s, op.UID)
		}
		if err != nil {
			return nil, err
		}
	}
	waiting = map[string]string{}
	// One that was created before the operator was killed may not be in the status yet.
	for _, name := range slices.Sorted(maps.Keys(runs)) {
		op := runs[name].synchronized
		if op == nil || !semaphore.Waits(op) {
			continue
		}
		why, err := c.locks.Resume(ctx, op)
		if err != nil {
			return nil, err
		}
		if why != "" {
			waiting[name] = why
		}
	}
	return waiting, nil
}
