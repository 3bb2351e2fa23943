// SPDX-License-Identifier: Apache-2.0

package canary

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	aiv1 "github.com/zeroinfra/model-operator/api/v1"
)

// began is when the phase of a step began.
var began = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// at has an Inference with steps of 25 and 50 percent, of a minute each, be in a phase of a step, from 0 on.
func at(t *testing.T, phase aiv1.CanaryPhase, step int32) *aiv1.Inference {
	t.Helper()
	i := &aiv1.Inference{ObjectMeta: metav1.ObjectMeta{Name: "chat", Generation: 3}}
	minute := metav1.Duration{Duration: time.Minute}
	i.Spec.Canary = &aiv1.InferenceCanary{
		ModelRef: aiv1.InferenceModelReference{Name: "chat", Version: "v2"},
		Steps:    []aiv1.InferenceCanaryStep{{Weight: 25, Pause: minute}, {Weight: 50, Pause: minute}},
	}
	i.Status.ObservedGeneration = 3
	if phase != "" {
		text, err := json.Marshal(aiv1.CanaryProgress{Of: i.Spec.Canary.Digest(), Phase: phase, Step: step,
			Since: metav1.NewTime(began)})
		if err != nil {
			t.Fatal(err)
		}
		i.Annotations = map[string]string{aiv1.CanaryProgressAnnotation: string(text)}
	}
	return i
}

// showing has the canary of an Inference have so many pods ready of as many, and a weight, at a step from 1 on.
func showing(i *aiv1.Inference, step, ready, pods, weight int32) *aiv1.Inference {
	i.Status.Canary = &aiv1.InferenceCanaryStatus{Mechanism: aiv1.CanaryByReplicas, Step: step, Replicas: pods,
		ReadyReplicas: ready, Weight: weight}
	return i
}

// routed has a Gateway split the requests.
func routed(i *aiv1.Inference) *aiv1.Inference {
	i.Status.Canary.Mechanism = aiv1.CanaryByHTTPRoute
	return i
}

// telling has the status say why a weight is not in force.
func telling(i *aiv1.Inference, why string) *aiv1.Inference {
	i.Status.Canary.Message = why
	return i
}

