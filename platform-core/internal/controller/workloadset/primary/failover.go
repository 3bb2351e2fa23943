// SPDX-License-Identifier: Apache-2.0

package primary

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
	"github.com/zeroinfra/platform-core/internal/controller/workloadset/facts"
	"github.com/zeroinfra/platform-core/internal/controller/workloadset/record"
	"github.com/zeroinfra/platform-core/internal/failover"
	"github.com/zeroinfra/platform-core/internal/plugin/reportexpr"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
	"github.com/zeroinfra/platform-core/internal/podstart"
	"github.com/zeroinfra/platform-core/internal/render"
	"github.com/zeroinfra/platform-core/internal/rollout"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// Data says whether the data of a set has yet to come.
type Data string

// Values of Data; the zero value is a set whose data is there.
const (
	DataThere Data = ""
	// DataFirst: no pod is made before the data is there.
	DataFirst Data = "First"
)

// decisions bounds how often one reconcile plans again with the outcome of its calls and writes.
const decisions = 24

// Reconcile decides on the primary, where the engine is the authority, and executes the steps until there is nothing to
// do now. Nothing is decided while the data of the set has yet to come.
func (r *Reconciler) Reconcile(ctx context.Context, set *platformv1.WorkloadSet, f *Verdict,
	data Data) (outcome.Outcome, error) {
	if set.Spec.Failover == nil || f.Rollout.Mode != rollout.Running || data == DataFirst {
		if f.Rollout.Mode == rollout.Suspended {
			if err := r.reopen(ctx, f, &r.states.of(set, r.Now()).memory); err != nil {
				return outcome.Done(), err
			}
		}
		// The in-memory state is of pods that will be gone when the set runs again.
		r.states.forget(client.ObjectKeyFromObject(set))
		return outcome.Done(), nil
	}
	primary := &reconcile{Reconciler: r, set: set, Verdict: f, known: r.states.of(set, r.Now())}
	if primary.known.behind(f.Primary) {
		if err := primary.read(ctx); err != nil {
			return outcome.Done(), err
		}
	}
	var decision failover.Decision
	for range decisions {
		r.observeCandidates(set, f)
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
	f.LabelRemoved = primary.known.memory.PrimaryLabelRemoved()
	f.Rollout.Unlabelled, _ = primary.known.memory.UnlabelledCandidate(r.states.since(r.Now()))
	r.observeCandidates(set, f)
	primary.noteOrder(decision)
	if err := primary.finishOrder(ctx, decision); err != nil {
		return outcome.Done(), err
	}
	return primary.settle(decision), nil
}

// reopen restores the labels that were removed for a change of the primary that was abandoned: those of the primary and
// of the candidate.
func (r *Reconciler) reopen(ctx context.Context, f *Verdict, m *failover.Memory) error {
	unlabelled, _ := m.UnlabelledCandidate(r.states.since(r.Now()))
	for _, p := range f.Rollout.Pods {
		writes := f.Rollout.IsPrimaryRole(p.Report.Role)
		waits := m.PrimaryLabelRemoved() && p.Name == facts.PrimaryOf(f.Primary) && writes ||
			p.Name == unlabelled && !writes && f.Rollout.Declares(p.Report.Role)
		if !waits || p.Role != "" || p.Report.Health != agentreport.Healthy {
			continue
		}
		if err := r.Roles.SetRole(ctx, f.Pods[p.Name], p.Report.Role); err != nil {
			return err
		}
	}
	return nil
}

// reconcile is one reconcile of the primary of a set.
type reconcile struct {
	*Reconciler
	*Verdict
	set *platformv1.WorkloadSet
	// known is the in-memory state of the set.
	known *primaryState
	// version of the set, the precondition of a write of the record.
	version string
}

// settle returns the outcome for the primary.
func (t *reconcile) settle(d failover.Decision) outcome.Outcome {
	if d.State == failover.Changing || t.LabelRemoved {
		t.Rollout.Busy = "the primary changes"
	}
	now := t.states.since(t.Now())
	switch {
	case len(d.Steps) > 0:
		t.Again = time.Millisecond
	case d.Wake != 0:
		t.Again = max(d.Wake-now, time.Millisecond)
	}
	if _, rest := t.known.memory.UnlabelledCandidate(now); rest > 0 && (t.Again == 0 || rest < t.Again) {
		t.Again = rest
	}
	if d.Message == "" {
		return outcome.Done()
	}
	return outcome.Waiting(platformv1.ReasonFailoverPending, d.Message)
}

// labelPatience is how long other label changes wait for the label of a newly named primary.
const labelPatience = 5 * time.Second

// observeCandidates tells the rollout which pod may have the primary label, and which pods can take over.
func (r *Reconciler) observeCandidates(set *platformv1.WorkloadSet, f *Verdict) {
	defer func() {
		if set.Spec.IsClosed() || f.LabelRemoved {
			f.Rollout.Named = new("")
		}
	}()
	if set.Spec.Failover == nil {
		f.observeElection(set)
		return
	}
	f.Rollout.Named, f.Rollout.Switchover = new(facts.PrimaryOf(f.Primary)), rollout.BySwitchover
	if f.Rollout.Founding = record.Of(f.Primary).Founding(); f.Rollout.Founding &&
		slices.ContainsFunc(f.Rollout.Pods, f.writesUnasked) {
		// It stays the primary for clients until a record names one.
		f.Rollout.Named = nil
	}
	if w := f.Primary; w != nil && w.Since != nil {
		if left := w.Since.Add(labelPatience).Sub(f.Now); left > 0 {
			f.Rollout.Promoting = true
			f.WakeAfter(left)
		}
	}
	present := record.Of(f.Primary)
	for i := range f.Rollout.Pods {
		p := &f.Rollout.Pods[i]
		p.Candidacy = rollout.Unfit
		if m := p.Report.Member; m != nil && p.Name != facts.PrimaryOf(f.Primary) &&
			present.Eligible(*record.MemberOf(&platformv1.SetMember{Name: p.Name, Identity: m.Identity})) {
			p.Candidacy = rollout.CanTakeOver
		}
	}
}

// writesUnasked says whether a pod has been the primary since before the engine became the authority.
func (f *Verdict) writesUnasked(p rollout.Pod) bool {
	return f.Rollout.IsPrimaryRole(p.Role) && p.Report.Member == nil
}

// observe returns the facts for the planner.
func (t *reconcile) observe() failover.Facts {
	declared := t.set.Spec.Failover
	f := failover.Facts{
		Now: t.states.since(t.Now()), Record: record.Of(t.Primary), Mode: failover.Mode(declared.Mode), Order: t.ordered(),
		Measures: failover.FromReports, After: time.Duration(schema.DefaultFailoverSeconds) * time.Second,
	}
	if t.Primary != nil {
		f.Former = record.MemberOf(t.Primary.Former)
		if t.Primary.Since != nil {
			f.NamedFor = t.Now().Sub(t.Primary.Since.Time)
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
	for _, ordinal := range t.Rollout.Ordinals() {
		f.Wanted = append(f.Wanted, platformv1.PodNameFor(t.set.Name, ordinal))
	}
	for _, p := range t.Rollout.Pods {
		f.Pods = append(f.Pods, t.podOf(p))
	}
	return f
}

// podOf returns the facts of a pod for the planner.
func (t *reconcile) podOf(p rollout.Pod) failover.Pod {
	pod := failover.Pod{Name: p.Name, Presence: failover.Alive, Health: p.Report.Health,
		FailedFor:       time.Duration(min(p.Report.FailedForMs, time.Hour.Milliseconds())) * time.Millisecond,
		SuspectsPrimary: p.Report.PrimaryUnreachable, HasPrimaryLabel: t.Rollout.IsPrimaryRole(p.Role),
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
	if p.Report.Health == agentreport.Healthy && !t.Rollout.IsPrimaryRole(p.Report.Role) {
		pod.NotWritingReason = p.Report.Message
	}
	declared := t.set.Spec.Failover
	pod.History = p.Report.Attributes[declared.HistoryAttribute]
	if !t.Rollout.IsPrimaryRole(p.Report.Role) && p.Report.Health == agentreport.Healthy {
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
func (f *Verdict) blank(name string) bool {
	pod := f.Pods[name]
	if podstart.Unschedulable(pod) == nil || pod.Spec.NodeName != "" {
		return false
	}
	for _, v := range pod.Spec.Volumes {
		if v.PersistentVolumeClaim == nil || render.Foreign(&v) {
			continue
		}
		if claim := f.Claims[v.PersistentVolumeClaim.ClaimName]; claim == nil || claim.Spec.VolumeName != "" ||
			claim.Status.Phase != corev1.ClaimPending {
			return false
		}
	}
	return true
}

// measurement returns the measurement in the attributes of a candidate.
func (t *reconcile) measurement(p rollout.Pod, attributes map[string]string) failover.Measurement {
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
