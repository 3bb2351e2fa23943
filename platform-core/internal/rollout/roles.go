// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"slices"

	"github.com/zeroinfra/platform-core/agentproto/report"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// wantedRole is the reported role, when the plugin declares it. While a pod
// does not answer it keeps its label: it is out of every Service by not being ready.
func (f Facts) wantedRole(p Pod) string {
	role := f.reportedRole(p)
	if f.Named != nil && *f.Named != p.Name && f.writer(role) || f.Spared == p.Name && !f.writer(role) {
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

// Declares says whether the plugin has a role of this name.
func (f Facts) Declares(role string) bool {
	return slices.ContainsFunc(f.Roles, func(r platformv1.SetRole) bool { return r.Name == role })
}

// planRoles takes a writer's label away before it gives one, so that two pods never have it but where the middleware
// itself says that both write. Those of others wait until it has its label: what leads Services into the pods takes a
// change over at once after a quiet while, and then once a second. A replica says for a moment that it follows nobody
// when the writer changes.
func planRoles(f Facts) []Step {
	var take, give, others []Step
	for _, p := range f.Pods {
		want := f.wantedRole(p)
		if p.Life != Alive || want == p.Role {
			continue
		}
		step := stepFor(SetRole, p, "it reports role %q", p.Report.Role)
		if want == "" && f.writer(f.reportedRole(p)) {
			step = stepFor(SetRole, p, "it is not the one that may write")
		} else if p.Name == f.Spared && want == "" {
			step = stepFor(SetRole, p, "it is about to take over")
		}
		step.Role = want
		switch {
		case f.writer(want):
			give = append(give, step)
		case f.writer(p.Role):
			take = append(take, step)
		case p.Name == f.Spared || f.Spared == "" && !f.succession():
			others = append(others, step)
		}
	}
	give = f.undisputed(give)
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

// succession says whether the pod that may write is well and about to have its label.
func (f Facts) succession() bool {
	return f.Promoting && f.Named != nil && slices.ContainsFunc(f.Pods, func(p Pod) bool {
		return *f.Named == p.Name && p.Life == Alive && p.Node == Reachable && p.Report.Health == report.Healthy &&
			!f.writer(p.Role)
	})
}

// undisputed leaves one writer when the engine has the say: the one that has the label and
// still says that it writes, else the first that says so.
func (f Facts) undisputed(give []Step) []Step {
	if f.Authority != AuthorityEngine || len(give) == 0 {
		return give
	}
	held := slices.ContainsFunc(f.Pods, func(p Pod) bool { return f.writer(p.Role) && f.holds(p) })
	if held {
		return nil
	}
	return give[:1]
}

// holds says whether a pod keeps the label that it has by right: it lives and says so itself.
func (f Facts) holds(p Pod) bool {
	return p.Life == Alive && p.Report.Health == report.Healthy && f.wantedRole(p) == p.Role
}

// removePrimaryLabels takes a writer's label from those that do not answer, are on a node that nobody reaches or are on
// their way out when another takes over, or has: a middleware may elect another one before the probe of the former has
// failed.
func (f Facts) removePrimaryLabels(give []Step) []Step {
	successor := ""
	if len(give) > 0 {
		successor = give[0].Pod
	} else if i := slices.IndexFunc(f.Pods,
		func(p Pod) bool { return f.writer(p.Role) && p.Node == Reachable && f.holds(p) }); i >= 0 {
		successor = f.Pods[i].Name
	}
	if successor == "" {
		return nil
	}
	var steps []Step
	for _, p := range f.Pods {
		if !f.writer(p.Role) || p.Life == Alive && p.Node == Reachable && p.Report.Health == report.Healthy ||
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
