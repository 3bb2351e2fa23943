// SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/zeroinfra/platform-core/agentproto/plan"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
)

// fillFailover says how the component fails over, where it does.
func fillFailover(spec *platformv1.ComponentSpec, declared *schema.Component, allowed schema.Range,
	wanted *platformv1.Failover) *Refusal {
	f := declared.Failover
	alone := allowed.Max < 2
	if f == nil || alone && !f.Single {
		return nil
	}
	spec.Failover = &platformv1.Failover{}
	if wanted != nil && !alone {
		spec.Failover = wanted.DeepCopy()
	}
	spec.Failover.Mode = cmp.Or(spec.Failover.Mode, platformv1.FailoverAuto)
	if spec.Failover.After == nil {
		spec.Failover.After = &metav1.Duration{Duration: time.Duration(f.Seconds()) * time.Second}
	}
	if spec.Failover.MaxLag != nil && f.LagAttribute == "" {
		return refuse(platformv1.ReasonInvalidSpec,
			"failover.maxLag is set, and the plugin cannot tell how far a pod of component %q is behind: take it out",
			spec.Component)
	}
	return nil
}

// checkFailover: a failover that nothing has would change nothing.
func checkFailover(b *plugin.Bundle, app *platformv1.Application, specs []platformv1.ComponentSpec) *Refusal {
	changes := func(s platformv1.ComponentSpec) bool { return s.Failover != nil && !b.Alone(s.Component, s.Topology) }
	if app.Spec.Failover == nil || slices.ContainsFunc(specs, changes) {
		return nil
	}
	return refuse(platformv1.ReasonInvalidSpec,
		"failover is set, and the engine chooses the primary of no component of topology %q of plugin %q: take it out",
		app.Spec.Topology, b.Manifest.Name)
}

// needsOps says that the pods have the ops agent's container: for actions, or for entities. A driver that is only asked
// for metrics is that of the container that tells them.
func (c *context) needsOps() bool {
	keeps := slices.ContainsFunc(c.bundle.Components.Entities,
		func(e schema.Entity) bool { return e.Component == c.declared.Name })
	return len(c.opsActions()) > 0 || c.declared.Driver != nil && keeps
}

// runsOps says that something in a plan, such as the probe, is a command of the ops agent: its binary is in the pod
// then, also without its container.
func runsOps(p *plan.Plan) bool {
	runs := false
	_, err := p.Rewrite(func(text string) (string, error) {
		runs = runs || strings.Contains(text, plan.OpsPath)
		return text, nil
	})
	return err == nil && runs
}

// opsActions are those that are run on request. The process manager runs by itself what has a pod write or follow.
func (c *context) opsActions() []plan.Action {
	f := c.declared.Failover
	if f == nil {
		return c.declared.Actions
	}
	others := f.Actions()
	if c.spec.Failover == nil {
		others = append(others, f.Measure, f.Handover)
	}
	return slices.DeleteFunc(slices.Clone(c.declared.Actions),
		func(a plan.Action) bool { return slices.Contains(others, a.Name) })
}

// withWriting has the agents run the process by what the pod is, where the component fails over.
func (c *setContext) withWriting(p *plan.Plan) {
	f := c.declared.Failover
	if f == nil {
		return
	}
	if c.spec.Failover != nil {
		action := func(name string) *plan.Action {
			found, _ := p.Action(name)
			return found
		}
		p.Writing = &plan.Writing{Set: c.name, PrimaryArgs: f.PrimaryArgs, ReplicaArgs: f.ReplicaArgs,
			Promote: action(f.Promote), Follow: action(f.Follow), Rejoin: action(f.Follow), FollowOnStart: f.FollowOnStart,
			FollowIntervalSeconds: f.FollowIntervalSeconds}
		if f.UpdateMembers != "" {
			p.Writing.UpdateMembers = action(f.UpdateMembers)
		}
	}
	kept := c.opsActions()
	p.Actions = slices.DeleteFunc(slices.Clone(p.Actions), func(a plan.Action) bool {
		return !slices.ContainsFunc(kept, func(k plan.Action) bool { return k.Name == a.Name })
	})
}

// setFailover is what the set goes by.
func (c *setContext) setFailover(params map[string]string) *platformv1.SetFailover {
	f := c.declared.Failover
	if f == nil || c.spec.Failover == nil {
		return nil
	}
	set := &platformv1.SetFailover{Failover: *c.spec.Failover.DeepCopy(), Order: f.Order, LagAttribute: f.LagAttribute,
		HistoryAttribute: f.HistoryAttribute, EarlierAttribute: f.EarlierAttribute,
		LastContactAttribute: f.LastContactAttribute, InSync: f.InSync,
		Measure: f.Measure, Handover: f.Handover}
	for _, before := range f.Before {
		set.Before = append(set.Before, platformv1.FailoverBefore(before))
	}
	if f.SynchronousReplicas != nil {
		// The plugin's schema says that it is a number.
		replicas, _ := strconv.ParseInt(params[f.SynchronousReplicas.Parameter], 10, 32)
		set.SynchronousReplicas, set.Shortage = int32(replicas), platformv1.ShortageWait
		if params[f.SynchronousReplicas.Shortage] == "continue" {
			set.Shortage = platformv1.ShortageContinue
		}
	}
	return set
}
