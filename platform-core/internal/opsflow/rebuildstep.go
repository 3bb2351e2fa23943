// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/zeroinfra/platform-core/agentproto/report"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/optemplate"
)

// rebuildStep deletes a pod that does not write and its volumes, and waits until the pod that takes its place has the
// data of the others.
type rebuildStep struct{}

// Outputs of a rebuild.
const (
	outputPod = "pod"
	outputUID = "uid"
	// outputClaims are the volumes that are deleted, each as <name>=<UID>, outputIdentity what the data on them was known
	// by.
	outputClaims   = "claims"
	outputIdentity = "identity"
)

func (s rebuildStep) advance(r *run, t *optemplate.Step, step *platformv1.StepStatus) verdict {
	if step.Phase == platformv1.OperationPending && len(step.Targets) > 0 {
		// Another attempt goes on with the pod that is gone: one that was made in its place is not deleted as well.
		r.begin(step)
		step.Targets[0].Phase = platformv1.OperationRunning
	}
	if step.Phase == platformv1.OperationPending {
		values, why := r.values(t)
		if why != "" {
			return verdict{failed: why}
		}
		if v := s.begin(r, step, values); !v.done() {
			return v
		}
		r.begin(step)
		// The rollout takes out no other pod meanwhile.
		step.Targets = []platformv1.StepTarget{
			{Name: step.Outputs[outputPod], UID: types.UID(step.Outputs[outputUID]), Phase: platformv1.OperationRunning}}
	}
	v := s.settle(r, step)
	if v.done() {
		step.Targets[0].Phase = platformv1.OperationSucceeded
	}
	return v
}

// settle says how far the pod is, or what to delete.
func (s rebuildStep) settle(r *run, step *platformv1.StepStatus) verdict {
	name := step.Outputs[outputPod]
	pod := r.facts.pod(name)
	if pod == nil {
		return verdict{failed: fmt.Sprintf("pod %s is not wanted any more", name), final: yes}
	}
	old := oldClaims(step)
	gone := !slices.ContainsFunc(pod.Claims,
		func(c Claim) bool { return slices.Contains(old, Claim{Name: c.Name, UID: c.UID}) })
	deleted := !slices.ContainsFunc(pod.Claims, func(c Claim) bool {
		return c.Presence != PodGoing && slices.Contains(old, Claim{Name: c.Name, UID: c.UID})
	})
	if uid := types.UID(step.Outputs[outputUID]); !deleted || pod.UID == uid && uid != "" && pod.Presence != PodGoing {
		effect := &Effect{Key: r.key(step, ""), Rebuild: &Rebuild{Pod: name, UID: uid, Claims: old}}
		answer, v := r.answer(effect, fmt.Sprintf("pod %s and its volumes to be deleted", name))
		if answer == nil {
			// A refusal says that nothing more is deleted, whenever it is asked.
			if v.failed != "" {
				v.final = yes
			}
			if !whole(pod, uid, old) {
				v.untouched = ""
			}
			return v
		}
		return verdict{waiting: fmt.Sprintf("pod %s and its volumes to be gone", name), retry: callRetry}
	}
	switch {
	case !gone, pod.Presence == PodGoing:
		return verdict{waiting: fmt.Sprintf("pod %s and its volumes to be gone", name), retry: callRetry}
	case pod.Presence != PodRunning:
		return verdict{waiting: fmt.Sprintf("pod %s to be made anew", name)}
	}
	if v := healthy(pod, "which was made anew, "); !v.done() {
		return v
	}
	return s.joined(r, step, pod)
}

// whole says whether nothing has been deleted of a pod and its volumes.
func whole(pod *Pod, uid types.UID, old []Claim) bool {
	return pod.UID == uid && pod.Presence != PodGoing && !slices.ContainsFunc(old, func(c Claim) bool {
		return !slices.ContainsFunc(pod.Claims,
			func(have Claim) bool { return have.Name == c.Name && have.UID == c.UID && have.Presence != PodGoing })
	})
}

