// SPDX-License-Identifier: Apache-2.0

package inference

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/typed"

	aiv1 "github.com/zeroinfra/model-operator/api/v1"
)

// withCanary is an Inference of version 1.0 with so many replicas and a canary of another version.
func withCanary(replicas int32, version string, weight int32) *aiv1.Inference {
	i := &aiv1.Inference{ObjectMeta: metav1.ObjectMeta{Name: "chat", Namespace: "shop"}}
	i.Spec.Replicas, i.Spec.ModelRef = &replicas, aiv1.InferenceModelReference{Name: "chat", Version: "1.0"}
	i.Spec.Canary = &aiv1.InferenceCanary{Weight: &weight,
		ModelRef: aiv1.InferenceModelReference{Name: "chat", Version: aiv1.ModelVersionName(version)}}
	return i
}

// routedTo has a Gateway split the requests.
func routedTo(i *aiv1.Inference) *aiv1.Inference {
	i.Spec.HTTPRoute = &aiv1.InferenceHTTPRoute{Host: "chat.example.org", Gateway: "public"}
	return i
}

// podsIn are the replicas of the sets of what an Inference compiles to, in their order.
func podsIn(t *testing.T, i *aiv1.Inference) []int32 {
	t.Helper()
	out, err := compiled(i, modelNamed("chat"))
	if err != nil {
		t.Fatal(err)
	}
	var pods []int32
	for _, set := range out.Application.Spec.Components[0].Sets {
		switch {
		case set.Replicas == nil:
			pods = append(pods, -1)
		default:
			pods = append(pods, *set.Replicas)
		}
	}
	return pods
}

func TestCanaryPods(t *testing.T) {
	for name, c := range map[string]struct {
		i    *aiv1.Inference
		want []int32
	}{
		"tenth of ten":        {withCanary(10, "4.0", 10), []int32{9, 1}},
		"half of two":         {withCanary(2, "4.0", 50), []int32{1, 1}},
		"third of three":      {withCanary(3, "4.0", 33), []int32{2, 1}},
		"nothing":             {withCanary(10, "4.0", 0), []int32{-1}},
		"a route":             {routedTo(withCanary(3, "4.0", 10)), []int32{-1, 1}},
		"a route, half":       {routedTo(withCanary(3, "4.0", 50)), []int32{-1, 2}},
		"a route, all":        {routedTo(withCanary(3, "4.0", 100)), []int32{-1, 3}},
		"a route, nothing":    {routedTo(withCanary(3, "4.0", 0)), []int32{-1, 1}},
		"the version of both": {withCanary(2, "1.0", 50), []int32{1, 1}},
	} {
		if got := podsIn(t, c.i); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: the sets have %v pods; want %v", name, got, c.want)
		}
	}
}

