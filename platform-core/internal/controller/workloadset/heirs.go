// SPDX-License-Identifier: Apache-2.0

package workloadset

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/rollout"
)

// heirPatience is how long a writer that works is left in place for pods beside it that cannot take over yet. Those that have just
// restarted connect to it within a few seconds; more than that, and they may never.
const heirPatience = 20 * time.Second

// heirs remember since when the writer of a set has nobody to hand over to although other pods serve. They are in memory alone: after a
// restart of the operator the wait begins anew. The zero value is ready to use.
type heirs struct {
	mu      sync.Mutex
	missing map[types.NamespacedName]time.Time
}

// missed is how long a set has been without, now included.
func (h *heirs) missed(set types.NamespacedName, now time.Time) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	since, known := h.missing[set]
	if !known {
		if h.missing == nil {
			h.missing = map[types.NamespacedName]time.Time{}
		}
		h.missing[set], since = now, now
	}
	return now.Sub(since)
}

// forget a set that is not without.
func (h *heirs) forget(set types.NamespacedName) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.missing, set)
}

// observeHeirs says whether pods that cannot take over from the writer are worth waiting for.
func (c *Controller) observeHeirs(set *platformv1.WorkloadSet, f *facts) {
	f.rollout.Heirs = rollout.NoHeirs
	key := client.ObjectKeyFromObject(set)
	writer := slices.IndexFunc(f.rollout.Pods, f.reportsWriter)
	if f.rollout.Switchover == rollout.NoSwitchover || writer < 0 || !hasOps(f.pods[f.rollout.Pods[writer].Name]) || !f.rollout.Heirless(f.rollout.Pods[writer].Name) {
		c.heirs.forget(key)
		return
	}
	if left := heirPatience - c.heirs.missed(key, f.now); left > 0 {
		f.rollout.Heirs = rollout.HeirsExpected
		f.wakeAfter(left)
	}
}