func TestDecide(t *testing.T) {
	after := func(d time.Duration) facts { return facts{now: began.Add(d)} }
	unready := func(since, now time.Duration) facts { return facts{now: began.Add(now), unready: began.Add(since)} }
	old := at(t, aiv1.CanaryMeasuring, 0)
	old.Generation = 4
	for name, c := range map[string]struct {
		i     *aiv1.Inference
		f     facts
		phase aiv1.CanaryPhase
		step  int32
		wake  time.Duration
		says  string
	}{
		"a new canary": {at(t, "", 0), after(0), aiv1.CanaryStarting, 0, 10 * time.Minute, ""},
		"a pod is not ready": {showing(at(t, aiv1.CanaryStarting, 0), 1, 0, 1, 0), after(time.Minute),
			aiv1.CanaryStarting, 0, 10 * time.Minute, ""},
		"all pods are ready": {showing(at(t, aiv1.CanaryStarting, 0), 1, 1, 1, 25), after(time.Minute),
			aiv1.CanaryMeasuring, 0, 2 * time.Minute, ""},
		"near the weight": {showing(at(t, aiv1.CanaryStarting, 0), 1, 1, 1, 28), after(time.Minute),
			aiv1.CanaryMeasuring, 0, 2 * time.Minute, ""},
		"a route has another weight yet": {routed(showing(at(t, aiv1.CanaryStarting, 1), 2, 1, 1, 48)),
			after(time.Minute), aiv1.CanaryStarting, 1, 10 * time.Minute, ""},
		"no Gateway has the route": {telling(routed(showing(at(t, aiv1.CanaryStarting, 0), 1, 1, 1, 0)), "no Gateway"),
			after(time.Minute), aiv1.CanaryStarting, 0, 10 * time.Minute, ""},
		"no Gateway ever had the route": {telling(routed(showing(at(t, aiv1.CanaryStarting, 0), 1, 1, 1, 0)), "no Gateway"),
			after(10 * time.Minute), aiv1.CanaryRolledBack, 0, 0, "its weight is 0: no Gateway"},
		"no Gateway has the route any more": {routed(showing(at(t, aiv1.CanaryMeasuring, 0), 1, 1, 1, 0)),
			after(time.Minute), aiv1.CanaryStarting, 0, 11 * time.Minute, ""},
		"a Gateway has the route": {routed(showing(at(t, aiv1.CanaryMeasuring, 0), 1, 1, 1, 25)),
			after(time.Minute), aiv1.CanaryStarting, 1, 11 * time.Minute, ""},
		"the status is of the step before": {showing(at(t, aiv1.CanaryStarting, 1), 1, 1, 1, 50), after(time.Minute),
			aiv1.CanaryStarting, 1, 10 * time.Minute, ""},
		"never ready": {showing(at(t, aiv1.CanaryStarting, 0), 1, 0, 1, 0), after(10 * time.Minute),
			aiv1.CanaryRolledBack, 0, 0, "step 1: after 10m0s 0 of 1 pods of the canary are ready"},
		"no pods": {at(t, aiv1.CanaryStarting, 0), after(10 * time.Minute), aiv1.CanaryRolledBack,
			0, 0, "the canary has no pods yet"},
		"the pause goes on": {showing(at(t, aiv1.CanaryMeasuring, 0), 1, 1, 1, 25), after(30 * time.Second),
			aiv1.CanaryMeasuring, 0, time.Minute, ""},
		"the pause is over": {showing(at(t, aiv1.CanaryMeasuring, 0), 1, 1, 1, 25), after(time.Minute),
			aiv1.CanaryStarting, 1, 11 * time.Minute, ""},
		"the last pause is over": {showing(at(t, aiv1.CanaryMeasuring, 1), 2, 2, 2, 50), after(time.Minute),
			aiv1.CanaryComplete, 1, 0, ""},
		"no pod is ready any more": {at(t, aiv1.CanaryMeasuring, 0), unready(40*time.Second, 50*time.Second),
			aiv1.CanaryMeasuring, 0, time.Minute, ""},
		"no pod is ready at the end of pause": {at(t, aiv1.CanaryMeasuring, 0), unready(50*time.Second, 65*time.Second),
			aiv1.CanaryMeasuring, 0, 70 * time.Second, ""},
		"no pod was ready for long": {at(t, aiv1.CanaryMeasuring, 0), unready(40*time.Second, time.Minute),
			aiv1.CanaryRolledBack, 0, 0, "no pod of the canary has been ready for 20s"},
		"rolled back":                  {at(t, aiv1.CanaryRolledBack, 1), after(time.Hour), aiv1.CanaryRolledBack, 1, 0, ""},
		"complete":                     {at(t, aiv1.CanaryComplete, 1), after(time.Hour), aiv1.CanaryComplete, 1, 0, ""},
		"another edit changes no step": {old, after(time.Second), aiv1.CanaryMeasuring, 0, time.Minute, ""},
	} {
		got := decide(c.i, c.f)
		if p := got.progress; p.Phase != c.phase || p.Step != c.step || !strings.Contains(p.Message, c.says) {
			t.Errorf("%s: got %+v, want phase %s, step %d, and %q", name, p, c.phase, c.step, c.says)
		}
		if want := began.Add(c.wake); c.wake == 0 && !got.wake.IsZero() || c.wake > 0 && !got.wake.Equal(want) {
			t.Errorf("%s: the next look is at %s, want %s", name, got.wake, want)
		}
	}
}

// With a bound for what pods answer, a step is not through before there are three rounds, whatever its pause.
func TestDecideMeasuresBeforeTheNextStep(t *testing.T) {
	i := showing(at(t, aiv1.CanaryMeasuring, 0), 1, 1, 1, 25)
	i.Spec.Canary.Gate = &aiv1.InferenceCanaryGate{MaxErrorRate: new(int32(0))}
	f := facts{now: began.Add(2 * time.Minute)}
	for range leastRounds {
		if got := decide(i, f); got.progress.Phase != aiv1.CanaryMeasuring || !got.wake.Equal(f.now.Add(interval)) {
			t.Errorf("with %d rounds: %+v", len(f.measured), got)
		}
		f.measured = f.measured.with(map[string]sample{"a": {}})
	}
	if got := decide(i, f); got.progress.Phase != aiv1.CanaryStarting || got.progress.Step != 1 {
		t.Errorf("after %d rounds: %+v", leastRounds, got)
	}
	f.measured = f.measured.with(map[string]sample{"a": {failure: "refused"}})
	if got := decide(i, f).progress; got.Phase != aiv1.CanaryRolledBack ||
		got.Message != "step 1: 1 of 4 requests failed, and 0 % may: a: refused" {
		t.Errorf("after a failure: %+v", got)
	}
}

