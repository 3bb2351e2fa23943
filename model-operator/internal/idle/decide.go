// SPDX-License-Identifier: Apache-2.0

package idle

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/conditions"

	aiv1 "github.com/zeroinfra/model-operator/api/v1"
)

// demand is what the pod of a door reports. Whoever adds one adds it to the agents' package modeldoor.
type demand string

const (
	// unknown: the pod has reported nothing yet, or is not healthy.
	unknown demand = ""
	waiting demand = "Waiting"
	active  demand = "Active"
	quiet   demand = "Idle"
)

// facts are what is decided on, beside the Inference.
type facts struct {
	now time.Time
	// doors are what each pod of the door reports.
	doors []demand
	// servers says whether the set of servers is to have any.
	servers bool
}

// decide says what is to be on record of an Inference; the phase Active for nothing.
func decide(i *aiv1.Inference, f facts) aiv1.IdleProgress {
	p := i.IdleProgress()
	switch p.Phase {
	case aiv1.IdleNoServers:
		if !f.any(waiting) {
			return p
		}
		return turn(aiv1.IdleStarting, f.now)
	case aiv1.IdleStarting:
		if f.servers {
			return aiv1.IdleProgress{Phase: aiv1.IdleActive}
		}
		return p
	}
	switch {
	case !f.servers && i.Spec.MaxReplicas > 0 && i.Status.ObservedGeneration == i.Generation:
		// The record is lost, and an autoscaler leaves alone what has no pods.
		return turn(aiv1.IdleStarting, f.now)
	case i.Spec.Idle != nil && f.servers && f.all(quiet) && settled(i):
		return turn(aiv1.IdleNoServers, f.now)
	}
	return p
}

// settled says whether an Inference is ready as its spec asks.
func settled(i *aiv1.Inference) bool {
	return i.Status.ObservedGeneration == i.Generation && conditions.IsTrue(i, platformv1.ReadyCondition)
}

// turn is another phase from now on.
func turn(phase aiv1.IdlePhase, now time.Time) aiv1.IdleProgress {
	return aiv1.IdleProgress{Phase: phase, Since: metav1.NewTime(now.Truncate(time.Second))}
}

// any says whether a door reports something.
func (f *facts) any(what demand) bool {
	for _, said := range f.doors {
		if said == what {
			return true
		}
	}
	return false
}

// all says whether each door reports something, of which there has to be one.
func (f *facts) all(what demand) bool {
	for _, said := range f.doors {
		if said != what {
			return false
		}
	}
	return len(f.doors) > 0
}
