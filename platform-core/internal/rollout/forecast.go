// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"slices"

	"github.com/zeroinfra/platform-core/agentproto/report"
)

// forecastRounds bounds how often a forecast plans for each pod. No change takes more.
const forecastRounds = 12

// Forecast returns the steps that would be taken until the set is as wanted, when each of them works and nothing else
// happens. What merely follows from them (labels of roles, waiting) is left out. The facts stay as they are.
func Forecast(f Facts) []Step {
	f.Pods = slices.Clone(f.Pods)
	f.Window = Open
	var forecast []Step
	for range forecastRounds * (len(f.Pods) + int(f.Replicas) + 1) {
		steps := Plan(f)
		moved := false
		for _, step := range steps {
			if step.Action == Hold {
				continue
			}
			f.imagine(step)
			if moved = true; step.Action != SetRole {
				forecast = append(forecast, step)
			}
		}
		if !moved {
			break
		}
	}
	return forecast
}

// imagine has a step work at once.
func (f *Facts) imagine(step Step) {
	i := slices.IndexFunc(f.Pods, func(p Pod) bool { return p.Ordinal == step.Ordinal })
	if i < 0 {
		if step.Action == CreatePod {
			f.Pods = append(f.Pods, f.perfect(Pod{Name: step.Pod, Ordinal: step.Ordinal}))
		}
		return
	}
	p := &f.Pods[i]
	switch step.Action {
	case DeletePod, ForgetPod:
		// It comes back by itself, with the role that it had, where it is wanted.
		if f.Mode == Stopped || !f.Wanted(*p) {
			f.Pods = slices.Delete(f.Pods, i, i+1)
			return
		}
		*p = f.perfect(*p)
	case UpdateImage:
		p.Images, p.Restart = Current, Current
	case ResizePod:
		p.Resources = Current
	case PushPlan, ReloadPlan:
		p.Report.ConfigDigest, p.Report.RestartDigest, p.Reload = f.ConfigDigest, f.RestartDigest, Current
	case SetRole:
		p.Role = step.Role
	case SwitchOver:
		f.swap(i, step.To)
	}
}

// perfect is a pod as the set wants it.
func (f *Facts) perfect(p Pod) Pod {
	role := p.Report.Role
	if role == "" {
		for _, r := range f.Roles {
			if !f.IsPrimaryRole(r.Name) {
				role = r.Name
			}
		}
	}
	return Pod{
		Name: p.Name, Ordinal: p.Ordinal, Life: Alive, Revision: f.Revision, Ready: Ready, Role: role, Candidacy: p.Candidacy,
		Report: report.Report{Health: report.Healthy, Role: role, ConfigDigest: f.ConfigDigest,
			RestartDigest: f.RestartDigest},
	}
}

// swap has a primary and the pod that takes over change roles.
func (f *Facts) swap(from int, to string) {
	i := slices.IndexFunc(f.Pods, func(p Pod) bool { return p.Name == to })
	if i < 0 {
		return
	}
	a, b := &f.Pods[from], &f.Pods[i]
	a.Report.Role, b.Report.Role = b.Report.Role, a.Report.Role
	a.Role, b.Role = a.Report.Role, b.Report.Role
	a.Candidacy, b.Candidacy = CanTakeOver, Unfit
	f.Handover, f.Request = Handover{}, Request{}
	if f.Named != nil {
		f.Named = new(to)
	}
}
