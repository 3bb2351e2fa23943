// SPDX-License-Identifier: Apache-2.0

package workloadset

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentreport "github.com/zeroinfra/platform-core/agentproto/report"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/failover"
	"github.com/zeroinfra/platform-core/internal/plugin/reportexpr"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
	"github.com/zeroinfra/platform-core/internal/podstart"
	"github.com/zeroinfra/platform-core/internal/render"
	"github.com/zeroinfra/platform-core/internal/rollout"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// decisions bounds how often one reconcile plans again with the outcome of its calls and writes.
const decisions = 24

// reconcilePrimary decides on the primary, where the engine is the authority, and executes the steps until there is
// nothing to do now.
func (c *Controller) reconcilePrimary(ctx context.Context, set *platformv1.WorkloadSet,
	f *facts) (outcome.Outcome, error) {
	if set.Spec.Failover == nil || f.rollout.Mode != rollout.Running || awaitsData(set, f) || takesOver(set, f) {
		if f.rollout.Mode == rollout.Suspended {
			if err := c.reopen(ctx, f, &c.primaries.of(set, c.Now()).memory); err != nil {
				return outcome.Done(), err
			}
		}
		// The in-memory state is of pods that will be gone when the set runs again.
		c.primaries.forget(client.ObjectKeyFromObject(set))
		return outcome.Done(), nil
	}
	primary := &primaryReconcile{Controller: c, set: set, facts: f, known: c.primaries.of(set, c.Now())}
	if primary.known.behind(f.primary) {
		if err := primary.read(ctx); err != nil {
			return outcome.Done(), err
		}
	}
	var decision failover.Decision
	for range decisions {
		c.observeCandidates(set, f)
		seen := primary.observe()
		if err := primary.observeDoors(ctx, &seen); err != nil {
			return outcome.Done(), err
		}
		decision = failover.Plan(seen, &primary.known.memory)
		if len(decision.Steps) == 0 {
			break
		}
		if err := primary.take(ctx, decision.Steps); err != nil {
			return outcome.Done(), err
		}
	}
	f.labelRemoved = primary.known.memory.PrimaryLabelRemoved()
	f.rollout.Unlabelled, _ = primary.known.memory.UnlabelledCandidate(c.primaries.since(c.Now()))
	c.observeCandidates(set, f)
	primary.noteOrder(decision)
	if err := primary.finishOrder(ctx, decision); err != nil {
		return outcome.Done(), err
	}
	return primary.settle(decision), nil
}

// reopen restores the labels that were removed for a change of the primary that was abandoned: those of the primary and
// of the candidate.
func (c *Controller) reopen(ctx context.Context, f *facts, m *failover.Memory) error {
	unlabelled, _ := m.UnlabelledCandidate(c.primaries.since(c.Now()))
	for _, p := range f.rollout.Pods {
		writes := f.rollout.IsPrimaryRole(p.Report.Role)
		waits := m.PrimaryLabelRemoved() && p.Name == primaryOf(f.primary) && writes || p.Name == unlabelled && !writes &&
			f.rollout.Declares(p.Report.Role)
		if !waits || p.Role != "" || p.Report.Health != agentreport.Healthy {
			continue
		}
		if err := c.setRole(ctx, f.pods[p.Name], p.Report.Role); err != nil {
			return err
		}
	}
	return nil
}

// primaryReconcile is one reconcile of the primary of a set.
type primaryReconcile struct {
	*Controller
	*facts
	set *platformv1.WorkloadSet
	// known is the in-memory state of the set.
	known *primaryState
	// version of the set, the precondition of a write of the record.
	version string
}

