// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
)

// contains says whether a live object has every field of a desired one. Fields
// that only the live one has are defaults or belong to others.
func contains(live, want map[string]any) bool {
	liveMeta, _ := live["metadata"].(map[string]any)
	wantMeta, _ := want["metadata"].(map[string]any)
	for field, value := range wantMeta {
		switch field {
		case "finalizers", "ownerReferences":
			// Sets that others add to, which an apply leaves in place.
			if !hasAll(liveMeta[field], value) {
				return false
			}
		default:
			if !has(liveMeta[field], value) {
				return false
			}
		}
	}
	for field, value := range want {
		if field != "metadata" && !has(live[field], value) {
			return false
		}
	}
	return true
}

// has compares two values. An empty map or list that is wanted is the same as
// none. Lists match item by item: one that others have lengthened differs.
func has(live, want any) bool {
	switch typed := want.(type) {
	case map[string]any:
		fields, ok := live.(map[string]any)
		if !ok {
			return live == nil && IsEmpty(want)
		}
		for field, value := range typed {
			if !has(fields[field], value) {
				return false
			}
		}
		return true
	case []any:
		items, ok := live.([]any)
		if !ok {
			return live == nil && len(typed) == 0
		}
		return slices.EqualFunc(items, typed, has)
	default:
		return equality.Semantic.DeepEqual(live, want)
	}
}

// hasAll says whether each wanted item is somewhere in the live list.
func hasAll(live, want any) bool {
	items, _ := live.([]any)
	wanted, _ := want.([]any)
	for _, item := range wanted {
		if !slices.ContainsFunc(items, func(candidate any) bool { return has(candidate, item) }) {
			return false
		}
	}
	return true
}

// IsEmpty says whether a value, as of JSON, holds nothing but empty maps and lists.
func IsEmpty(value any) bool {
	switch typed := value.(type) {
	case nil:
		return true
	case map[string]any:
		for _, item := range typed {
			if !IsEmpty(item) {
				return false
			}
		}
		return true
	case []any:
		return len(typed) == 0
	default:
		return false
	}
}
