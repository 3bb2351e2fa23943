// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/opsflow"
	"github.com/zeroinfra/platform-core/internal/records"
	"github.com/zeroinfra/platform-core/internal/scheduling"
)

// Reasons of events.
const (
	eventScheduled = "Scheduled"
	eventPassed    = "TimePassedOver"
)

// lister returns Operations; they are shared, and not to be changed.
type lister func(ctx context.Context, options ...client.ListOption) ([]*platformv1.Operation, error)

// known are those that the cache has.
func (c *Controller) known(ctx context.Context, options ...client.ListOption) ([]*platformv1.Operation, error) {
	var list platformv1.OperationList
	err := c.client.List(ctx, &list, append(options, client.UnsafeDisableDeepCopy)...)
	found := make([]*platformv1.Operation, 0, len(list.Items))
	for i := range list.Items {
		found = append(found, &list.Items[i])
	}
	return found, err
}

// present are those that there are now.
func (c *Controller) present(ctx context.Context, options ...client.ListOption) ([]*platformv1.Operation, error) {
	return records.Present(ctx, c.live, c.client, options...)
}

// observe returns the Operations that the schedules of an Application made.
func observe(ctx context.Context, list lister, app *platformv1.Application) ([]scheduling.Made, error) {
	operations, err := list(ctx, client.InNamespace(app.Namespace),
		client.MatchingLabels{platformv1.ApplicationLabel: app.Name},
		client.HasLabels{platformv1.ScheduleLabel})
	if err != nil {
		return nil, fmt.Errorf("cannot list the scheduled Operations of Application %q: %w", client.ObjectKeyFromObject(app),
			err)
	}
	var made []scheduling.Made
	for _, op := range operations {
		if !metav1.IsControlledBy(op, app) {
			continue
		}
		phase := scheduling.Unfinished
		if opsflow.Finished(op) || !op.DeletionTimestamp.IsZero() {
			phase = scheduling.Finished
		}
		made = append(made, scheduling.Made{Name: op.Name, Schedule: op.Labels[platformv1.ScheduleLabel], Phase: phase})
	}
	return made, nil
}

// carryOut makes the Operations of a plan and then remembers that they are made. One that cannot be made holds up those
// of no other schedule; its time is not settled.
func (c *Controller) carryOut(ctx context.Context, app *platformv1.Application, plan scheduling.Plan) error {
	var failures []error
	former := scheduling.RecordsOf(app)
	for _, run := range plan.Runs {
		switch taken, err := c.create(ctx, app, run); {
		case err != nil:
			failures = append(failures, err)
			delete(plan.Passed, run.Schedule.Name)
			delete(plan.Records, run.Schedule.Name)
			if record, known := former[run.Schedule.Name]; known {
				plan.Records[run.Schedule.Name] = record
			}
		case taken:
			plan.Passed[run.Schedule.Name] = fmt.Sprintf("an Operation %q is there that is not of this Application: delete it",
				run.Name)
		default:
			c.events.Normal(app, eventScheduled, "schedule %q made Operation %q", run.Schedule.Name, run.Name)
		}
	}
	if plan.Records.String() == app.Annotations[platformv1.SchedulesAnnotation] {
		return errors.Join(failures...)
	}
	after := app.DeepCopy()
	delete(after.Annotations, platformv1.SchedulesAnnotation)
	if text := plan.Records.String(); text != "" {
		metav1.SetMetaDataAnnotation(&after.ObjectMeta, platformv1.SchedulesAnnotation, text)
	}
	bound := client.MergeFromWithOptions(app, client.MergeFromWithOptimisticLock{})
	if err := c.client.Patch(ctx, after, bound); err != nil {
		return errors.Join(append(failures,
			fmt.Errorf("cannot record the schedules of Application %q: %w", client.ObjectKeyFromObject(app), err))...)
	}
	for name, why := range plan.Passed {
		c.events.Warning(app, eventPassed, "schedule %q: %s", name, why)
	}
	return errors.Join(failures...)
}

// create makes an Operation, unless it is there. It returns whether the name is taken by one that is not ours.
func (c *Controller) create(ctx context.Context, app *platformv1.Application, run scheduling.Run) (taken bool,
	err error) {
	op := scheduling.Operation(app, run)
	if err := controllerutil.SetControllerReference(app, op, c.client.Scheme()); err != nil {
		return false, err
	}
	if err = c.client.Create(ctx, op); err == nil {
		return false, nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return false, fmt.Errorf("cannot create Operation %q of schedule %q: %w", run.Name, run.Schedule.Name, err)
	}
	there := &platformv1.Operation{}
	if err := c.live.Get(ctx, client.ObjectKeyFromObject(op), there); err != nil {
		return false, fmt.Errorf("cannot read Operation %q: %w", run.Name, err)
	}
	return !metav1.IsControlledBy(there, app), nil
}
