// SPDX-License-Identifier: Apache-2.0

// Package primary is the sub-reconciler of the primary of a WorkloadSet.
//
// Duties: where the engine is the authority, it decides by package failover, writes the record (status.primary) guarded
// by the resource version that it read, and calls the agents. Where the middleware elects, it follows what a majority
// of the members reports (status.election). Where the plugin declares an action for that, it has the primary hand over
// (status.switchover) before it is disrupted, or when an Operation asks for it.
//
// Inputs: facts.Facts and the standing of the pods. The record is read live before it is written.
//
// It tells package rollout which pod may have the primary label, and which pods can take over.
package primary

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/agentclient"
	"github.com/zeroinfra/platform-core/internal/controller/workloadset/facts"
	"github.com/zeroinfra/platform-core/internal/controller/workloadset/waits"
	"github.com/zeroinfra/platform-core/internal/failover"
	"github.com/zeroinfra/platform-core/internal/rollout"
	"github.com/zeroinfra/platform-core/sdk/event"
)

// Roles sets the role label of pods.
type Roles interface {
	// SetRole sets the role label of a pod; empty removes it.
	SetRole(ctx context.Context, pod *corev1.Pod, role string) error
}

// Reconciler reconciles the primary of sets.
type Reconciler struct {
	Client client.Client
	// Live reads from the API server.
	Live   client.Reader
	Events *event.Recorder
	Roles  Roles
	// Ops reaches the ops agents.
	Ops agentclient.OpsDialer
	// Members reaches the process managers about who may write.
	Members agentclient.PermissionDialer
	// Now tells the time.
	Now func() time.Time

	// waits of primaries for candidates.
	waits waits.Waits
	// states is the in-memory state of sets whose primary the engine names.
	states primaryStates
}

// Verdict is what the reconcile of the primary comes to, beside what it says to the rollout in the draft.
type Verdict struct {
	*facts.Draft
	// Asking is the Operation that asks for another primary; nil for none.
	Asking *platformv1.Operation
	// Election is what the members report now.
	Election rollout.Election
	// LabelRemoved says that the primary must not have its label: a candidate is about to take over.
	LabelRemoved bool
	// Again is when to reconcile again for the primary; 0 for never.
	Again time.Duration
	// order to the primary to hand over that the rollout gave.
	order *failover.Order
}

// Observe tells the rollout which pod may have the primary label, which pods can take over, and how the latest
// switchover stands.
func (r *Reconciler) Observe(set *platformv1.WorkloadSet, v *Verdict) {
	observeSwitchover(set, v.Draft)
	r.observeCandidates(set, v)
}

// Forget drops the record that is known of a set.
func (r *Reconciler) Forget(set types.NamespacedName) { r.states.forget(set) }

// ForgetSet drops all in-memory state of a set that is deleted.
func (r *Reconciler) ForgetSet(set types.NamespacedName) {
	r.states.forget(set)
	r.waits.Forget(set)
}
