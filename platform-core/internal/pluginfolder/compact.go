// SPDX-License-Identifier: Apache-2.0

package pluginfolder

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"github.com/zeroinfra/platform-core/internal/objectdiff"
)

// What stands in a golden file for what other objects of it tell already.
const (
	// like is a field of an object of which only that is written in which it differs from what it is like.
	like = "like"
	// likeTemplate and the name of a WorkloadSet are its template, and likePlan its plan.
	likeTemplate, likePlan = "template of WorkloadSet ", "plan of WorkloadSet "
	planKey                = "plan.json"
)

// compact leaves out what the objects before tell: the plan of a WorkloadSet in its ConfigMap, of each Pod of a
// WorkloadSet what its template has, and of another WorkloadSet of a component what the first has.
func compact(objects []any) []any {
	var all []any
	known, first := map[string]any{}, map[any]string{}
	for _, o := range objects {
		object := o.(objectdiff.Object)
		short := object
		switch object["kind"] {
		case "WorkloadSet":
			component := field(object, "spec", "component")
			if before := first[component]; before != "" {
				short = shortOf(object, before, known)
			} else {
				first[component] = objectdiff.Name(object)
			}
		case "ConfigMap":
			short = withoutPlan(object, known)
		case "Pod":
			set, _ := ordinal(nameOf(object))
			short = shortOf(object, likeTemplate+set, known)
		}
		remember(object, known)
		all = append(all, short)
	}
	return all
}

// remember has others be like an object, and like its template.
func remember(object objectdiff.Object, known map[string]any) {
	known[objectdiff.Name(object)] = object
	if object["kind"] == "WorkloadSet" {
		known[likeTemplate+nameOf(object)] = field(object, "spec", "template")
		known[likePlan+nameOf(object)] = field(object, "spec", "plan")
	}
}

func withoutPlan(object objectdiff.Object, known map[string]any) objectdiff.Object {
	from := likePlan + strings.TrimSuffix(nameOf(object), "-plan")
	text, there := field(object, "data", planKey).(string)
	if plan, ok := known[from]; !ok || !there || textOf(plan) != text {
		return object
	}
	short := maps.Clone(object)
	short["data"] = objectdiff.Apply(short["data"], objectdiff.Object{planKey: from})
	return short
}

// shortOf is an object without what it has in common with another one.
func shortOf(object objectdiff.Object, from string, known map[string]any) objectdiff.Object {
	if known[from] == nil {
		return object
	}
	patch, _ := objectdiff.Diff(under(nameOf(object), from, known), any(object))
	short := maps.Clone(patch.(objectdiff.Object))
	short[like] = from
	return objectdiff.Identify(short, object)
}

// expand is what compact was given.
func expand(objects []any) ([]any, error) {
	var all []any
	known := map[string]any{}
	for _, o := range objects {
		object := o.(objectdiff.Object)
		if from, ok := object[like].(string); ok {
			rest := maps.Clone(object)
			delete(rest, like)
			if object, ok = objectdiff.Apply(under(nameOf(rest), from, known), rest).(objectdiff.Object); !ok {
				return nil, fmt.Errorf("there is no %s", from)
			}
		}
		remember(object, known)
		if from, ok := field(object, "data", planKey).(string); ok && known[from] != nil {
			object = maps.Clone(object)
			object["data"] = objectdiff.Apply(object["data"], objectdiff.Object{planKey: textOf(known[from])})
		}
		all = append(all, object)
	}
	return all, nil
}

// under is what an object is like, with the name of that object: a template with what it says of pods, or another
// object.
func under(name, from string, known map[string]any) any {
	if object, ok := known[from].(objectdiff.Object); ok && !strings.HasPrefix(from, likeTemplate) {
		return replaced(object, strings.NewReplacer(nameOf(object), name))
	}
	_, number := ordinal(name)
	return replaced(known[from], strings.NewReplacer("${pod.name}", name, "${pod.ordinal}", number))
}

// ordinal is the WorkloadSet of a pod and the pod's number in it, by the pod's name.
func ordinal(pod string) (set, number string) {
	at := strings.LastIndexByte(pod, '-')
	return pod[:max(at, 0)], pod[at+1:]
}

// replaced is a tree with other texts.
func replaced(tree any, r *strings.Replacer) any {
	switch node := tree.(type) {
	case string:
		return r.Replace(node)
	case objectdiff.Object:
		all := objectdiff.Object{}
		for name, value := range node {
			all[name] = replaced(value, r)
		}
		return all
	case []any:
		all := []any{}
		for _, value := range node {
			all = append(all, replaced(value, r))
		}
		return all
	}
	return tree
}

func nameOf(object objectdiff.Object) string {
	name, _ := field(object, "metadata", "name").(string)
	return name
}

// field is a value within an object; nil where there is none.
func field(object objectdiff.Object, path ...string) any {
	var at any = object
	for _, name := range path {
		node, _ := at.(objectdiff.Object)
		at = node[name]
	}
	return at
}

// textOf is a plan as its ConfigMap has it.
func textOf(plan any) string {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(plan); err != nil {
		return ""
	}
	return strings.TrimSuffix(text.String(), "\n")
}
