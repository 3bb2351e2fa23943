// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/opsflow"
	"github.com/zeroinfra/platform-core/internal/plugin/optemplate"
	"github.com/zeroinfra/platform-core/internal/records"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// startRetry is when an Operation looks again while another worker starts one of the same Application.
const startRetry = 100 * time.Millisecond

// start begins an Operation when it is its turn, else leaves it pending.
func (c *Controller) start(ctx context.Context, op *platformv1.Operation, seen *observation) (reconcile.Result, error) {
	if err := c.label(ctx, op, seen.application); err != nil {
		return reconcile.Result{}, ignoreOvertaken(err)
	}
	if op.Spec.DryRun {
		return c.dryRun(ctx, op, seen)
	}
	if opsflow.Edits(seen.facts.Template) && !takenUp(seen.facts.Application) {
		// What somebody else edited is to have a record of its own.
		return reconcile.Result{RequeueAfter: startRetry}, nil
	}
	first, err := c.ahead(ctx, op, seen)
	if err != nil {
		return reconcile.Result{}, err
	}
	if first != nil {
		return c.carryOut(ctx, op, seen, c.behind(op, first, seen.application))
	}
	earlier, refusal, err := c.earlier(ctx, op, seen)
	if refusal == nil && err == nil {
		// Not before its turn: until then another one may have pods start, or have them away.
		refusal = opsflow.Preconditions(seen.facts)
	}
	switch {
	case err != nil:
		return reconcile.Result{}, err
	case refusal != nil:
		return c.carryOut(ctx, op, seen, opsflow.Fail(op, refusal, c.Now()))
	}
	key := types.NamespacedName{Namespace: op.Namespace, Name: seen.application}
	release, acquired := c.starting.TryAcquire(key)
	if !acquired {
		return reconcile.Result{RequeueAfter: startRetry}, nil
	}
	d, err := c.startOrWait(ctx, op, seen, earlier)
	release()
	if err != nil {
		return reconcile.Result{}, ignoreOvertaken(err)
	}
	return c.carryOut(ctx, op, seen, d)
}

// takenUp says whether nobody edited an Application that is there for some time without its controller having seen
// that.
func takenUp(app *platformv1.Application) bool {
	return app.Status.ObservedGeneration <= 0 || app.Status.ObservedGeneration >= app.Generation
}

// startOrWait decides on what is there for sure, and records the decision.
func (c *Controller) startOrWait(ctx context.Context, op *platformv1.Operation, seen *observation,
	earlier *platformv1.Operation) (opsflow.Decision, error) {
	first, err := c.aheadLive(ctx, op, seen)
	if err != nil {
		return opsflow.Decision{}, err
	}
	d := opsflow.Start(op, seen.application, seen.facts, earlier)
	if first != nil {
		d = c.behind(op, first, seen.application)
	}
	err = c.record(ctx, op, d)
	d.Status = op.Status
	key := types.NamespacedName{Namespace: op.Namespace, Name: seen.application}
	switch {
	case first != nil || opsflow.ParentOf(op) != "" || opsflow.Records(op) || opsflow.Apart(seen.facts.Template):
		// What a step runs is covered by the Operation that it is a step of, and records and drills keep nobody from running
		// beside them.
	case err != nil:
		// It may have been written all the same: the next one asks for all of the Application.
		c.started.forget(key)
	default:
		c.started.set(key, op.Name)
	}
	return d, err
}

// dryRun says what an Operation would do. It waits for nobody, as it touches nothing.
func (c *Controller) dryRun(ctx context.Context, op *platformv1.Operation,
	seen *observation) (reconcile.Result, error) {
	if refusal := opsflow.Preconditions(seen.facts); refusal != nil {
		return c.carryOut(ctx, op, seen, opsflow.Fail(op, refusal, c.Now()))
	}
	say := c.forecast
	switch {
	case opsflow.MakesOrRemoves(op.Spec.TemplateRef):
		say = c.rehearse
	case seen.isNew():
		say = c.introduce
	}
	forecast, refusal, err := say(ctx, op, seen)
	switch {
	case err != nil:
		return reconcile.Result{}, err
	case refusal != nil:
		return c.carryOut(ctx, op, seen, opsflow.Fail(op, refusal, c.Now()))
	}
	seen.facts.Forecast = forecast
	return c.carryOut(ctx, op, seen, opsflow.Start(op, seen.application, seen.facts, nil))
}

