// SPDX-License-Identifier: Apache-2.0

package entity

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/zeroinfra/platform-core/agentproto/report"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/agentclient"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/frame"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

const (
	// callRetry is how soon an agent that did not answer is called again.
	callRetry = 3 * time.Second
	// callPoll is how soon to ask how a call stands.
	callPoll = time.Second
	// pendingPoll is how soon to ask how far the middleware is with what it has taken.
	pendingPoll = 10 * time.Second
	// refusedRetry is how soon what the middleware refused is tried again, since what stood in the way may be gone.
	refusedRetry = 30 * time.Second
	// mostAttempts is how many batches are counted of which some have yet to be tried again.
	mostAttempts = 1000
	// maxBatchBytes bounds the texts of one call, well below what the agent takes.
	maxBatchBytes = 1 << 20
)

func unanswered(err error) outcome.Outcome {
	return outcome.WaitingFor(callRetry, platformv1.ReasonMiddlewareNotReady, agentclient.ProblemOf(err))
}

// prepare writes down, before an object is touched, that it is the Entity's, and sees to the finalizer. It returns
// those that can be changed.
func (c *Controller) prepare(ctx context.Context, items []*item) []*item {
	tasks := make([]func() error, 0, len(items))
	for _, it := range items {
		tasks = append(tasks, func() error {
			if err := c.prepareOne(ctx, it); err != nil {
				it.end(outcome.Failed(err))
			}
			return nil
		})
	}
	_ = frame.Together(tasks...) // Each has its own outcome.
	return slices.DeleteFunc(items, func(it *item) bool { return it.outcome != nil })
}

func (c *Controller) prepareOne(ctx context.Context, it *item) error {
	if it.intent == agentclient.EntityDelete {
		return nil
	}
	if err := c.finalize(ctx, it); err != nil {
		return err
	}
	if it.before.Status.Origin == it.entity.Status.Origin {
		return nil
	}
	claimed := it.before.DeepCopy()
	claimed.Status.Origin = it.entity.Status.Origin
	// One that was refused goes on saying so until another attempt comes to something.
	if ready := conditions.Get(claimed, platformv1.ReadyCondition); ready == nil ||
		ready.Reason != platformv1.ReasonRefusedByMiddleware || ready.ObservedGeneration != claimed.Generation {
		conditions.Report(claimed, outcome.Waiting(platformv1.ReasonProgressing, conditions.BeingApplied), "")
		claimed.Status.Phase = phaseOf(claimed)
	}
	if err := c.writeStatus(ctx, it, claimed); err != nil {
		return err
	}
	// That a call takes its time is said already.
	it.entity.Status.Conditions, it.entity.Status.Phase = claimed.DeepCopy().Status.Conditions, claimed.Status.Phase
	it.claimed = true
	return nil
}

// finalize has an Entity wait for its object to be removed when it has one and that is what its policy says, and only
// then. One that was refused keeps what it has for the next attempt, and one that another object declares has it from
// its making, which saves a write: until it has an object, it is let go at once all the same.
func (c *Controller) finalize(ctx context.Context, it *item) error {
	kept := it.finalizer() && (metav1.GetControllerOf(it.entity) != nil ||
		it.outcome != nil && it.outcome.Reason() == platformv1.ReasonRefusedByMiddleware)
	wanted := it.entity.Spec.DeletionPolicy == platformv1.EntityDelete && (it.entity.Status.Origin != "" || kept)
	if it.deleting() || wanted == it.finalizer() {
		return nil
	}
	changed := it.before.DeepCopy()
	if wanted {
		controllerutil.AddFinalizer(changed, platformv1.EntityFinalizer)
	} else {
		controllerutil.RemoveFinalizer(changed, platformv1.EntityFinalizer)
	}
	return c.writeMeta(ctx, it, changed)
}

// batches are changes that go in one call each.
func batches(items []*item) [][]*item {
	var all [][]*item
	size := 0
	for _, it := range items {
		weight := len(it.entity.Spec.Name) + len(it.password)
		for name, value := range it.wanted.Parameters {
			weight += len(name) + len(value)
		}
		if last := len(all) - 1; last >= 0 && len(all[last]) < agentclient.MaxEntityChanges && size+weight <= maxBatchBytes {
			all[last], size = append(all[last], it), size+weight
			continue
		}
		all, size = append(all, []*item{it}), weight
	}
	return all
}

// change has objects changed, and returns those to read back: whose change has ended, or whose making was refused for
// good.
func (c *Controller) change(ctx context.Context, agent agentclient.Entities, g *group, items []*item) []*item {
	var ended []*item
	tried := map[string]bool{}
	for _, batch := range batches(items) {
		changes := make([]agentclient.EntityChange, 0, len(batch))
		for _, it := range batch {
			changes = append(changes, agentclient.EntityChange{EntityQuery: it.query(), Intent: it.intent,
				Parameters: it.wanted.Parameters})
		}
		base := g.key(batch)
		key := g.keyOf(base)
		tried[base] = true
		for _, it := range batch {
			it.attempt = g.attempts[base]
			g.began(it, key, c.Now())
		}
		call, err := agent.Change(agentclient.Within(ctx, g.term), key, g.entityType, changes)
		log.FromContext(ctx).Info("Changed entities", "type", g.entityType, "count", len(batch), "phase", call.Phase,
			"problems", len(call.Problems))
		o := outcome.Done()
		switch {
		case agentclient.IsRefused(err):
			o = outcome.StalledFor(refusedRetry, platformv1.ReasonRefusedByMiddleware, agentclient.ProblemOf(err))
		case err != nil:
			o = unanswered(err)
		case call.Phase == report.CallRunning:
			o = outcome.WaitingFor(callPoll, platformv1.ReasonProgressing, conditions.BeingApplied)
			g.underWay(batch)
		case call.Phase != report.CallSucceeded:
			g.attempts[base]++
			o = outcome.WaitingFor(callRetry, platformv1.ReasonRefusedByMiddleware, call.Message)
		default:
			// Should something not be settled, it is asked for anew.
			g.attempts[base]++
		}
		for _, it := range batch {
			g.ended(it, call, err, c.Now())
			if problem := call.Problems[it.entity.Spec.Name]; o.Kind() != outcome.KindDone {
				it.end(o)
			} else if problem != "" {
				it.end(outcome.StalledFor(refusedRetry, platformv1.ReasonRefusedByMiddleware, problem))
			}
			if it.outcome == nil || it.refused {
				ended = append(ended, it)
			}
		}
	}
	g.forgetAttempts(tried)
	return ended
}

