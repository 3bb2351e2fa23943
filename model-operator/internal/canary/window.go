// SPDX-License-Identifier: Apache-2.0

package canary

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	aiv1 "github.com/zeroinfra/model-operator/api/v1"
)

// windowRounds is how many rounds count: those of a minute.
const windowRounds = int(time.Minute / interval)

// sample is what one pod of a canary showed.
type sample struct {
	// failure says why it did not answer the test request, or tell its counters; empty where it did.
	failure string
	// requests that it answered since its server was started, those of them that failed, and the seconds that they took.
	requests, failed, requestSeconds float64
	// tokens and seconds that it has generated, and taken for them, since its server was started.
	tokens, seconds float64
	// clients says whether it told the requests that failed, timed whether it told the seconds that requests took, and
	// counted whether it told tokens.
	clients, timed, counted bool
}

// window is what the pods of a canary showed in the last rounds, by their names.
type window []map[string]sample

// with adds a round.
func (w window) with(round map[string]sample) window {
	w = append(w, round)
	return w[max(len(w)-windowRounds, 0):]
}

// failed says whether a pod failed in the last round.
func (w window) failed() bool {
	if len(w) == 0 {
		return false
	}
	for _, s := range w[len(w)-1] {
		if s.failure != "" {
			return true
		}
	}
	return false
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
	for _, bound := range []struct {
		most *metav1.Duration
		time func() (time.Duration, bool)
		of   string
	}{{gate.MaxTimePerToken, w.timePerToken, "token"}, {gate.MaxTimePerRequest, w.timePerRequest, "request"}} {
		if bound.most == nil {
			continue
		}
		if took, known := bound.time(); known && took > bound.most.Duration {
			return fmt.Sprintf("the canary takes %s for a %s, and %s are allowed", took, bound.of, bound.most.Duration)
		}
	}
	return ""
}

// enough says whether so much was measured that a step may end. Where requests or tokens are counted there has to be
// one.
func (w window) enough(gate *aiv1.InferenceCanaryGate) bool {
	if len(w) < leastRounds {
		return false
	}
	asked, _, _ := w.failures()
	_, timed := w.timePerRequest()
	_, counted := w.timePerToken()
	return (gate.MaxErrorRate == nil || asked > 0) && (gate.MaxTimePerRequest == nil || timed) &&
		(gate.MaxTimePerToken == nil || counted)
}

// failures counts requests, and those that failed: all where the pods count them, else those of the operator.
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

// timePerToken is what the pods took for a token on average.
func (w window) timePerToken() (took time.Duration, known bool) {
	return w.average(func(s sample) (tokens, seconds float64, counted bool) { return s.tokens, s.seconds, s.counted })
}

// timePerRequest is what the pods took for a request of a client on average.
func (w window) timePerRequest() (took time.Duration, known bool) {
	return w.average(func(s sample) (requests, seconds float64, counted bool) {
		return s.requests, s.requestSeconds, s.timed
	})
}

// average is what the pods took on average for one of what is counted. A server that was started anew begins to count
// anew.
func (w window) average(of func(sample) (count, seconds float64, counted bool)) (took time.Duration, known bool) {
	type counts struct{ count, seconds float64 }
	var all counts
	before := map[string]counts{}
	for _, round := range w {
		for pod, s := range round {
			count, seconds, counted := of(s)
			if !counted {
				continue
			}
			if last, has := before[pod]; has && count >= last.count && seconds >= last.seconds {
				all.count, all.seconds = all.count+count-last.count, all.seconds+seconds-last.seconds
			}
			before[pod] = counts{count, seconds}
		}
	}
	if all.count < 1 {
		return 0, false
	}
	return time.Duration(all.seconds / all.count * float64(time.Second)).Round(time.Microsecond), true
}
