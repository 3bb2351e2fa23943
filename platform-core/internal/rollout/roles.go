// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"slices"

	"github.com/zeroinfra/platform-core/agentproto/report"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// wantedRole is the reported role, if the plugin declares it. A pod that does not answer keeps its label: it is not
// ready, so that no Service selects it.
func (f Facts) wantedRole(p Pod) string {
	role := f.reportedRole(p)
	if f.Named != nil && *f.Named != p.Name && f.IsPrimaryRole(role) || f.Unlabelled == p.Name && !f.IsPrimaryRole(role) {
		return ""
	}
	return role
}

func (f Facts) reportedRole(p Pod) string {
	if p.Report.Health != report.Healthy || p.Node == Unreachable {
		return p.Role
	}
	if !f.Declares(p.Report.Role) {
		return ""
	}
	return p.Report.Role
}

// Declares says whether the plugin declares a role.
func (f Facts) Declares(role string) bool {
	return slices.ContainsFunc(f.Roles, func(r platformv1.SetRole) bool { return r.Name == role })
}

// planRoles removes the primary label of one pod before another one gets it, so that two pods have it only where the
// middleware itself reports two primaries. Labels of replicas wait until the primary has its label: kube-proxy applies
// the first change at once and further ones once a second. A replica may briefly report that it has no primary during a
// failover.
func planRoles(f Facts) []Step {
	var take, give, others []Step
	for _, p := range f.Pods {
		want := f.wantedRole(p)
		if p.Life != Alive || want == p.Role {
			continue
		}
		step := stepFor(SetRole, p, "it reports role %q", p.Report.Role)
		if want == "" && f.IsPrimaryRole(f.reportedRole(p)) {
			step = stepFor(SetRole, p, "it is not the primary")
		} else if p.Name == f.Unlabelled && want == "" {
			step = stepFor(SetRole, p, "it is about to take over")
		}
		step.Role = want
		switch {
		case f.IsPrimaryRole(want):
			give = append(give, step)
		case f.IsPrimaryRole(p.Role):
			take = append(take, step)
		case p.Name == f.Unlabelled || f.Unlabelled == "" && !f.succession():
			others = append(others, step)
		}
	}
	give = f.singlePrimary(give)
	for _, step := range f.removePrimaryLabels(give) {
		if !slices.ContainsFunc(take, func(s Step) bool { return s.Ordinal == step.Ordinal }) {
			take = append(take, step)
		}
	}
	for _, steps := range [][]Step{take, give} {
		if len(steps) > 0 {
			return steps
		}
	}
	return others
}

// succession says whether the named primary is healthy and about to get its label.
func (f Facts) succession() bool {
	return f.Promoting && f.Named != nil && slices.ContainsFunc(f.Pods, func(p Pod) bool {
		return *f.Named == p.Name && p.Life == Alive && p.Node == Reachable && p.Report.Health == report.Healthy &&
			!f.IsPrimaryRole(p.Role)
	})
}

// singlePrimary returns at most one step, where the engine is the authority: none if a pod with the primary label still
// reports to be the primary, or else the first.
func (f Facts) singlePrimary(give []Step) []Step {
	if f.Authority != AuthorityEngine || len(give) == 0 {
		return give
	}
	held := slices.ContainsFunc(f.Pods, func(p Pod) bool { return f.IsPrimaryRole(p.Role) && f.holds(p) })
	if held {
		return nil
	}
	return give[:1]
}

// holds says whether a pod keeps its label: it is healthy and reports the role itself.
func (f Facts) holds(p Pod) bool {
	return p.Life == Alive && p.Report.Health == report.Healthy && f.wantedRole(p) == p.Role
}

// removePrimaryLabels removes the primary label of pods that do not answer, are on an unreachable node, or are
// terminating, once another pod takes over or has the label: a middleware may elect a primary before the probe of the
// former one has failed.
func (f Facts) removePrimaryLabels(give []Step) []Step {
	successor := ""
	if len(give) > 0 {
		successor = give[0].Pod
	} else if i := slices.IndexFunc(f.Pods,
		func(p Pod) bool { return f.IsPrimaryRole(p.Role) && p.Node == Reachable && f.holds(p) }); i >= 0 {
		successor = f.Pods[i].Name
	}
	if successor == "" {
		return nil
	}
	var steps []Step
	for _, p := range f.Pods {
		if !f.IsPrimaryRole(p.Role) || p.Life == Alive && p.Node == Reachable && p.Report.Health == report.Healthy ||
			slices.ContainsFunc(give, func(s Step) bool { return s.Ordinal == p.Ordinal }) {
			continue
		}
		steps = append(steps, Step{Action: SetRole, Ordinal: p.Ordinal, Pod: p.Name,
			Reason: fmt.Sprintf("%s takes over", successor)})
	}
	return steps
}

func (f Facts) podOf(ordinal int32) Pod {
	i := slices.IndexFunc(f.Pods, func(p Pod) bool { return p.Ordinal == ordinal })
	return f.Pods[i]
}
