// SPDX-License-Identifier: Apache-2.0

package inference

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/zeroinfra/platform-core/sdk/typed"

	aiv1 "github.com/zeroinfra/model-operator/api/v1"
)

// says has one more Gateway give conditions of a generation of a route, such as Accepted=True.
func says(route *unstructured.Unstructured, generation int64, conditions ...string) *unstructured.Unstructured {
	var all []any
	for _, condition := range conditions {
		name, value, _ := strings.Cut(condition, "=")
		all = append(all, map[string]any{"type": name, "status": value, "observedGeneration": generation,
			"reason": "ForATest", "message": "said by the Gateway"})
	}
	parents, _, _ := unstructured.NestedSlice(route.Object, "status", "parents")
	parents = append(parents, map[string]any{"controllerName": "example.com/gateway", "conditions": all})
	if err := unstructured.SetNestedSlice(route.Object, parents, "status", "parents"); err != nil {
		panic(err)
	}
	return route
}

// The weight of a route is in force once a Gateway has accepted its present generation, and finds its Services.
func TestWeightIsInForceOnceAGatewayHasAcceptedTheRoute(t *testing.T) {
	const present = 3
	for name, c := range map[string]struct {
		says   func(*unstructured.Unstructured)
		want   int32
		reason string
	}{
		"no Gateway": {func(*unstructured.Unstructured) {}, 0, "no Gateway has said yet that it accepts the route"},
		"accepted":   {func(r *unstructured.Unstructured) { says(r, present, "Accepted=True") }, 30, ""},
		"accepted and resolved": {func(r *unstructured.Unstructured) {
			says(r, present, "Accepted=True", "ResolvedRefs=True")
		},
			30, ""},
		"another one refuses it": {func(r *unstructured.Unstructured) {
			says(says(r, present, "Accepted=False"), present, "Accepted=True")
		}, 30, ""},
		"refused": {func(r *unstructured.Unstructured) { says(r, present, "Accepted=False") }, 0,
			"the Gateway says Accepted is False, ForATest: said by the Gateway"},
		"no Services": {func(r *unstructured.Unstructured) { says(r, present, "Accepted=True", "ResolvedRefs=False") }, 0,
			"the Gateway says ResolvedRefs is False"},
		"the generation before": {func(r *unstructured.Unstructured) { says(r, present-1, "Accepted=True") }, 20,
			"the Gateway has not taken up the present generation"},
		"the generation before was refused": {func(r *unstructured.Unstructured) { says(r, present-1, "Accepted=False") }, 0,
			"no Gateway has said yet"},
	} {
		i := routedTo(withCanary(2, "4.0", 30))
		i.Status.Canary = &aiv1.InferenceCanaryStatus{Mechanism: aiv1.CanaryByHTTPRoute, ReadyReplicas: 1, Weight: 20,
			Message: "said before"}
		var out typed.Output
		route(i, &out)
		made := out.Objects[2].(*unstructured.Unstructured)
		made.SetGeneration(present)
		c.says(made)
		Kind{}.ReportObjects(i, []*unstructured.Unstructured{made})
		got := i.Status.Canary
		if got.Weight != c.want || (c.reason == "") != (got.Message == "") || !strings.Contains(got.Message, c.reason) {
			t.Errorf("%s: the weight is %d, with the message %q; want %d and %q", name, got.Weight, got.Message, c.want,
				c.reason)
		}
	}
}

// Why a canary was rolled back or refused is not replaced by what a Gateway says of the route.
func TestMessageOfARollBackStays(t *testing.T) {
	for phase, want := range map[aiv1.CanaryPhase]string{
		aiv1.CanaryRolledBack: "said", aiv1.CanaryRefused: "said", aiv1.CanaryStarting: "not in force",
	} {
		i := routedTo(inStep(t, withCanary(4, "4.0", 0), phase, 1, 10, 50))
		i.Status.Canary = &aiv1.InferenceCanaryStatus{Mechanism: aiv1.CanaryByHTTPRoute}
		var out typed.Output
		route(i, &out)
		made := out.Objects[2].(*unstructured.Unstructured)
		Kind{}.ReportObjects(i, []*unstructured.Unstructured{made})
		if got := i.Status.Canary.Message; !strings.Contains(got, want) {
			t.Errorf("%s: the message is %q; want %q", phase, got, want)
		}
	}
}
