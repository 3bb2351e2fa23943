// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/maintenance"
	"github.com/zeroinfra/platform-core/internal/opsflow"
)

// maxDisturbed is how many pods the message of an Operation names that waits for a maintenance window.
const maxDisturbed = 5

// observeWindow says which maintenance window an Operation waits for that has begun nothing: no window is open, and
// what it asks for takes out pods that serve. The planners that would do it say which. One that a schedule made was
// made for a window, and may have had to wait for its turn since.
func (c *Controller) observeWindow(ctx context.Context, op *platformv1.Operation, seen *observation) error {
	steps := opsflow.HoldingSteps(seen.facts.Template)
	scheduled := opsflow.TriggerOf(op) == platformv1.TriggerSchedule &&
		opsflow.DisruptsByName(op.Spec.TemplateRef, seen.bundle)
	if len(steps) == 0 && !scheduled || op.Spec.DryRun || opsflow.Records(op) ||
		opsflow.HasBegun(op, seen.facts.Template) {
		return nil
	}
	windows, err := maintenance.Parse(seen.facts.Application.Spec.Maintenance)
	if err != nil {
		// The Application says so, and goes by the windows from before until that is mended.
		return nil
	}
	opening, closed := windows.Closed(seen.facts.Now)
	if !closed {
		return nil
	}
	if scheduled {
		seen.facts.Held = &opsflow.Hold{Until: opening.Time,
			Words: fmt.Sprintf("the maintenance window, next %s: a schedule asked for it, and it takes out pods", opening)}
		return nil
	}
	disturbed, err := c.disturbed(ctx, op, seen, steps)
	if err != nil || len(disturbed) == 0 {
		return err
	}
	seen.facts.Held = &opsflow.Hold{Until: opening.Time,
		Words: fmt.Sprintf("the maintenance window, next %s: %s", opening, enumerate(disturbed))}
	return nil
}

// disturbed names the pods that an Operation would take out, in order.
func (c *Controller) disturbed(ctx context.Context, op *platformv1.Operation, seen *observation, steps []string) (
	[]string, error) {
	pods := map[string]struct{}{}
	if opsflow.Rotates(seen.facts.Template) {
		for _, pod := range seen.facts.Pods {
			if pod.Presence != opsflow.PodAbsent {
				pods[pod.Name] = struct{}{}
			}
		}
	}
	for step, edit := range opsflow.EditsOf(op, seen.facts) {
		if !slices.Contains(steps, step) {
			continue
		}
		change, refusal, err := c.think(ctx, seen, edit)
		if err != nil {
			return nil, err
		}
		if refusal != "" || change.Application == nil {
			// It is refused at once, or changes nothing.
			continue
		}
		changes, _, err := c.rollOut(ctx, change.Application)
		if err != nil {
			return nil, err
		}
		for _, change := range changes {
			if change.Kind != "Pod" {
				continue
			}
			switch change.Action {
			case platformv1.PlannedRestart, platformv1.PlannedRecreate, platformv1.PlannedSwitchOver:
				pods[change.Name] = struct{}{}
			}
		}
	}
	return slices.Sorted(maps.Keys(pods)), nil
}

// enumerate says of pods, the first ones of many, that they are to be restarted or replaced.
func enumerate(pods []string) string {
	switch n := len(pods); {
	case n == 1:
		return fmt.Sprintf("pod %s is to be restarted or replaced", pods[0])
	case n > maxDisturbed:
		return fmt.Sprintf("pods %s and %d more are to be restarted or replaced", strings.Join(pods[:maxDisturbed], ", "),
			n-maxDisturbed)
	}
	return fmt.Sprintf("pods %s are to be restarted or replaced", strings.Join(pods, ", "))
}
