// SPDX-License-Identifier: Apache-2.0

package application

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/opsflow"
	"github.com/zeroinfra/platform-core/internal/render"
	"github.com/zeroinfra/platform-core/internal/scheduling"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/frame"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// report fills in the status but for the conditions and the phase.
func report(app *platformv1.Application, f *facts) {
	s := &app.Status
	s.Components, s.Endpoints, s.Primary = nil, nil, ""
	version, ready, wanted := "", int32(0), int32(0)
	writers := 0
	for _, name := range slices.Sorted(maps.Keys(f.components)) {
		component := f.components[name]
		s.Components = append(s.Components, stateOf(name, component))
		s.Endpoints = append(s.Endpoints, component.Status.Endpoints...)
		ready += component.Status.ReadyReplicas
		wanted += component.WantedPods()
		version = cmp.Or(version, component.Status.Version)
		for _, pod := range component.Status.Pods {
			if f.writes(name, pod.Role) {
				writers++
				s.Primary = pod.Name
			}
		}
	}
	if at := f.externalEndpoint(app); at != nil {
		s.Endpoints = append(s.Endpoints, *at)
	}
	if writers != 1 {
		s.Primary = ""
	}
	reportWriter(app, f)
	parts := conditions.Parts(f.components)
	conditions.Sum(app, platformv1.CertificateServedCondition, parts)
	conditions.Sum(app, platformv1.MonitoredCondition, parts)
	conditions.Sum(app, platformv1.RoutedCondition, parts)
	conditions.Sum(app, platformv1.AutoscaledCondition, parts)
	conditions.Sum(app, platformv1.RestoredCondition, parts)
	conditions.SumDeclared(app, parts)
	reportRestored(app, f)
	reportVerified(app, f)
	reportBackups(app, f)
	s.Version, s.Ready = version, fmt.Sprintf("%d/%d", ready, wanted)
	s.Schedules = scheduling.Status(app, opsflow.TemplatesFor(app, f.state.Bundle))
	if f.bound(app) {
		s.Binding = &platformv1.Binding{Name: platformv1.BindingNameFor(app.Name)}
	}
}

// externalEndpoint is where clients go for what is not in the pods; nil where it is there, or while nobody has said
// where it is.
func (f *facts) externalEndpoint(app *platformv1.Application) *platformv1.Endpoint {
	if f.state.Bundle == nil {
		return nil
	}
	binding := f.state.Bundle.Binding(app.Spec.Topology)
	if binding == nil || binding.External == nil || f.components[binding.Component] == nil {
		return nil
	}
	return render.ExternalEndpoint(binding,
		string(f.components[binding.Component].Spec.Parameters[binding.External.Endpoint]))
}

// bound says whether clients have a Secret to look at: that of a Service that is there, or of what is not in the pods
// at all.
func (f *facts) bound(app *platformv1.Application) bool {
	if f.state.Bundle == nil {
		return false
	}
	binding := f.state.Bundle.Binding(app.Spec.Topology)
	return binding != nil && (len(app.Status.Endpoints) > 0 || binding.External != nil)
}

// reportRestored says what the data is from that the instance began with, once it is there. It stays said, whatever
// becomes of the component.
func reportRestored(app *platformv1.Application, f *facts) {
	for _, name := range slices.Sorted(maps.Keys(f.components)) {
		component := f.components[name]
		from := component.Spec.RestoreFrom
		if from == nil || app.Status.RestoredFrom != nil {
			continue
		}
		app.Status.RestoredFrom = restoredFrom(from, component.Status.Sets)
	}
}

