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
	// failure says why it did not complete a prompt, or tell its counters; empty where it did.
	failure string
	// clients says whether it counts the requests of its clients: requests that it answered since its server was
	// started, and those of them that failed.
	clients          bool
	requests, failed float64
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
			return fmt.Sprintf("%d of %d requests failed, and %d %% may: %s", failed, asked, *most, last)
		}
	}
	if most := gate.MaxTimePerToken; most != nil {
		if took, known := w.timePerToken(); known && took > most.Duration {
			return fmt.Sprintf("the canary takes %s for a token, and %s are allowed", took, most.Duration)
		}
	}
	return ""
}

// enough says whether so much was measured that a step may end. Where clients are counted there has to be one.
func (w window) enough(gate *aiv1.InferenceCanaryGate) bool {
	if len(w) < leastRounds {
		return false
	}
	asked, _, _ := w.failures()
	return gate.MaxErrorRate == nil || asked > 0
}

// failures counts requests, and those that failed: those of the operator, and of clients where the pods count them.
// last says why the last of these did. A server that was started anew begins to count anew.
func (w window) failures() (asked, failed int, last string) {
	before := map[string]sample{}
	for _, round := range w {
		for pod, s := range round {
			switch was, has := before[pod]; {
			case s.failure != "":
				asked, failed, last = asked+1, failed+1, pod+": "+s.failure
			case !s.clients:
				asked++
			case has && s.requests >= was.requests && s.failed >= was.failed:
				asked += int(s.requests - was.requests)
				if more := int(s.failed - was.failed); more > 0 {
					failed, last = failed+more, fmt.Sprintf("%s: it has counted %d in the last round", pod, more)
				}
			}
			if s.clients {
				before[pod] = s
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