// Where clients are counted, a step ends once they have made a request, and says that it waits for one.
func TestDecideWaitsForARequest(t *testing.T) {
	i := showing(at(t, aiv1.CanaryMeasuring, 0), 1, 1, 1, 25)
	i.Spec.Canary.Gate = &aiv1.InferenceCanaryGate{MaxErrorRate: new(int32(0))}
	f := facts{now: began.Add(2 * time.Minute)}
	counted := func(requests, failed float64) {
		f.measured = f.measured.with(map[string]sample{"a": {clients: true, requests: requests, failed: failed}})
	}
	for range leastRounds {
		counted(7, 2)
	}
	got := decide(i, f)
	if p := got.progress; p.Phase != aiv1.CanaryMeasuring || !strings.Contains(p.Message, "counted no request") ||
		!got.wake.Equal(f.now.Add(interval)) {
		t.Errorf("without a request: %+v", got)
	}
	counted(8, 2)
	if p := decide(i, f).progress; p.Phase != aiv1.CanaryStarting || p.Step != 1 || p.Message != "" {
		t.Errorf("after a request: %+v", p)
	}
	counted(9, 3)
	if p := decide(i, f).progress; p.Phase != aiv1.CanaryRolledBack ||
		p.Message != "step 1: 1 of 2 requests failed, and 0 % may: a: it has counted 1 in the last round" {
		t.Errorf("after a request that failed: %+v", p)
	}
}

// A gate that the plugin cannot measure is refused at any step, and the steps begin once it can.
func TestDecideRefuses(t *testing.T) {
	refused := facts{now: began.Add(time.Minute), unmeasurable: "it cannot be measured"}
	for _, phase := range []aiv1.CanaryPhase{"", aiv1.CanaryStarting, aiv1.CanaryMeasuring} {
		got := decide(at(t, phase, 0), refused)
		if p := got.progress; p.Phase != aiv1.CanaryRefused || p.Message != refused.unmeasurable || !got.wake.IsZero() {
			t.Errorf("%q: got %+v", phase, got)
		}
	}
	i := at(t, aiv1.CanaryRefused, 1)
	first := decide(i, refused).progress
	text, err := json.Marshal(first)
	if err != nil {
		t.Fatal(err)
	}
	i.Annotations[aiv1.CanaryProgressAnnotation] = string(text)
	again := refused
	again.now = again.now.Add(time.Minute)
	if p := decide(i, again).progress; p.Message != first.Message || !p.Since.Equal(&first.Since) {
		t.Errorf("it is refused anew: %+v after %+v", p, first)
	}
	if p := decide(i, facts{now: again.now}).progress; p.Phase != aiv1.CanaryStarting || p.Step != 0 || p.Message != "" {
		t.Errorf("once it can be measured: %+v", p)
	}
	if p := decide(at(t, aiv1.CanaryComplete, 1), refused).progress; p.Phase != aiv1.CanaryComplete {
		t.Errorf("after the last step: %+v", p)
	}
}

// Where the time of tokens is bounded, a step ends once there was one.
func TestDecideWaitsForAToken(t *testing.T) {
	i := showing(at(t, aiv1.CanaryMeasuring, 0), 1, 1, 1, 25)
	i.Spec.Canary.Gate = &aiv1.InferenceCanaryGate{MaxTimePerToken: &metav1.Duration{Duration: time.Second}}
	f := facts{now: began.Add(2 * time.Minute)}
	counted := func(tokens, seconds float64) {
		f.measured = f.measured.with(map[string]sample{"a": {counted: true, tokens: tokens, seconds: seconds}})
	}
	for range leastRounds {
		counted(8, 1)
	}
	if p := decide(i, f).progress; p.Phase != aiv1.CanaryMeasuring || !strings.Contains(p.Message, "no token of one") {
		t.Errorf("without a token: %+v", p)
	}
	counted(16, 2)
	if p := decide(i, f).progress; p.Phase != aiv1.CanaryStarting || p.Step != 1 {
		t.Errorf("after a token: %+v", p)
	}
}

