// SPDX-License-Identifier: Apache-2.0

package inference

import (
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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

// ReportObjects implements typed.ObjectReporter: the weight of a canary is read back from the HTTPRoute.
func (Kind) ReportObjects(i *aiv1.Inference, objects []*unstructured.Unstructured) {
	if i.Status.Canary == nil || i.Status.Canary.Mechanism != aiv1.CanaryByHTTPRoute {
		return
	}
	i.Status.Canary.Weight = 0
	for _, object := range objects {
		if object.GroupVersionKind() != httpRouteKind {
			continue
		}
		rules, _, _ := unstructured.NestedSlice(object.Object, "spec", "rules")
		for _, rule := range rules {
			i.Status.Canary.Weight += weightIn(rule, serviceName(i, "canary"))
		}
	}
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
