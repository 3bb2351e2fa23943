// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"context"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	agentreport "github.com/zeroinfra/platform-core/agentproto/report"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/controller/workloadset/facts"
	"github.com/zeroinfra/platform-core/internal/inplaceupdate"
	"github.com/zeroinfra/platform-core/internal/rollout"
)

// Begin returns the verdict to be on the pods of a set, without the pods.
func Begin(set *platformv1.WorkloadSet, f *facts.Facts) *Verdict {
	draft := &facts.Draft{Facts: f, Rollout: wantedOf(set)}
	draft.Rollout.Window = f.Window
	draft.Rollout.ConfigDigest, draft.Rollout.RestartDigest = f.Plan.Digest, f.Plan.RestartDigest
	return &Verdict{Draft: draft, lost: map[string]lostNode{}}
}

// wantedOf is what the spec asks of the pods.
func wantedOf(set *platformv1.WorkloadSet) rollout.Facts {
	wanted := rollout.Facts{
		Name:            set.Name,
		Replicas:        set.Spec.Replicas,
		Excluded:        set.Spec.ExcludedOrdinals,
		Policy:          set.Spec.PodManagementPolicy,
		RestartStrategy: set.Spec.RestartStrategy,
		Authority:       set.Spec.Authority,
		Revision:        set.Spec.Revision,
		Roles:           set.Spec.Roles,

		Mode: facts.ModeOf(set),

		Interchangeable: len(set.Spec.Volumes) == 0 && len(set.Spec.Roles) == 0,
	}
	return wanted
}

// Assess says in the draft how each pod of its facts stands to what is wanted. What was to be looked at again before
// is forgotten.
func (r *Reconciler) Assess(ctx context.Context, set *platformv1.WorkloadSet, f *Verdict) error {
	f.Rollout.Pods, f.Wake = nil, 0
	f.wanted, f.stuck = map[string]*corev1.Pod{}, map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(f.Pods)) {
		pod := f.Pods[name]
		ordinal, _ := facts.OrdinalOf(set, pod)
		p := factsOf(pod, ordinal)
		shareDigests(&f.Plan, pod.Name, &p.Report)
		var err error
		if p.Node, err = r.contact(ctx, f, pod); err != nil {
			return err
		}
		if p.Life == rollout.Alive && f.Rollout.Mode != rollout.Stopped && f.Rollout.Wanted(p) {
			if err := r.compare(ctx, set, f, &p); err != nil {
				return err
			}
		}
		f.Rollout.Pods = append(f.Rollout.Pods, p)
	}
	slices.SortFunc(f.Rollout.Pods, func(a, b rollout.Pod) int { return int(a.Ordinal - b.Ordinal) })
	return nil
}

// compare says how a pod stands to the one that would be made now.
func (r *Reconciler) compare(ctx context.Context, set *platformv1.WorkloadSet, f *Verdict, p *rollout.Pod) error {
	live := f.Pods[p.Name]
	want, err := r.rendered.pod(set, p.Ordinal)
	if err != nil {
		return err
	}
	f.wanted[p.Name] = want
	if len(imageChanges(live, want)) > 0 {
		p.Images = rollout.Outdated
	}
	if p.Resources, p.Note, err = r.fitResources(ctx, f, live, want); err != nil {
		return err
	}
	if p.Resources == rollout.Outdated {
		if why, refused := r.refusals.of(live, set.Generation); refused {
			p.Resources, p.Note = rollout.Replace, why
		}
	}
	p.Tightens = p.Resources == rollout.Outdated && tightens(live, want)
	if p.Resources != rollout.Replace {
		fit, note, again := r.Claims.Fit(set, f.Facts, live)
		if p.Volumes = fit; note != "" {
			p.Note = note
		}
		if again > 0 {
			f.WakeAfter(again)
		}
	}
	if last := p.Report.LastCall; attemptsOf(callKey(reloadCall, set, f, live), last) > 0 &&
		last.Phase == agentreport.CallFailed && last.Reason == agentreport.ReasonRestartRequired {
		p.Reload = rollout.Replace
	}
	return nil
}

func factsOf(pod *corev1.Pod, ordinal int32) rollout.Pod {
	p := rollout.Pod{
		Name:     pod.Name,
		Ordinal:  ordinal,
		Life:     rollout.Alive,
		Revision: pod.Labels[platformv1.RevisionLabel],
		Ready:    rollout.NotReady,
		Role:     pod.Labels[platformv1.RoleLabel],
	}
	switch {
	case pod.DeletionTimestamp != nil:
		p.Life = rollout.Terminating
	case pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded:
		p.Life = rollout.Ended
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue {
			p.Ready = rollout.Ready
		}
	}
	if inplaceupdate.Restarting(pod) {
		p.Restart = rollout.Underway
	}
	p.Report = agentreport.Latest(pod.Annotations[platformv1.ReportAnnotation])
	return p
}
