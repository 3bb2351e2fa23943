// SPDX-License-Identifier: Apache-2.0

package agentclient

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	agentv1 "github.com/zeroinfra/platform-core/agentproto/v1"
)

const (
	holdMethod    = "Hold"
	releaseMethod = "Release"
)

// Hold has the middleware of a pod keep still.
type Hold struct {
	// Key names it.
	Key string
	// Freeze begins it, and Thaw, which may be empty, ends it: actions of the plugin.
	Freeze, Thaw string
	// Lease is how long it lasts from the call on, unless it is made again.
	Lease time.Duration
}

// HoldPhase is where a hold stands.
type HoldPhase string

// Values of HoldPhase. The zero value is that nobody knows.
const (
	// HoldFreezing: the action that begins it runs.
	HoldFreezing HoldPhase = "Freezing"
	HoldHeld     HoldPhase = "Held"
	// HoldReleased: it was on without a gap until it was released.
	HoldReleased HoldPhase = "Released"
	// HoldLost: it never was on, or ended before.
	HoldLost HoldPhase = "Lost"
)

// Held is how a hold stands.
type Held struct {
	Phase HoldPhase
	// Thawed says that what it did is undone.
	Thawed bool
	// Message says why it was lost.
	Message string
	// Outputs of the action that began it.
	Outputs map[string]string
}

// Holder has the middleware of one pod keep still. Every error is an *Error.
type Holder interface {
	// Hold begins a hold, or renews the one of this key, and says how it stands. An agent that is too old for holds
	// refuses.
	Hold(ctx context.Context, hold Hold) (Held, error)
	// Release ends the hold of a key, and says whether it was on until then. It can be repeated.
	Release(ctx context.Context, key string) (Held, error)
}

// HoldDialer finds the ops agent of a pod.
type HoldDialer interface {
	// DialHold is to Holder what Dialer.Dial is to Process.
	DialHold(ctx context.Context, pod *corev1.Pod) (Holder, error)
}

// DialHold implements HoldDialer.
func (c *Connections) DialHold(_ context.Context, pod *corev1.Pod) (Holder, error) {
	a, to, err := c.dial(pod, c.opsPort)
	if err != nil {
		return nil, err
	}
	return &holder{agent: a, line: to, client: agentv1.NewOpsServiceClient(to)}, nil
}

type holder struct {
	agent
	line   *line
	client agentv1.OpsServiceClient
}

// Hold implements Holder.
func (h *holder) Hold(ctx context.Context, hold Hold) (Held, error) {
	ctx, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	if err := h.able(ctx, holdMethod); err != nil {
		return Held{}, err
	}
	now, err := h.client.Hold(ctx, &agentv1.HoldRequest{Header: header(ctx, hold.Key), Freeze: hold.Freeze,
		Thaw: hold.Thaw, LeaseMs: hold.Lease.Milliseconds()})
	return h.heldOf(holdMethod, now, err)
}

// Release implements Holder.
func (h *holder) Release(ctx context.Context, key string) (Held, error) {
	ctx, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	if err := h.able(ctx, releaseMethod); err != nil {
		return Held{}, err
	}
	now, err := h.client.Release(ctx, &agentv1.ReleaseRequest{Header: header(ctx, key)})
	return h.heldOf(releaseMethod, now, err)
}

// able says what keeps the agent from holding.
func (h *holder) able(ctx context.Context, method string) error {
	can, err := h.line.can(ctx, agentv1.CapabilityHold, ofOps)
	if err != nil {
		return h.failure("Capabilities", err)
	}
	if !can {
		return &Error{Pod: h.pod, Address: h.address, Method: method, Kind: Outdated,
			Problem: "the agent in the pod is too old to freeze the middleware: delete the pod, so that it comes back with " +
				"the present agent"}
	}
	return nil
}

var holdPhases = map[agentv1.HoldPhase]HoldPhase{
	agentv1.HoldPhase_HOLD_PHASE_FREEZING: HoldFreezing,
	agentv1.HoldPhase_HOLD_PHASE_HELD:     HoldHeld,
	agentv1.HoldPhase_HOLD_PHASE_RELEASED: HoldReleased,
	agentv1.HoldPhase_HOLD_PHASE_LOST:     HoldLost,
}

func (h *holder) heldOf(method string, now *agentv1.HoldStatus, err error) (Held, error) {
	if err != nil {
		return Held{}, h.failure(method, err)
	}
	return Held{Phase: holdPhases[now.GetPhase()], Thawed: now.GetThawed(), Message: now.GetMessage(),
		Outputs: now.GetOutputs()}, nil
}
