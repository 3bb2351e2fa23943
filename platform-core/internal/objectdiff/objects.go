// SPDX-License-Identifier: Apache-2.0

package objectdiff

import "fmt"

// objects tells Kubernetes objects apart, by kind and name.
var objects = &naming{
	name: Name,
	stub: func(o Object) Object {
		return Object{"kind": o["kind"], "metadata": Object{"name": metadata(o)["name"]}}
	},
}

// Name of a Kubernetes object: its kind and metadata.name.
func Name(o Object) string {
	if o["kind"] == nil || metadata(o)["name"] == nil {
		return ""
	}
	return fmt.Sprint(o["kind"], " ", metadata(o)["name"])
}

// Identify has a difference of an object have its kind and name.
func Identify(patch, object Object) Object { return named(patch, objects.stub(object)) }

func metadata(o Object) Object {
	m, _ := o["metadata"].(Object)
	return m
}

// DiffObjects returns what makes Kubernetes objects of others, each with its kind and name. It fails where two have the
// same.
func DiffObjects(from, to []any) ([]any, error) {
	if _, ok := objects.all(from); !ok {
		return nil, fmt.Errorf("objects cannot be compared with others where two have one kind and name")
	}
	patch, ok := objects.diff(from, to)
	if !ok {
		return nil, fmt.Errorf("objects cannot be told apart where two have one kind and name")
	}
	return patch, nil
}

// ApplyObjects returns what a difference makes of Kubernetes objects.
func ApplyObjects(from, patch []any) []any { return objects.apply(from, patch) }