// earlier reads the Operation that this one tries again; nil for none.
func (c *Controller) earlier(ctx context.Context, op *platformv1.Operation, seen *observation) (*platformv1.Operation,
	*opsflow.Refusal, error) {
	if op.Spec.RetryOf == "" {
		return nil, nil, nil
	}
	earlier := &platformv1.Operation{}
	// The cache leaves out of those that ended what became of their steps.
	err := c.live.Get(ctx, types.NamespacedName{Namespace: op.Namespace, Name: op.Spec.RetryOf}, earlier)
	if apierrors.IsNotFound(err) {
		return nil, &opsflow.Refusal{Reason: platformv1.ReasonInvalidSpec,
			Message: fmt.Sprintf("retryOf names Operation %q, which does not exist: create the Operation without retryOf",
				op.Spec.RetryOf)}, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("cannot read Operation %q, which %q tries again: %w", op.Spec.RetryOf, op.Name, err)
	}
	if !earlier.DeletionTimestamp.IsZero() {
		return nil, &opsflow.Refusal{Reason: platformv1.ReasonInvalidSpec,
			Message: fmt.Sprintf("retryOf names Operation %q, which is being deleted", op.Spec.RetryOf)}, nil
	}
	return earlier, opsflow.Retryable(op, earlier, seen.facts), nil
}

func (c *Controller) behind(op, first *platformv1.Operation, application string) opsflow.Decision {
	return opsflow.Wait(op, application, outcome.Waiting(opsflow.ReasonQueued, opsflow.Behind(first, application)),
		c.Now())
}

// ahead returns the Operation of the same Application that has to end first, as the cache knows them; nil when there is
// none.
func (c *Controller) ahead(ctx context.Context, op *platformv1.Operation,
	seen *observation) (*platformv1.Operation, error) {
	others, err := c.unfinishedBeside(ctx, op, seen.application)
	return c.queueOf(others, seen).Ahead(op), err
}

// queueOf is the queue of an Application, whose plugin says which templates pre-empt others.
func (c *Controller) queueOf(operations []*platformv1.Operation, seen *observation) opsflow.Queue {
	of := func(op *platformv1.Operation, is func(optemplate.Template) bool) bool {
		template, refusal := opsflow.FindTemplate(op.Spec, seen.bundle)
		return refusal == nil && is(template)
	}
	return opsflow.Queue{
		Operations: operations,
		Urgent: func(op *platformv1.Operation) bool {
			return of(op, func(t optemplate.Template) bool { return opsflow.Urgent(op, t) })
		},
		Apart: func(op *platformv1.Operation) bool { return of(op, opsflow.Apart) },
	}
}

// preempted says in words for what a run has to end; empty for nothing.
func (c *Controller) preempted(ctx context.Context, op *platformv1.Operation, seen *observation) (string, error) {
	if app := seen.facts.Application; !app.DeletionTimestamp.IsZero() {
		return fmt.Sprintf("the deletion of Application %q", app.Name), nil
	}
	others, err := c.unfinishedBeside(ctx, op, seen.application)
	if by := c.queueOf(others, seen).Preempts(op); by != nil {
		return fmt.Sprintf("Operation %q", by.Name), err
	}
	return "", err
}

func (c *Controller) unfinishedBeside(ctx context.Context, op *platformv1.Operation, application string) (
	[]*platformv1.Operation, error) {
	// Of some it has yet to be found out whose they are.
	all, err := records.Unfinished(ctx, c.client, op.Namespace, "")
	if err != nil {
		return nil, fmt.Errorf("cannot tell what there is beside Operation %q: %w", op.Name, err)
	}
	return slices.DeleteFunc(all, func(other *platformv1.Operation) bool {
		return c.applicationOf(ctx, other) != application
	}), nil
}