// Where the time of requests is bounded, a step ends once there was one.
func TestDecideWaitsForARequestThatIsTimed(t *testing.T) {
	i := showing(at(t, aiv1.CanaryMeasuring, 0), 1, 1, 1, 25)
	i.Spec.Canary.Gate = &aiv1.InferenceCanaryGate{MaxTimePerRequest: &metav1.Duration{Duration: time.Second}}
	f := facts{now: began.Add(2 * time.Minute)}
	counted := func(requests, seconds float64) {
		f.measured = f.measured.with(map[string]sample{"a": {timed: true, requests: requests, requestSeconds: seconds}})
	}
	for range leastRounds {
		counted(7, 9)
	}
	if p := decide(i, f).progress; p.Phase != aiv1.CanaryMeasuring || !strings.Contains(p.Message, "counted no request") {
		t.Errorf("without a request: %+v", p)
	}
	counted(8, 9.5)
	if p := decide(i, f).progress; p.Phase != aiv1.CanaryStarting || p.Step != 1 {
		t.Errorf("after a request: %+v", p)
	}
	counted(9, 12)
	if p := decide(i, f).progress; p.Phase != aiv1.CanaryRolledBack ||
		p.Message != "step 1: the canary takes 1.5s for a request, and 1s are allowed" {
		t.Errorf("after a slow request: %+v", p)
	}
}

func TestWindow(t *testing.T) {
	gate := &aiv1.InferenceCanaryGate{MaxErrorRate: new(int32(25)),
		MaxTimePerToken:   &metav1.Duration{Duration: 20 * time.Millisecond},
		MaxTimePerRequest: &metav1.Duration{Duration: 500 * time.Millisecond}}
	failing, answering := map[string]sample{"a": {failure: "refused"}}, map[string]sample{"a": {}}
	took := func(tokens, seconds float64) map[string]sample {
		return map[string]sample{"a": {tokens: tokens, seconds: seconds, counted: true}}
	}
	counted := func(requests, failed float64) map[string]sample {
		return map[string]sample{"a": {clients: true, requests: requests, failed: failed}}
	}
	timed := func(requests, seconds float64) map[string]sample {
		return map[string]sample{"a": {timed: true, requests: requests, requestSeconds: seconds}}
	}
	for name, c := range map[string]struct {
		rounds []map[string]sample
		want   string
	}{
		"clients are served": {[]map[string]sample{counted(10, 9), counted(13, 9), counted(14, 10)}, ""},
		"clients are not": {[]map[string]sample{counted(10, 0), counted(12, 1), counted(13, 2)},
			"2 of 3 requests failed, and 25 % may: a: it has counted 1 in the last round"},
		"counters are gone": {[]map[string]sample{counted(10, 0), counted(11, 0), failing},
			"1 of 2 requests failed, and 25 % may: a: refused"},
		"counts anew": {[]map[string]sample{counted(10, 8), counted(1, 1), counted(9, 1)}, ""},
		"too little":  {[]map[string]sample{failing, failing}, ""},
		"all fail": {[]map[string]sample{failing, failing, failing},
			"3 of 3 requests failed, and 25 % may: a: refused"},
		"as many as may": {[]map[string]sample{answering, answering, answering, failing}, ""},
		"fast enough":    {[]map[string]sample{took(10, 1), took(20, 1.1), took(110, 3)}, ""},
		"too slow": {[]map[string]sample{took(10, 1), took(20, 1.1), took(110, 3.5)},
			"the canary takes 25ms for a token, and 20ms are allowed"},
		"requests are fast enough": {[]map[string]sample{timed(10, 8), timed(11, 8.4), timed(14, 10)}, ""},
		"requests are too slow": {[]map[string]sample{timed(10, 8), timed(11, 8.4), timed(14, 10.4)},
			"the canary takes 600ms for a request, and 500ms are allowed"},
		"requests are timed anew": {[]map[string]sample{timed(10, 8), timed(0, 0), timed(2, 0.5)}, ""},
		"no tokens":               {[]map[string]sample{took(10, 1), took(10, 1), took(10, 1)}, ""},
		"started anew":            {[]map[string]sample{took(1000, 10), took(0, 0), took(10, 0.1)}, ""},
		"does not tell its own":   {[]map[string]sample{answering, answering, answering}, ""},
	} {
		var w window
		for _, round := range c.rounds {
			w = w.with(round)
		}
		if got := w.breaks(gate); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
		if got := w.breaks(nil); got != "" {
			t.Errorf("%s: without a gate: %q", name, got)
		}
	}
	w := window{}
	for range 2 * windowRounds {
		w = w.with(answering)
	}
	if len(w) != windowRounds {
		t.Errorf("%d rounds count", len(w))
	}
}
