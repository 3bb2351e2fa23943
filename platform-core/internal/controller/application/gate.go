// SPDX-License-Identifier: Apache-2.0

package application

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// waits says what a component waits for before it is started or stopped.
type waits map[string]string

// gate decides which of the wanted components run now. One that is to start waits until all that it
// needs are ready; once it runs it runs on, whatever becomes of them. One that is to stop waits
// until all that need it have stopped.
func gate(app *platformv1.Application, f *facts, wanted []platformv1.ComponentSpec) waits {
	held := waits{}
	for i := range wanted {
		spec := &wanted[i]
		started := isStarted(f.components[spec.Component])
		switch asked := app.Spec.IsRunning(); {
		case asked && !started:
			if need, ok := f.unmetNeed(spec.Component, wanted); ok {
				spec.Running = new(false)
				held[spec.Component] = fmt.Sprintf("waiting for component %s to be ready", need)
			}
		case !asked && started:
			if dependent, ok := f.runningDependent(spec.Component, wanted); ok {
				spec.Running = new(true)
				held[spec.Component] = fmt.Sprintf("stops once component %s has stopped", dependent)
			}
		}
	}
	return held
}

// unmetNeed names a component that has to be ready before this one starts, and is not.
func (f *facts) unmetNeed(component string, wanted []platformv1.ComponentSpec) (string, bool) {
	for i := range wanted {
		need := wanted[i].Component
		if slices.Contains(f.needs(component), need) && !isServing(f.components[need]) {
			return need, true
		}
	}
	return "", false
}

// runningDependent names a component that needs this one and has not stopped.
func (f *facts) runningDependent(component string, wanted []platformv1.ComponentSpec) (string, bool) {
	for i := range wanted {
		dependent := wanted[i].Component
		if slices.Contains(f.needs(dependent), component) && !isStopped(f.components[dependent]) {
			return dependent, true
		}
	}
	return "", false
}

func (f *facts) needs(component string) []string {
	declared, ok := f.state.Bundle.Component(component)
	if !ok {
		return nil
	}
	return declared.Needs
}

func isStarted(component *platformv1.Component) bool {
	return component != nil && component.Spec.IsRunning()
}

// isServing says whether a component runs and is ready.
func isServing(component *platformv1.Component) bool {
	if !isStarted(component) {
		return false
	}
	kind := conditions.Outcome(component).Kind()
	return kind == outcome.KindDone || kind == outcome.KindDeferred
}

// isStopped says whether nothing of a component runs any more.
func isStopped(component *platformv1.Component) bool {
	if component == nil {
		return true
	}
	ready := conditions.Get(component, platformv1.ReadyCondition)
	return !isStarted(component) && ready != nil && ready.Status == metav1.ConditionTrue &&
		ready.Reason == platformv1.ReasonStopped && ready.ObservedGeneration == component.Generation
}