// restoredFrom is what a component began with, once each set that was to begin with data has it; nil before.
func restoredFrom(from *platformv1.ComponentRestore, sets []platformv1.SetState) *platformv1.RestoredFrom {
	all := &platformv1.RestoredFrom{Backup: from.Backup, UID: from.UID}
	if from.Target != nil {
		all.Time = from.Target.Time
	}
	done := 0
	for _, set := range sets {
		state := set.Restore
		if !state.Done() || len(from.Sets) > 0 && !slices.Contains(from.Sets, set.Name) {
			continue
		}
		done++
		all.Digest, all.Size = state.Digest, all.Size+state.Size
		if all.CompletionTime.Before(state.CompletionTime) {
			all.CompletionTime = *state.CompletionTime
		}
	}
	if done < max(1, len(from.Sets)) {
		return nil
	}
	return all
}

// takenUp returns the generation that the instance was driven to before this turn, and says so in the status until this
// turn has taken up the present one.
func takenUp(app *platformv1.Application) int64 {
	taken := app.Status.TakenUp()
	if app.Status.TakenUpGeneration = nil; taken != app.Generation {
		app.Status.TakenUpGeneration = &taken
	}
	return taken
}

// reportWriter says in which term the one writer is, and what it means for a write that it is lost, where the engine
// decides who writes.
func reportWriter(app *platformv1.Application, f *facts) {
	app.Status.Term, app.Status.Durability, app.Status.LossWindowSeconds = 0, "", nil
	sets := 0
	for _, name := range slices.Sorted(maps.Keys(f.components)) {
		component := f.components[name]
		if component.Spec.Failover == nil {
			continue
		}
		for _, set := range component.Status.Sets {
			sets++
			app.Status.Term = set.Term
			// What one set cannot promise the instance cannot.
			if app.Status.Durability != platformv1.DurabilityAsynchronous {
				app.Status.Durability = platformv1.DurabilitySynchronous
			}
			if set.SynchronousReplicas == 0 {
				app.Status.Durability = platformv1.DurabilityAsynchronous
			}
		}
	}
	if sets != 1 {
		app.Status.Term = 0
	}
	if app.Status.Durability == platformv1.DurabilitySynchronous {
		app.Status.LossWindowSeconds = new(int64(0))
	}
}

// stateOf is what an Application says of one of its components.
func stateOf(name string, component *platformv1.Component) platformv1.ComponentState {
	state := platformv1.ComponentState{
		Name: name, Phase: component.Status.Phase, Version: component.Status.Version,
		Replicas: component.WantedPods(), ReadyReplicas: component.Status.ReadyReplicas,
		Sets: component.Status.Sets, Pods: component.Status.Pods,
	}
	if ready := conditions.Get(component, platformv1.ReadyCondition); ready != nil &&
		ready.Status != metav1.ConditionTrue {
		state.Message = ready.Message
	}
	return state
}

// writes says whether the plugin lets a pod of the component in this role take writes.
func (f *facts) writes(component, role string) bool {
	if f.state.Bundle == nil || role == "" {
		return false
	}
	declared, ok := f.state.Bundle.Component(component)
	if !ok {
		return false
	}
	for _, r := range declared.Roles {
		if r.Name == role {
			return r.Access == platformv1.RoleReadWrite
		}
	}
	return false
}

// reportAccepted pins the plugin with the first spec that fits it, or fits another version of it, and says whether this
// one does.
func reportAccepted(app *platformv1.Application, f *facts, refused *outcome.Outcome) {
	if refused == nil && (app.Status.Plugin == nil ||
		app.Status.Plugin.Version != platformv1.CanonicalPluginVersion(app.Spec.PluginVersion)) {
		reference := f.state.Bundle.Reference()
		app.Status.Plugin = &reference
	}
	condition := metav1.Condition{
		Type: platformv1.AcceptedCondition, Status: metav1.ConditionTrue, Reason: platformv1.ReasonAccepted,
		Message: "the spec fits the plugin and all that it names is there", ObservedGeneration: app.Generation,
	}
	if refused != nil {
		condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, refused.Reason(), refused.Message()
	}
	conditions.Set(app, condition)
}

func finish(app *platformv1.Application, _ outcome.Outcome) {
	app.Status.Phase = frame.Phase(app, app.Status.Phase, app.Status.Version)
}