// settle returns the outcome for the primary.
func (t *primaryReconcile) settle(d failover.Decision) outcome.Outcome {
	if d.State == failover.Changing || t.labelRemoved {
		t.rollout.Busy = "the primary changes"
	}
	now := t.primaries.since(t.Now())
	switch {
	case len(d.Steps) > 0:
		t.primaryWake = time.Millisecond
	case d.Wake != 0:
		t.primaryWake = max(d.Wake-now, time.Millisecond)
	}
	if _, rest := t.known.memory.UnlabelledCandidate(now); rest > 0 && (t.primaryWake == 0 || rest < t.primaryWake) {
		t.primaryWake = rest
	}
	if d.Message == "" {
		return outcome.Done()
	}
	return outcome.Waiting(platformv1.ReasonFailoverPending, d.Message)
}

// primaryOf returns the name of the primary; empty if none is named.
func primaryOf(w *platformv1.PrimaryRecord) string {
	if w == nil || w.Member == nil {
		return ""
	}
	return w.Member.Name
}

// labelPatience is how long other label changes wait for the label of a newly named primary.
const labelPatience = 5 * time.Second

// observeCandidates tells the rollout which pod may have the primary label, and which pods can take over.
func (c *Controller) observeCandidates(set *platformv1.WorkloadSet, f *facts) {
	defer func() {
		if set.Spec.IsClosed() || f.labelRemoved {
			f.rollout.Named = new("")
		}
	}()
	if set.Spec.Failover == nil {
		f.observeElection(set)
		return
	}
	f.rollout.Named, f.rollout.Switchover = new(primaryOf(f.primary)), rollout.BySwitchover
	if f.rollout.Founding = recordOf(f.primary).Founding(); f.rollout.Founding &&
		slices.ContainsFunc(f.rollout.Pods, f.writesUnasked) {
		// It stays the primary for clients until a record names one.
		f.rollout.Named = nil
	}
	if w := f.primary; w != nil && w.Since != nil {
		if left := w.Since.Add(labelPatience).Sub(f.now); left > 0 {
			f.rollout.Promoting = true
			f.wakeAfter(left)
		}
	}
	record := recordOf(f.primary)
	for i := range f.rollout.Pods {
		p := &f.rollout.Pods[i]
		p.Candidacy = rollout.Unfit
		if m := p.Report.Member; m != nil && p.Name != primaryOf(f.primary) &&
			record.Eligible(*memberOf(&platformv1.SetMember{Name: p.Name, Identity: m.Identity})) {
			p.Candidacy = rollout.CanTakeOver
		}
	}
}

// writesUnasked says whether a pod has been the primary since before the engine became the authority.
func (f *facts) writesUnasked(p rollout.Pod) bool {
	return f.rollout.IsPrimaryRole(p.Role) && p.Report.Member == nil
}

// observe returns the facts for the planner.
func (t *primaryReconcile) observe() failover.Facts {
	declared := t.set.Spec.Failover
	f := failover.Facts{
		Now: t.primaries.since(t.Now()), Record: recordOf(t.primary), Mode: failover.Mode(declared.Mode), Order: t.ordered(),
		Measures: failover.FromReports, After: time.Duration(schema.DefaultFailoverSeconds) * time.Second,
	}
	if t.primary != nil {
		f.Former = memberOf(t.primary.Former)
		if t.primary.Since != nil {
			f.NamedFor = t.Now().Sub(t.primary.Since.Time)
		}
	}
	if declared.After != nil {
		f.After = declared.After.Duration
	}
	if declared.MaxLag != nil {
		f.MaxLag = new(declared.MaxLag.Value())
	}
	f.SynchronousReplicas = failover.SynchronousReplicas{Wanted: int(declared.SynchronousReplicas),
		Shortage: failover.Wait}
	if declared.Shortage == platformv1.ShortageContinue {
		f.SynchronousReplicas.Shortage = failover.Continue
	}
	if declared.Measure != "" {
		f.Measures = failover.ByAction
	}
	if declared.Handover != "" {
		f.Handover = failover.Declared
	}
	for _, ordinal := range t.rollout.Ordinals() {
		f.Wanted = append(f.Wanted, platformv1.PodNameFor(t.set.Name, ordinal))
	}
	for _, p := range t.rollout.Pods {
		f.Pods = append(f.Pods, t.podOf(p))
	}
	return f
}

