// SPDX-License-Identifier: Apache-2.0

package inference

import (
	"cmp"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/typed"

	aiv1 "github.com/zeroinfra/model-operator/api/v1"
)

// port of the servers.
const port = 8080

// Kinds of the objects beside the Application.
var (
	serviceKind   = schema.GroupVersionKind{Version: "v1", Kind: "Service"}
	httpRouteKind = schema.GroupVersionKind{Group: "gateway.networking.k8s.io", Version: "v1", Kind: "HTTPRoute"}
)

// ObjectKinds implements typed.ObjectMaker.
func (Kind) ObjectKinds() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{serviceKind, httpRouteKind}
}

// route adds the HTTPRoute of an Inference and the Services that it leads to. The one of the stable pods is there also
// without a canary, so that it has long had their addresses when there is one. Behind a door there is the Service of
// the door alone.
func route(i *aiv1.Inference, out *typed.Output) {
	to := i.Spec.HTTPRoute
	if to == nil {
		return
	}
	backends := []any{backend(i, doorComponent, fullWeight)}
	if i.Spec.Idle == nil {
		out.Objects = append(out.Objects, service(i, "stable", stableSet))
		backends = []any{backend(i, "stable", fullWeight)}
	}
	if i.Spec.Canary != nil && i.Spec.Idle == nil {
		weight := routedWeight(i)
		out.Objects = append(out.Objects, service(i, "canary", canarySet))
		backends = []any{backend(i, "stable", fullWeight-weight), backend(i, "canary", weight)}
	}
	parent := map[string]any{"name": to.Gateway}
	if namespace, name, found := strings.Cut(to.Gateway, "/"); found {
		parent = map[string]any{"namespace": namespace, "name": name}
	}
	made := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"parentRefs": []any{parent},
		"hostnames":  []any{string(to.Host)},
		"rules": []any{map[string]any{
			"matches":     []any{map[string]any{"path": map[string]any{"type": "PathPrefix", "value": "/"}}},
			"backendRefs": backends,
		}},
	}}}
	made.SetGroupVersionKind(httpRouteKind)
	made.SetName(platformv1.ApplicationNameFor(Kind{}.Name(), i.Name))
	out.Objects = append(out.Objects, made)
}

func backend(i *aiv1.Inference, of string, weight int64) map[string]any {
	return map[string]any{"name": serviceName(i, of), "port": int64(port), "weight": weight}
}

// ReportObjects implements typed.ObjectReporter: the weight of a canary is read back from the HTTPRoute, and is in
// force as far as a Gateway says that it has taken the route up.
func (Kind) ReportObjects(i *aiv1.Inference, objects []*unstructured.Unstructured) {
	now := i.Status.Canary
	if now == nil || now.Mechanism != aiv1.CanaryByHTTPRoute {
		return
	}
	former, progress, unused := now.Weight, i.CanaryProgress(), ""
	now.Weight = 0
	for _, object := range objects {
		if object.GroupVersionKind() != httpRouteKind {
			continue
		}
		declared := int32(0)
		rules, _, _ := unstructured.NestedSlice(object.Object, "spec", "rules")
		for _, rule := range rules {
			declared += weightIn(rule, serviceName(i, "canary"))
		}
		switch state, why := acceptanceOf(object); state {
		case routeAccepted:
			now.Weight = declared
		case routeOutdated:
			now.Weight, unused = former, notInForce(i, object.GetName(), declared, why)
		default:
			unused = notInForce(i, object.GetName(), declared, why)
		}
	}
	if now.Message = progress.Message; !progress.Phase.Ended() && !progress.Phase.Out() {
		now.Message = cmp.Or(unused, progress.Message)
	}
}

func notInForce(i *aiv1.Inference, route string, weight int32, why string) string {
	return fmt.Sprintf("the weight %d of HTTPRoute %q is not in force: %s. It is waited for: see that Gateway %q exists "+
		"and admits the route", weight, route, why, i.Spec.HTTPRoute.Gateway)
}

// acceptance is how far a Gateway has taken up an HTTPRoute.
type acceptance int

const (
	// routeRefused: no Gateway sends requests by the route.
	routeRefused acceptance = iota
	// routeOutdated: a Gateway sends requests by a former generation of the route.
	routeOutdated
	// routeAccepted: a Gateway sends requests by the present generation of the route.
	routeAccepted
)

// acceptanceOf reads what the Gateways say in the status of an HTTPRoute, one parent of which has to accept it and to
// find its Services. Where none does it says why.
func acceptanceOf(route *unstructured.Unstructured) (state acceptance, why string) {
	why = "no Gateway has said yet that it accepts the route"
	parents, _, _ := unstructured.NestedSlice(route.Object, "status", "parents")
	for _, parent := range parents {
		accepted, found := routeCondition(parent, "Accepted")
		if !found || accepted.ObservedGeneration != route.GetGeneration() {
			if found && accepted.Status == metav1.ConditionTrue {
				state, why = routeOutdated, "the Gateway has not taken up the present generation of the route yet"
			}
			continue
		}
		refused := accepted
		if accepted.Status == metav1.ConditionTrue {
			resolved, found := routeCondition(parent, "ResolvedRefs")
			if !found || resolved.ObservedGeneration != route.GetGeneration() || resolved.Status != metav1.ConditionFalse {
				return routeAccepted, ""
			}
			refused = resolved
		}
		why = fmt.Sprintf("the Gateway says %s is %s, %s: %s", refused.Type, refused.Status, refused.Reason, refused.Message)
	}
	return state, why
}

// routeCondition is one of those of a parent.
func routeCondition(parent any, name string) (condition metav1.Condition, found bool) {
	var said struct {
		Conditions []metav1.Condition `json:"conditions"`
	}
	fields, _ := parent.(map[string]any)
	if runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &said) != nil {
		return metav1.Condition{}, false
	}
	if c := meta.FindStatusCondition(said.Conditions, name); c != nil {
		return *c, true
	}
	return metav1.Condition{}, false
}

// weightIn is that of a backend in a rule; 0 where the rule does not have it.
func weightIn(rule any, name string) int32 {
	fields, _ := rule.(map[string]any)
	backends, _ := fields["backendRefs"].([]any)
	for _, b := range backends {
		if backend, _ := b.(map[string]any); backend["name"] == name {
			weight, _ := backend["weight"].(int64)
			return int32(weight)
		}
	}
	return 0
}