// joined is done when a pod has the data of the others, where the engine can tell.
func (rebuildStep) joined(r *run, step *platformv1.StepStatus, pod *Pod) verdict {
	writing, named := r.facts.Writing[platformv1.WorkloadSetNameOf(pod.Name)]
	if !named {
		return verdict{}
	}
	if writing.Record == nil || writing.Record.Previous != nil ||
		!slices.ContainsFunc(writing.Record.List.Members, func(m platformv1.SetMember) bool {
			return m.Name == pod.Name && m.Identity != step.Outputs[outputIdentity]
		}) {
		return verdict{waiting: fmt.Sprintf("pod %s to have all of the data and to be a member again", pod.Name)}
	}
	return verdict{}
}

// begin records what is deleted. It refuses what others cannot do without.
func (s rebuildStep) begin(r *run, step *platformv1.StepStatus, values map[string]string) verdict {
	name := values["pod"]
	pod := r.facts.pod(name)
	switch {
	case pod == nil:
		return failedf("%q is no pod of %s", name, r.facts.Target)
	case pod.Access == platformv1.RoleReadWrite:
		return failedf("pod %s is the primary, whose data the others copy: have another one take over first, with a "+
			"Switchover", name)
	case len(pod.Claims) == 0:
		return failedf("pod %s has no volumes that could be made anew", name)
	}
	identity := ""
	if writing, named := r.facts.Writing[platformv1.WorkloadSetNameOf(name)]; named {
		var v verdict
		if identity, v = s.spared(r.facts, writing.Record, name); !v.done() {
			return v
		}
	}
	if r.facts.Electing[platformv1.WorkloadSetNameOf(name)] && !r.facts.hasPrimaryBeside(pod) {
		// That a pod is ready wakes nobody.
		return verdict{retry: objectPoll, waiting: fmt.Sprintf("another pod of component %q to be healthy and take writes: "+
			"until then pod %s may be the last that has the data", pod.Component, name)}
	}
	var claims []string
	for _, claim := range pod.Claims {
		claims = append(claims, fmt.Sprintf("%s=%s", claim.Name, claim.UID))
	}
	step.Outputs = map[string]string{outputPod: name, outputUID: string(pod.UID), outputClaims: strings.Join(claims, " "),
		outputIdentity: identity}
	return verdict{}
}

// spared says what the data of a pod is known by, and why the others cannot do without it.
func (rebuildStep) spared(f Facts, record *platformv1.PrimaryRecord, name string) (identity string, v verdict) {
	switch {
	case record == nil || record.Member == nil:
		return "", failedf("there is no primary at this moment: wait until there is one")
	case record.Member.Name == name:
		return "", failedf("pod %s is the primary on record, whose data the others copy: have another one take over "+
			"first, with a Switchover", name)
	}
	others := 0
	for _, member := range record.List.Members {
		if member.Name == name {
			identity = member.Identity
			continue
		}
		if pod := f.pod(member.Name); pod != nil && pod.Presence == PodRunning && pod.Report.Health == report.Healthy {
			others++
		}
	}
	if primary := f.pod(record.Member.Name); others == 0 || primary == nil || primary.Report.Health != report.Healthy {
		return "", failedf("pod %s may be the last that has the data, since %s, the primary, is not healthy: nothing is "+
			"deleted", name, record.Member.Name)
	}
	return identity, verdict{}
}

// hasPrimaryBeside says whether the others of a set elected one of them that takes writes. That one says so itself: a
// pod that is lost keeps its label until they do.
func (f Facts) hasPrimaryBeside(pod *Pod) bool {
	return slices.ContainsFunc(f.Pods, func(other Pod) bool {
		return other.Name != pod.Name && platformv1.WorkloadSetNameOf(other.Name) == platformv1.WorkloadSetNameOf(pod.Name) &&
			other.Reported == platformv1.RoleReadWrite && other.unhealthyReason() == ""
	})
}

// Rebuilds says whether a template deletes pods with their volumes.
func Rebuilds(template optemplate.Template) bool {
	return slices.ContainsFunc(template.Steps,
		func(step optemplate.Step) bool { return does(step, optemplate.EngineRebuild) })
}

func oldClaims(step *platformv1.StepStatus) []Claim {
	var claims []Claim
	for _, text := range strings.Fields(step.Outputs[outputClaims]) {
		name, uid, _ := strings.Cut(text, "=")
		claims = append(claims, Claim{Name: name, UID: types.UID(uid)})
	}
	return claims
}
