// SPDX-License-Identifier: Apache-2.0

package canary

import (
	"fmt"
	"time"

	aiv1 "github.com/zeroinfra/model-operator/api/v1"
)

// windowRounds is how many rounds count: those of a minute.
const windowRounds = int(time.Minute / interval)

// sample is what one pod of a canary showed.
type sample struct {
	// failure says why it did not complete a prompt; empty where it did.
	failure string
	// tokens and seconds that it has generated, and taken for them, since its server was started.
	tokens, seconds float64
	// counted says whether it told these.
	counted bool
}

// window is what the pods of a canary showed in the last rounds, by their names.
type window []map[string]sample

// with adds a round.
func (w window) with(round map[string]sample) window {
	w = append(w, round)
	return w[max(len(w)-windowRounds, 0):]
}

// breaks says which bound of the gate the canary breaks; empty for none, or as long as too little was measured.
func (w window) breaks(gate *aiv1.InferenceCanaryGate) string {
	if gate == nil || len(w) < leastRounds {
		return ""
	}
	if most := gate.MaxErrorRate; most != nil {
		asked, failed, last := w.failures()
		if asked > 0 && failed*100 > int(*most)*asked {
			return fmt.Sprintf("%d of %d completions failed, and %d %% may: %s", failed, asked, *most, last)
		}
	}
	if most := gate.MaxTimePerToken; most != nil {
		if took, known := w.timePerToken(); known && took > most.Duration {
			return fmt.Sprintf("the canary takes %s for a token, and %s are allowed", took, most.Duration)
		}
	}
	return ""
}

// failures counts completions, and those that failed. last says why the last of these did.
func (w window) failures() (asked, failed int, last string) {
	for _, round := range w {
		for pod, s := range round {
			asked++
			if s.failure != "" {
				failed++
				last = pod + ": " + s.failure
			}
		}
	}
	return asked, failed, last
}

// timePerToken is what the pods took for a token on average. A server that was started anew begins to count anew.
func (w window) timePerToken() (took time.Duration, known bool) {
	tokens, seconds, before := 0.0, 0.0, map[string]sample{}
	for _, round := range w {
		for pod, s := range round {
			if !s.counted {
				continue
			}
			if last, has := before[pod]; has && s.tokens >= last.tokens && s.seconds >= last.seconds {
				tokens, seconds = tokens+s.tokens-last.tokens, seconds+s.seconds-last.seconds
			}
			before[pod] = s
		}
	}
	if tokens < 1 {
		return 0, false
	}
	return time.Duration(seconds / tokens * float64(time.Second)).Round(time.Microsecond), true
}
