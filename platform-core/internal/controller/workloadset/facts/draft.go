// SPDX-License-Identifier: Apache-2.0

package facts

import (
	"fmt"
	"time"

	"github.com/zeroinfra/platform-core/internal/rollout"
)

// Draft is what the sub-reconcilers make of the facts of one reconcile: what package rollout plans its steps from, and
// when to look again. It belongs to that reconcile alone, and only one sub-reconciler at a time works on it.
type Draft struct {
	// Facts that were observed last.
	*Facts
	// Rollout is what the steps are planned from.
	Rollout rollout.Facts
	// Wake is when to reconcile again for what no watch reports; 0 for never.
	Wake time.Duration
	// Awaits says what the disruption of serving pods waits for, beside a window.
	Awaits Awaited
}

// Awaited is what has to happen before a serving pod is disrupted; the zero value for nothing.
type Awaited struct {
	// Reason of the condition.
	Reason string
	// What is the text after "waits for".
	What string
}

// WakeAfter has the set reconciled again after a time at most.
func (d *Draft) WakeAfter(after time.Duration) {
	if d.Wake == 0 || after < d.Wake {
		d.Wake = after
	}
}

// Progress says how far a change of the pods is, or how many are ready when there is none.
func Progress(planned rollout.Facts, pod, what string) string {
	updated, ready, behind := 0, 0, 0
	for _, p := range planned.Pods {
		switch {
		case !planned.Wanted(p) || p.Life != rollout.Alive:
			continue
		case planned.Updated(p):
			updated++
		case p.Revision != planned.Revision || p.Images != rollout.Current || p.Restart != rollout.Current ||
			p.Resources != rollout.Current || p.Report.ConfigDigest != "":
			behind++
		}
		if planned.Settled(p) == rollout.Ready {
			ready++
		}
	}
	if behind > 0 && pod != "" {
		return fmt.Sprintf("%d of %d updated, waiting for %s: %s", updated, planned.Replicas, pod, what)
	}
	return fmt.Sprintf("%d of %d ready: %s", ready, planned.Replicas, what)
}