// forgetAttempts drops the counts of batches that are not tried any more where there are many: as long as one Entity is
// refused, each change of others makes a batch of its own.
func (g *group) forgetAttempts(tried map[string]bool) {
	if len(g.attempts) > mostAttempts {
		maps.DeleteFunc(g.attempts, func(base string, _ int) bool { return !tried[base] })
	}
}

// keyOf is the key of the next attempt. From the second on it is of this controller alone: an earlier one may have come
// as far with the same batch, and what is asked for anew is not to be answered with what was known then.
func (g *group) keyOf(base string) string {
	if g.attempts[base] == 0 {
		return base + "/0"
	}
	return fmt.Sprintf("%s/%d/%s", base, g.attempts[base], g.self)
}

// key names what a batch does by the Entities, the generations of their specs, the versions of their passwords, since
// when they were settled, the process that it is done to and what was found there, so that a repeated call does nothing
// again, and the next one of the kind does.
func (g *group) key(batch []*item) string {
	hash := sha256.New()
	fmt.Fprintln(hash, g.instance.now)
	for _, it := range batch {
		fmt.Fprintln(hash, it.entity.UID, it.entity.Generation, it.secret, it.intent, it.entity.Status.DriftRepairs,
			g.since(it), it.there, it.found.Parameters, it.found.OtherPassword)
	}
	return "entities/" + g.entityType + "/" + hex.EncodeToString(hash.Sum(nil)[:16])
}

// since is what an Entity was settled at before its change, and the drift that the change repairs; empty for one that
// was not settled. An object may be gone a second time though nothing was written in between: first forgotten by the
// process, then removed by somebody.
func (g *group) since(it *item) string {
	if since, ok := g.running[it.entity.UID]; ok {
		return since
	}
	if !it.settled() {
		return ""
	}
	return conditions.Get(it.before, platformv1.ReadyCondition).LastTransitionTime.UTC().Format(time.RFC3339) + it.drift
}

// underWay keeps the key of a batch as it is while it is asked how its call stands, though the Entities are not settled
// meanwhile.
func (g *group) underWay(batch []*item) {
	for _, it := range batch {
		it.since = new(g.since(it))
	}
}

// readBack says what became of the changes.
func (c *Controller) readBack(ctx context.Context, agent agentclient.Entities, g *group, items []*item) {
	states, err := observeAll(ctx, agent, g.entityType, items)
	for _, it := range items {
		state, there := states.Objects[it.entity.Spec.Name]
		switch {
		case it.refused && err == nil:
			g.disclaim(it, there)
			continue
		case it.refused:
			continue
		case err != nil:
			it.end(unanswered(err))
			continue
		}
		if problem := it.readBackProblem(state, there); problem != "" {
			it.end(outcome.StalledFor(refusedRetry, platformv1.ReasonRefusedByMiddleware, problem))
			continue
		}
		switch {
		case it.intent == agentclient.EntityDelete:
			it.release = true
			continue
		case it.unchanged(state):
			it.end(outcome.WaitingFor(callPoll, platformv1.ReasonProgressing, "the middleware did not apply the change, "+
				"which is sent again"))
			continue
		}
		if it.drift != "" {
			it.entity.Status.DriftRepairs++
			repairs.WithLabelValues(g.entityType).Inc()
			c.events.Warning(it.entity, eventRepaired, "The %s %q was put right: %s", g.entityType, it.entity.Spec.Name,
				it.drift)
		}
		it.observed(state)
	}
}

// writeMeta writes the metadata of an Entity, unless somebody has written it since.
func (c *Controller) writeMeta(ctx context.Context, it *item, changed *platformv1.Entity) error {
	if err := c.client.Patch(ctx, changed, client.MergeFromWithOptions(it.before, client.MergeFromWithOptimisticLock{}),
		client.FieldOwner(owner)); err != nil {
		return err
	}
	it.wrote(changed)
	return nil
}

// writeStatus writes the status of an Entity, unless nothing is new or somebody has written it since.
func (c *Controller) writeStatus(ctx context.Context, it *item, changed *platformv1.Entity) error {
	if equality.Semantic.DeepEqual(it.before.Status, changed.Status) {
		return nil
	}
	if err := c.client.Status().Patch(ctx, changed,
		client.MergeFromWithOptions(it.before, client.MergeFromWithOptimisticLock{}), client.FieldOwner(owner)); err != nil {
		return err
	}
	it.wrote(changed)
	return nil
}

// wrote takes over what the API server made of a write; the status that is being filled in stays.
func (it *item) wrote(changed *platformv1.Entity) {
	it.before, it.mine = changed.DeepCopy(), true
	status := it.entity.Status
	it.entity = changed.DeepCopy()
	it.entity.Status = status
}

// overtaken says whether an error is of a write that came too late.
func overtaken(err error) bool { return apierrors.IsConflict(err) || apierrors.IsNotFound(err) }