// aheadLive is ahead by live reads: the cache may not yet know of an Operation that was started a moment ago. Only
// this process starts any, so that it asks for the one that it started last; and for all of the Application as long as
// it has started none, since another process may have.
func (c *Controller) aheadLive(ctx context.Context, op *platformv1.Operation,
	seen *observation) (*platformv1.Operation, error) {
	application := seen.application
	others, err := c.unfinishedBeside(ctx, op, application)
	if err != nil {
		return nil, err
	}
	var live []*platformv1.Operation
	last, known := c.started.last(types.NamespacedName{Namespace: op.Namespace, Name: application})
	// Which drill was started last is not remembered.
	known = known && !opsflow.Apart(seen.facts.Template)
	switch {
	case known && last != op.Name:
		live = []*platformv1.Operation{{}}
		err = client.IgnoreNotFound(c.live.Get(ctx, types.NamespacedName{Namespace: op.Namespace, Name: last}, live[0]))
	case !known:
		live, err = records.Present(ctx, c.live, c.client, client.InNamespace(op.Namespace), client.MatchingLabels{
			platformv1.DomainLabel: c.Domain, platformv1.ApplicationLabel: application})
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the Operations beside %q: %w", op.Name, err)
	}
	for _, fresh := range live {
		others = slices.DeleteFunc(others, func(o *platformv1.Operation) bool { return o.UID == fresh.UID })
		if fresh.UID != "" {
			others = append(others, fresh)
		}
	}
	return c.queueOf(others, seen).Ahead(op), nil
}

// label says on the Operation whose it is, so that those of an Application can be found.
func (c *Controller) label(ctx context.Context, op *platformv1.Operation, application string) error {
	if op.Labels[platformv1.ApplicationLabel] == application {
		return nil
	}
	labelled := op.DeepCopy()
	labelled.Labels[platformv1.ApplicationLabel] = application
	if err := c.client.Patch(ctx, labelled, client.MergeFrom(op), client.FieldOwner(owner)); err != nil {
		return fmt.Errorf("cannot label Operation %q: %w", client.ObjectKeyFromObject(op), err)
	}
	c.written.set(labelled)
	*op = *labelled
	return nil
}

// applicationOf returns the Application that an Operation acts on; empty while that is not known.
func (c *Controller) applicationOf(ctx context.Context, op *platformv1.Operation) string {
	if op.Status.Application != "" {
		return op.Status.Application
	}
	target, refusal := opsflow.ParseTarget(op.Spec.TargetRef)
	if refusal != nil {
		return ""
	}
	application, _, err := c.resolve(ctx, op.Namespace, target)
	if err != nil {
		// Its own turn says what is wrong with it.
		return ""
	}
	return application
}

// started remembers which Operation was started last, by Application. The zero value is ready.
type started struct {
	mu   sync.Mutex
	name map[types.NamespacedName]string
}

func (s *started) set(application types.NamespacedName, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.name == nil {
		s.name = map[types.NamespacedName]string{}
	}
	s.name[application] = name
}

func (s *started) forget(application types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.name, application)
}

func (s *started) last(application types.NamespacedName) (string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name, known := s.name[application]
	return name, known
}

// versions remember what was written last, so that a cache that lags is not acted
// on. The zero value is ready.
type versions struct {
	mu   sync.Mutex
	last map[types.NamespacedName]string
}

func (v *versions) set(op *platformv1.Operation) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.last == nil {
		v.last = map[types.NamespacedName]string{}
	}
	v.last[client.ObjectKeyFromObject(op)] = op.ResourceVersion
}

func (v *versions) forget(key types.NamespacedName) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.last, key)
}

// newerThan says whether we have written the Operation later than what the cache shows.
func (v *versions) newerThan(op *platformv1.Operation) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	key := client.ObjectKeyFromObject(op)
	written, is := v.last[key]
	if !is {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(op.ResourceVersion, written)
	if err == nil && order < 0 {
		return true
	}
	delete(v.last, key)
	return false
}
