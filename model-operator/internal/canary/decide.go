// SPDX-License-Identifier: Apache-2.0

package canary

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	aiv1 "github.com/zeroinfra/model-operator/api/v1"
)

const (
	// interval between two measurements.
	interval = 5 * time.Second
	// leastRounds of measurements before anything is said about a canary.
	leastRounds = 3
	// defaultStart is how long a step may take until it is measured.
	defaultStart = 10 * time.Minute
	// unreadyLimit is how long a canary may be without a ready pod.
	unreadyLimit = 20 * time.Second
	// deviation is by how many points the weight in force may miss that of the step, where pods split requests.
	deviation = 3
)

// facts are what is decided on, beside the Inference.
type facts struct {
	now time.Time
	// measured is what the pods of the canary showed.
	measured window
	// unmeasurable says why the gate cannot be measured by the plugin; empty where it can.
	unmeasurable string
	// unready is since when none of them is ready; zero while one is.
	unready time.Time
}

// decision is what the record is to be, and when it is to be looked at again at the latest; zero for not at all.
type decision struct {
	progress aiv1.CanaryProgress
	wake     time.Time
}

// decide says how it goes on with a canary that has steps, and with the pods that these ask for.
func decide(i *aiv1.Inference, f facts) decision { return settle(i, next(i, f), f.now) }

// next says how it goes on with the steps.
func next(i *aiv1.Inference, f facts) decision {
	p := i.CanaryProgress()
	switch {
	case p.Phase.Ended():
		return decision{progress: p}
	case f.unmeasurable != "":
		return refuse(p, f)
	case p.Phase == "", p.Phase == aiv1.CanaryRefused:
		p = start(i, p, 0, f.now)
	}
	if p.Phase == aiv1.CanaryStarting {
		ends := p.Since.Add(startTimeout(i.Spec.Canary.Gate))
		switch {
		case inForce(i, p.Step):
			p = turn(p, aiv1.CanaryMeasuring, f.now)
		case !f.now.Before(ends):
			return rollBack(p, f.now, fmt.Sprintf("step %d: after %s %s",
				p.Step+1, startTimeout(i.Spec.Canary.Gate), standing(i)))
		default:
			return decision{p, ends}
		}
	}
	return measured(i, p, f)
}

// measured says how it goes on with a canary whose weight is in force.
func measured(i *aiv1.Inference, p aiv1.CanaryProgress, f facts) decision {
	gate, step := i.Spec.Canary.Gate, i.Spec.Canary.Steps[p.Step]
	if why := f.measured.breaks(gate); why != "" {
		return rollBack(p, f.now, fmt.Sprintf("step %d: %s", p.Step+1, why))
	}
	if !f.unready.IsZero() {
		ends := f.unready.Add(unreadyLimit)
		if !f.now.Before(ends) {
			return rollBack(p, f.now, fmt.Sprintf("step %d: no pod of the canary has been ready for %s", p.Step+1, unreadyLimit))
		}
		return decision{p, sooner(ends, f.now, gate)}
	}
	ends := p.Since.Add(step.Pause.Duration)
	switch {
	case f.now.Before(ends):
		return decision{p, sooner(ends, f.now, gate)}
	case measures(gate) && !f.measured.enough(gate):
		if len(f.measured) >= leastRounds {
			p.Message = "the pause is over, and the pods of the canary counted no request, or no token of one, in the last " +
				"minute: the step ends once they have"
		}
		return decision{p, sooner(ends, f.now, gate)}
	case unrouted(i):
		// Nobody was sent to the canary: the step is measured anew once the weight is in force again.
		return decision{start(i, p, p.Step, f.now), f.now.Add(startTimeout(gate))}
	case int(p.Step) == len(i.Spec.Canary.Steps)-1:
		return decision{progress: turn(p, aiv1.CanaryComplete, f.now)}
	}
	return decision{start(i, p, p.Step+1, f.now), f.now.Add(startTimeout(gate))}
}

// sooner is when to look again: at a time, and before that for the next measurement.
func sooner(at, now time.Time, gate *aiv1.InferenceCanaryGate) time.Time {
	if next := now.Add(interval); measures(gate) && (next.Before(at) || !now.Before(at)) {
		return next
	}
	return at
}

// turn is progress in another phase.
func turn(p aiv1.CanaryProgress, phase aiv1.CanaryPhase, now time.Time) aiv1.CanaryProgress {
	p.Phase, p.Since, p.Message = phase, metav1.NewTime(now.Truncate(time.Second)), ""
	return p
}

// refuse has the canary wait for a gate that can be measured: what is edited, or another version of the plugin, brings
// another turn.
func refuse(p aiv1.CanaryProgress, f facts) decision {
	if p.Phase != aiv1.CanaryRefused || p.Message != f.unmeasurable {
		p = turn(p, aiv1.CanaryRefused, f.now)
		p.Message = f.unmeasurable
	}
	return decision{progress: p}
}

// rollBack ends the steps.
func rollBack(p aiv1.CanaryProgress, now time.Time, why string) decision {
	p = turn(p, aiv1.CanaryRolledBack, now)
	p.Message = why
	return decision{progress: p}
}

// startTimeout is how long a step may take until it is measured.
func startTimeout(gate *aiv1.InferenceCanaryGate) time.Duration {
	if gate == nil || gate.StartTimeout == nil {
		return defaultStart
	}
	return gate.StartTimeout.Duration
}

// measures says whether the pods are asked for anything.
func measures(gate *aiv1.InferenceCanaryGate) bool {
	return gate != nil && (gate.MaxErrorRate != nil || gate.MaxTimePerToken != nil || gate.MaxTimePerRequest != nil)
}

// inForce says whether the weight of a step is what clients see, and all pods are ready for it.
func inForce(i *aiv1.Inference, step int32) bool {
	now, want := i.Status.Canary, i.Spec.Canary.Steps[step].Weight
	if now == nil || now.Step != step+1 || i.Status.ObservedGeneration != i.Generation {
		return false
	}
	off := now.Weight - want
	if now.Mechanism == aiv1.CanaryByReplicas && max(off, -off) <= deviation {
		off = 0
	}
	return off == 0 && now.Replicas > 0 && now.ReadyReplicas >= now.Replicas
}

// unrouted says whether no Gateway sends requests to the canary.
func unrouted(i *aiv1.Inference) bool {
	now := i.Status.Canary
	return now != nil && now.Mechanism == aiv1.CanaryByHTTPRoute && now.Weight == 0
}

// standing says how far a canary is.
func standing(i *aiv1.Inference) string {
	now := i.Status.Canary
	if now == nil {
		return "the canary has no pods yet"
	}
	said := fmt.Sprintf("%d of %d pods of the canary are ready, and its weight is %d",
		now.ReadyReplicas, now.Replicas, now.Weight)
	if now.Message != "" {
		said += ": " + now.Message
	}
	return said
}