// podOf returns the facts of a pod for the planner.
func (t *primaryReconcile) podOf(p rollout.Pod) failover.Pod {
	pod := failover.Pod{Name: p.Name, Presence: failover.Alive, Health: p.Report.Health,
		FailedFor:       time.Duration(min(p.Report.FailedForMs, time.Hour.Milliseconds())) * time.Millisecond,
		SuspectsPrimary: p.Report.WriterUnreachable, HasPrimaryLabel: t.rollout.IsPrimaryRole(p.Role),
		HasRoleLabel: p.Role != ""}
	pod.OutOfConnections = p.Report.OutOfConnections != ""
	switch {
	case p.Node == rollout.Unreachable:
		pod.Presence = failover.Unreachable
	case p.Life != rollout.Alive:
		pod.Presence = failover.Leaving
	}
	pod.WithoutVolume = t.blank(p.Name)
	if m := p.Report.Member; m != nil {
		pod.Member = failover.MemberState{Identity: m.Identity, Promised: m.Promised, Term: m.Term,
			ListVersion: m.ListVersion,
			Writing:     m.Writing, Primary: m.Primary}
	}
	if p.Report.Health == agentreport.Healthy && !t.rollout.IsPrimaryRole(p.Report.Role) {
		pod.NotWritingReason = p.Report.Message
	}
	declared := t.set.Spec.Failover
	pod.History = p.Report.Attributes[declared.HistoryAttribute]
	if !t.rollout.IsPrimaryRole(p.Report.Role) && p.Report.Health == agentreport.Healthy {
		inSync := true
		if declared.InSync != "" {
			var err error
			if inSync, err = reportexpr.Truth(declared.InSync, p.Report.Role, p.Report.Attributes); err != nil {
				inSync = false
			}
		}
		if inSync {
			pod.Sync = failover.InSync
		}
	}
	if declared.Measure == "" {
		pod.Measurement = t.measurement(p, p.Report.Attributes)
	}
	return pod
}

// blank says whether a pod is unschedulable and its volumes are not provisioned.
func (f *facts) blank(name string) bool {
	pod := f.pods[name]
	if podstart.Unschedulable(pod) == nil || pod.Spec.NodeName != "" {
		return false
	}
	for _, v := range pod.Spec.Volumes {
		if v.PersistentVolumeClaim == nil || render.Foreign(&v) {
			continue
		}
		if claim := f.claims[v.PersistentVolumeClaim.ClaimName]; claim == nil || claim.Spec.VolumeName != "" ||
			claim.Status.Phase != corev1.ClaimPending {
			return false
		}
	}
	return true
}

// measurement returns the measurement in the attributes of a candidate.
func (t *primaryReconcile) measurement(p rollout.Pod, attributes map[string]string) failover.Measurement {
	declared := t.set.Spec.Failover
	order, err := reportexpr.Number(declared.Order, p.Report.Role, attributes)
	if err != nil {
		return failover.Measurement{Problem: err.Error()}
	}
	m := failover.Measurement{Order: order, History: attributes[declared.HistoryAttribute],
		Earlier: attributes[declared.EarlierAttribute]}
	var problem string
	if text, found := attributes[declared.LagAttribute]; found && declared.LagAttribute != "" {
		if m.Lag, problem = wholeNumber(declared.LagAttribute, text, "bytes"); problem != "" {
			return failover.Measurement{Problem: problem}
		}
	}
	if text := strings.TrimSpace(attributes[declared.LastContactAttribute]); text != "" {
		if m.LastContact, problem = wholeNumber(declared.LastContactAttribute, text, "seconds"); problem != "" {
			return failover.Measurement{Problem: problem}
		}
	}
	return m
}

// wholeNumber parses an attribute, or returns what is wrong with it.
func wholeNumber(attribute, text, unit string) (number *int64, problem string) {
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil {
		return nil, fmt.Sprintf("attribute %q is %q, which is no number of %s", attribute, text, unit)
	}
	return &n, ""
}