// A canary that cannot be as it is asked is refused, and never ignored.
func TestCanaryThatCannotBe(t *testing.T) {
	scaled := withCanary(2, "4.0", 50)
	scaled.Spec.MinReplicas, scaled.Spec.MaxReplicas = 1, 3
	onClaim := withCanary(2, "2.0", 50)
	inBucket := withCanary(2, "3.0", 50)
	withToken := withCanary(2, "6.0", 50)
	unknown := withCanary(2, "9.0", 50)
	for want, i := range map[string]*aiv1.Inference{
		"1 of 10 pods would have 10 %":                       withCanary(10, "4.0", 5),
		"9 of 10 pods would have 90 %":                       withCanary(10, "4.0", 100),
		"set replicas to 2 at least":                         withCanary(1, "4.0", 50),
		"take minReplicas and maxReplicas out":               scaled,
		`on the claim "models", which the other pods do not`: onClaim,
		`credentialsSecretRef "account", and that of`:        inBucket,
		`tokenSecretRef "reader/token", and that of`:         withToken,
		`spec.canary.modelRef.version is "9.0"`:              unknown,
	} {
		if _, err := compiled(i, modelNamed("chat")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// Both sides are scaled where a Gateway splits the requests.
func TestCanaryIsScaledBesideARoute(t *testing.T) {
	i := routedTo(withCanary(2, "4.0", 50))
	i.Spec.MinReplicas, i.Spec.MaxReplicas = 1, 3
	if got := podsIn(t, i); !reflect.DeepEqual(got, []int32{-1, -1}) {
		t.Errorf("the sets have %v pods", got)
	}
}

// The route gives a canary nothing until a pod of it is ready, and nothing again when none is any more.
func TestRouteWaitsForTheCanary(t *testing.T) {
	i := routedTo(withCanary(2, "4.0", 30))
	for _, c := range []struct {
		ready int32
		want  []any
	}{{0, []any{"inference-chat-stable", int64(100), "inference-chat-canary", int64(0)}},
		{1, []any{"inference-chat-stable", int64(70), "inference-chat-canary", int64(30)}}} {
		i.Status.Canary = &aiv1.InferenceCanaryStatus{Mechanism: aiv1.CanaryByHTTPRoute, ReadyReplicas: c.ready}
		var out typed.Output
		route(i, &out)
		if len(out.Objects) != 3 {
			t.Fatalf("there are %d objects", len(out.Objects))
		}
		made := out.Objects[2].(*unstructured.Unstructured)
		rules, _, _ := unstructured.NestedSlice(made.Object, "spec", "rules")
		var got []any
		for _, b := range rules[0].(map[string]any)["backendRefs"].([]any) {
			got = append(got, b.(map[string]any)["name"], b.(map[string]any)["weight"])
		}
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("with %d pods ready the route leads to %v; want %v", c.ready, got, c.want)
		}
		Kind{}.ReportObjects(i, []*unstructured.Unstructured{says(made, made.GetGeneration(), "Accepted=True")})
		if int64(i.Status.Canary.Weight) != c.want[3] {
			t.Errorf("the weight is told as %d; want %d", i.Status.Canary.Weight, c.want[3])
		}
	}
}

// inStep has a canary have steps of these weights, of which one, from 0 on, is in a phase.
func inStep(t *testing.T, i *aiv1.Inference, phase aiv1.CanaryPhase, step int32, weights ...int32) *aiv1.Inference {
	t.Helper()
	i.Spec.Canary.Weight = nil
	for _, weight := range weights {
		i.Spec.Canary.Steps = append(i.Spec.Canary.Steps, aiv1.InferenceCanaryStep{Weight: weight})
	}
	text, err := json.Marshal(aiv1.CanaryProgress{Of: i.Spec.Canary.Digest(), Phase: phase, Step: step, Message: "said"})
	if err != nil {
		t.Fatal(err)
	}
	i.Annotations = map[string]string{aiv1.CanaryProgressAnnotation: string(text)}
	return i
}

func TestCanarySteps(t *testing.T) {
	edited := inStep(t, withCanary(10, "4.0", 0), aiv1.CanaryRolledBack, 1, 10, 50)
	edited.Spec.Canary.ModelRef.Version = "1.0"
	for name, c := range map[string]struct {
		i    *aiv1.Inference
		want []int32
	}{
		"the first":   {inStep(t, withCanary(10, "4.0", 0), "", 0, 10, 50), []int32{9, 1}},
		"the second":  {inStep(t, withCanary(10, "4.0", 0), aiv1.CanaryStarting, 1, 10, 50), []int32{5, 5}},
		"complete":    {inStep(t, withCanary(10, "4.0", 0), aiv1.CanaryComplete, 1, 10, 50), []int32{5, 5}},
		"rolled back": {inStep(t, withCanary(10, "4.0", 0), aiv1.CanaryRolledBack, 1, 10, 50), []int32{-1}},
		"refused":     {inStep(t, withCanary(10, "4.0", 0), aiv1.CanaryRefused, 0, 10, 50), []int32{-1}},
		"edited":      {edited, []int32{9, 1}},
		"a route": {routedTo(inStep(t, withCanary(2, "4.0", 0), aiv1.CanaryMeasuring, 1, 10, 100)),
			[]int32{-1, 2}},
		"a route refused":     {routedTo(inStep(t, withCanary(2, "4.0", 0), aiv1.CanaryRefused, 0, 10, 100)), []int32{-1}},
		"a route rolled back": {routedTo(inStep(t, withCanary(2, "4.0", 0), aiv1.CanaryRolledBack, 1, 10, 100)), []int32{-1}},
	} {
		if got := podsIn(t, c.i); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: the sets have %v pods; want %v", name, got, c.want)
		}
	}
	_, err := compiled(inStep(t, withCanary(10, "4.0", 0), aiv1.CanaryMeasuring, 0, 10, 55), modelNamed("chat"))
	if want := "spec.canary.steps[1].weight is 55"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
}

// A gate that cannot be measured stalls the Inference, and all else of the spec is applied.
func TestCompileOfARefusedGate(t *testing.T) {
	for phase, want := range map[aiv1.CanaryPhase]string{aiv1.CanaryRefused: "said", aiv1.CanaryRolledBack: ""} {
		i := inStep(t, withCanary(10, "4.0", 0), phase, 0, 10, 50)
		i.Spec.Parameters = platformv1.Parameters{"threads": "3"}
		out, err := Kind{}.CompileWith(i, typed.Referents{reference(i): modelNamed("chat"),
			canaryReference(i): modelNamed("chat")})
		if err != nil {
			t.Fatal(err)
		}
		refusal, is := errors.AsType[*typed.Refusal](out.Refused)
		if is != (want != "") || is && (refusal.Reason != platformv1.ReasonInvalidSpec || refusal.Message != want) {
			t.Errorf("%s: got %v, want %q", phase, out.Refused, want)
		}
		if main := out.Application.Spec.Components[0]; main.Parameters["threads"] != "3" {
			t.Errorf("%s: the parameters are %v", phase, main.Parameters)
		}
	}
}

// The route keeps the weight of the step before until all pods of a step are ready.
func TestRouteFollowsTheSteps(t *testing.T) {
	for name, c := range map[string]struct {
		phase       aiv1.CanaryPhase
		step, ready int32
		want        int64
	}{
		"first, not ready":  {aiv1.CanaryStarting, 0, 0, 0},
		"first":             {aiv1.CanaryMeasuring, 0, 1, 10},
		"second, not ready": {aiv1.CanaryStarting, 1, 1, 10},
		"second":            {aiv1.CanaryMeasuring, 1, 2, 50},
		"rolled back":       {aiv1.CanaryRolledBack, 1, 2, 0},
	} {
		i := routedTo(inStep(t, withCanary(4, "4.0", 0), c.phase, c.step, 10, 50))
		i.Status.Canary = &aiv1.InferenceCanaryStatus{Mechanism: aiv1.CanaryByHTTPRoute, ReadyReplicas: c.ready}
		if got := routedWeight(i); got != c.want {
			t.Errorf("%s: the weight is %d; want %d", name, got, c.want)
		}
	}
}

func TestReportOfSteps(t *testing.T) {
	app := &platformv1.Application{}
	app.Spec.Components = []platformv1.ApplicationComponent{{Sets: []platformv1.ComponentSet{{Name: stableSet}}}}
	i := inStep(t, withCanary(10, "4.0", 0), aiv1.CanaryRolledBack, 1, 10, 50)
	reportCanary(i, app)
	if s := i.Status.Canary; s == nil || s.Phase != aiv1.CanaryRolledBack || s.Step != 2 || s.Since == nil ||
		s.Message != "said" || s.Weight != 0 {
		t.Errorf("got %+v", s)
	}
}

func TestReportOfACanary(t *testing.T) {
	app := &platformv1.Application{ObjectMeta: metav1.ObjectMeta{
		Annotations: map[string]string{canaryModelAnnotation: "chat", canaryVersionAnnotation: "4.0"}}}
	app.Spec.Components = []platformv1.ApplicationComponent{{Sets: []platformv1.ComponentSet{{Name: stableSet},
		{Name: canarySet, Parameters: platformv1.Parameters{digestParameter: "44"}}}}}
	app.Status.Components = []platformv1.ComponentState{{Name: "server", Sets: []platformv1.SetState{
		{Name: stableSet, Replicas: 3, ReadyReplicas: 3}, {Name: canarySet, Replicas: 2, ReadyReplicas: 1}}}}
	i := withCanary(5, "4.0", 40)
	want := aiv1.InferenceCanaryStatus{
		Model:     &aiv1.InferenceModelStatus{Name: "chat", Version: "4.0", Digest: "sha256:44"},
		Mechanism: aiv1.CanaryByReplicas, Weight: 25, Replicas: 2, ReadyReplicas: 1}
	reportCanary(i, app)
	if i.Status.Canary == nil || !reflect.DeepEqual(*i.Status.Canary, want) {
		t.Errorf("got %+v, want %+v", i.Status.Canary, want)
	}
	i.Spec.Canary = nil
	if reportCanary(i, app); i.Status.Canary != nil {
		t.Errorf("without a canary there is %+v", i.Status.Canary)
	}
}

// recorded has a record of the steps of a canary say how many pods there are to be at least, of it and of the others.
func recorded(t *testing.T, i *aiv1.Inference, phase aiv1.CanaryPhase, pods, others int32) *aiv1.Inference {
	t.Helper()
	text, err := json.Marshal(aiv1.CanaryProgress{Of: i.Spec.Canary.Digest(), Phase: phase, Step: 1, Pods: pods,
		MainPods: others})
	if err != nil {
		t.Fatal(err)
	}
	i.Annotations = map[string]string{aiv1.CanaryProgressAnnotation: string(text)}
	return i
}

// Where autoscalers decide, each side has as many pods as the record says at least, within the bounds.
func TestScaledPodsFollowTheRecord(t *testing.T) {
	for name, c := range map[string]struct {
		pods, others int32
		change       func(*aiv1.Inference)
		want         []int32
	}{
		"nothing asked":         {0, 0, nil, []int32{0, 0}},
		"as many as anyhow":     {2, 0, nil, []int32{0, 0}},
		"more":                  {5, 0, nil, []int32{0, 5}},
		"more than the bounds":  {9, 0, nil, []int32{0, 6}},
		"taking over":           {0, 4, nil, []int32{4, 0}},
		"the canary was edited": {5, 4, func(i *aiv1.Inference) { i.Spec.Canary.ModelRef.Version = "1.0" }, []int32{4, 0}},
		"the canary went":       {5, 4, func(i *aiv1.Inference) { i.Spec.Canary = nil }, []int32{4}},
	} {
		i := routedTo(inStep(t, withCanary(4, "4.0", 0), aiv1.CanaryStarting, 1, 10, 50))
		i.Spec.MinReplicas, i.Spec.MaxReplicas = 2, 6
		recorded(t, i, aiv1.CanaryStarting, c.pods, c.others)
		if c.change != nil {
			c.change(i)
		}
		out, err := compiled(i, modelNamed("chat"))
		if err != nil {
			t.Fatal(err)
		}
		var got []int32
		for _, set := range out.Application.Spec.Components[0].Sets {
			least := int32(0)
			if set.MinReplicas != nil {
				least = *set.MinReplicas
			}
			got = append(got, least)
		}
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: the autoscalers leave %v pods; want %v", name, got, c.want)
		}
	}
}

// The route keeps the weight of the step before until the pods are ready that the weight of a step asks for.
func TestRouteWaitsForScaledPods(t *testing.T) {
	for name, c := range map[string]struct {
		phase       aiv1.CanaryPhase
		pods, ready int32
		want        int64
	}{
		"too few":                 {aiv1.CanaryStarting, 5, 4, 10},
		"all":                     {aiv1.CanaryStarting, 5, 5, 50},
		"as many as there may be": {aiv1.CanaryStarting, 9, 6, 50},
		"in force":                {aiv1.CanaryMeasuring, 5, 1, 50},
		"none":                    {aiv1.CanaryMeasuring, 5, 0, 0},
	} {
		i := routedTo(inStep(t, withCanary(4, "4.0", 0), c.phase, 1, 10, 50))
		i.Spec.MinReplicas, i.Spec.MaxReplicas = 2, 6
		recorded(t, i, c.phase, c.pods, 0)
		i.Status.Canary = &aiv1.InferenceCanaryStatus{Mechanism: aiv1.CanaryByHTTPRoute, ReadyReplicas: c.ready}
		if got := routedWeight(i); got != c.want {
			t.Errorf("%s: the weight is %d; want %d", name, got, c.want)
		}
	}
}
