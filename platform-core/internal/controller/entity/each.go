// SPDX-License-Identifier: Apache-2.0

package entity

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/zeroinfra/platform-core/agentproto/report"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// keepEach brings the objects of one type to what is asked in every pod. One that is not well gets them once it is;
// until then an Entity that was not settled is not, and one that is to be removed stays: the pod may have its object.
func (c *Controller) keepEach(ctx context.Context, seen *observation, whole *group) {
	pods := podsFor(seen.pods, whole)
	if len(pods) == 0 {
		seen.wait(whole, outcome.Waiting(platformv1.ReasonMiddlewareNotReady,
			fmt.Sprintf("no pod of component %q of Application %q runs: see its conditions", whole.component, seen.key.Name)))
		return
	}
	parts := make([]*group, 0, len(pods))
	answers := make([]outcome.Outcome, 0, len(pods))
	there := map[string]bool{}
	for _, pod := range pods {
		g := whole.of(pod)
		there[g.id()] = true
		o := outcome.Waiting(platformv1.ReasonMiddlewareNotReady,
			fmt.Sprintf("pod %s is not healthy: its objects are read once it is", pod.Name))
		if reportOf(pod).Health == report.Healthy {
			o = c.ask(ctx, seen, g, pod)
		}
		parts, answers = append(parts, g), append(answers, o)
	}
	seen.keepProcesses(whole.entityType, there)
	whole.leaveForeign(parts)
	seen.rest(whole, parts...)
	for i, g := range parts {
		g.begin(whole)
		if answers[i].Kind() == outcome.KindDone {
			known := seen.formsOf(g)
			known.tell(g.items)
			c.bring(ctx, seen, g)
			known.learn(g.items)
		} else {
			seen.wait(g, answers[i])
		}
		seen.rememberProcess(g)
		whole.fold(g)
	}
	whole.close()
}

// podsFor are the pods that have, or may have, the objects of a group, in order.
func podsFor(pods []corev1.Pod, g *group) []*corev1.Pod {
	var all []*corev1.Pod
	for i := range pods {
		pod := &pods[i]
		if pod.Labels[platformv1.ComponentLabel] == g.component && pod.DeletionTimestamp.IsZero() && pod.Status.PodIP != "" {
			all = append(all, pod)
		}
	}
	slices.SortFunc(all, func(a, b *corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// of is the group of the same Entities in one pod.
func (g *group) of(pod *corev1.Pod) *group {
	return &group{entityType: g.entityType, component: g.component, items: g.items, each: true, pod: pod.Name}
}

// leaveForeign ends the turn of Entities that none of the objects is of, before any pod gets one.
func (g *group) leaveForeign(parts []*group) {
	for _, it := range g.items {
		if it.deleting() || !it.foreign() {
			continue
		}
		if slices.ContainsFunc(parts, func(part *group) bool { _, there := part.states[it.entity.Spec.Name]; return there }) {
			it.leave()
		}
	}
}

// begin has a group of one pod go on from what the pods before came to: what is written of an Entity is written once.
func (g *group) begin(whole *group) {
	g.items = nil
	for _, it := range whole.items {
		part := *it
		part.entity = it.entity.DeepCopy()
		g.items = append(g.items, &part)
	}
}

// tell the items how the process puts what they want, as far as that is known.
func (f *forms) tell(items []*item) {
	for _, it := range items {
		if known, ok := f.by[it.entity.UID]; ok && known.digest == it.digest() {
			it.form = known.parameters
		}
	}
}

// learn it from what was read back.
func (f *forms) learn(items []*item) {
	for _, it := range items {
		if it.done() {
			f.by[it.entity.UID] = form{it.digest(), it.entity.Status.Observed}
		}
	}
}

// fold takes over what became of the Entities in one pod. What was ended before any pod was asked stays so.
func (g *group) fold(part *group) {
	for i, it := range g.items {
		if it.outcome != nil {
			continue
		}
		p := part.items[i]
		it.before, it.entity, it.mine = p.before, p.entity, it.mine || p.mine
		if it.since == nil {
			it.since = p.since
		}
		it.parts = append(it.parts, p)
	}
}

// close says what became of the Entities in all pods together.
func (g *group) close() {
	for _, it := range g.items {
		var all []outcome.Outcome
		for _, p := range it.parts {
			if p.outcome != nil {
				all = append(all, *p.outcome)
			}
			it.pending = cmp.Or(it.pending, p.pending)
		}
		if len(all) > 0 {
			it.end(outcome.Worst(all...))
		}
		it.release = len(it.parts) > 0 && !slices.ContainsFunc(it.parts, func(p *item) bool { return !p.release })
		it.absent = len(it.parts) > 0 && !slices.ContainsFunc(it.parts, func(p *item) bool { return !p.absent })
	}
}
