// SPDX-License-Identifier: Apache-2.0

// Package pods is the sub-reconciler of the pods of a WorkloadSet.
//
// Duties: says how each pod stands to the one that would be made now (images, resources, configuration, node), and
// takes the steps that package rollout plans: it creates, deletes and resizes pods, gives them images, configuration
// and role labels, and what they stand on (account, plan, certificates, rights). Steps that disrupt serving pods need
// the disruption lock of the Application.
//
// Inputs: facts.Facts. Nodes and volumes are read live, and only when a node can never provide the resources of a pod,
// or seems to be lost.
package pods

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
	"github.com/zeroinfra/platform-core/internal/disruption"
	"github.com/zeroinfra/platform-core/internal/pki"
	"github.com/zeroinfra/platform-core/internal/rollout"
	"github.com/zeroinfra/platform-core/sdk/apply"
	"github.com/zeroinfra/platform-core/sdk/event"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// Claims are the volumes that pods start on.
type Claims interface {
	// Provide has the claims of one pod there, or says why they cannot be.
	Provide(ctx context.Context, set *platformv1.WorkloadSet, f *facts.Facts, ordinal int32) outcome.Outcome
	// Fit says whether a pod has to be made anew for a volume of its own to get its size, and why; and else after what
	// time that is to be asked again, or 0.
	Fit(set *platformv1.WorkloadSet, f *facts.Facts, pod *corev1.Pod) (fit rollout.Fit, why string, again time.Duration)
}

// Primary takes the steps that are about the primary.
type Primary interface {
	// SwitchOver makes the primary hand over.
	SwitchOver(ctx context.Context, set *platformv1.WorkloadSet, f *facts.Draft, step rollout.Step) outcome.Outcome
	// Hold returns the outcome for a pod that must not be changed now.
	Hold(set *platformv1.WorkloadSet, f *facts.Draft, step rollout.Step) outcome.Outcome
}

// Deps are what the reconciler needs from its surroundings.
type Deps struct {
	Client client.Client
	// Live reads from the API server.
	Live   client.Reader
	Apply  *apply.Applier
	Events *event.Recorder
	// Authority issues the agents' certificates.
	Authority *pki.Authority
	// Dialer reaches the process managers.
	Dialer agentclient.Dialer
	// Locks of disruptions, which the WorkloadSet and Operation controllers share.
	Locks *disruption.Locks
	// Resizable says whether the server gives pods other resources while they run.
	Resizable bool
	Claims    Claims
	Primary   Primary
}

// Reconciler creates, changes and deletes the pods of sets.
type Reconciler struct {
	Deps
	// rendered pods of sets that are at work.
	rendered rendered
	// retries are the waits for calls that failed to be made again, by pod.
	retries waits.Waits
	// refusals are the pods that cannot be resized.
	refusals refusals
}

// New returns a Reconciler.
func New(deps Deps) *Reconciler { return &Reconciler{Deps: deps, rendered: newRendered()} }

// Verdict is how the pods of a set stand to what is wanted, beside what the draft says of that to the rollout.
type Verdict struct {
	*facts.Draft
	// wanted are the pods by name as they would be made now, for those that are there. They are shared.
	wanted map[string]*corev1.Pod
	// stuck pods by name, and why they cannot get the resources that are asked for.
	stuck map[string]string
	// lost nodes by name, as far as pods gave cause to look.
	lost map[string]lostNode
	// nodes of the cluster, when something asked for them.
	nodes *[]corev1.Node
	// holdsLock says that this reconcile holds the disruption lock of the Application until the steps were executed.
	holdsLock bool
}

// ForgetSet drops the in-memory state of a set that is deleted.
func (r *Reconciler) ForgetSet(set types.NamespacedName) {
	r.retries.ForgetPods(set)
	r.refusals.forgetPods(set)
	r.Locks.ForgetSet(set)
}
