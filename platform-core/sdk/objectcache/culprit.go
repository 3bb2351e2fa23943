// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// culprit names the first field of an object that cannot be decoded, for example spec.schedules[0].timeout: the errors
// of most types tell the value alone.
func (s *sieve) culprit(object []byte) string {
	var tree map[string]any
	if json.Unmarshal(object, &tree) != nil {
		return ""
	}
	path := s.within(tree, func(v any) any { return v })
	if len(path) > 0 && path[0] == '.' {
		return path[1:]
	}
	return path
}

// within looks for the field in a part of the object: alone in what around holds it, it cannot be decoded either.
func (s *sieve) within(part any, around func(any) any) string {
	fails := func(alone any) bool {
		text, err := json.Marshal(around(alone))
		return err == nil && s.decode(text) != nil
	}
	switch v := part.(type) {
	case map[string]any:
		if fails(map[string]any{}) {
			return ""
		}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if fails(map[string]any{key: v[key]}) {
				return "." + key + s.within(v[key], func(inner any) any { return around(map[string]any{key: inner}) })
			}
		}
	case []any:
		if fails([]any{}) {
			return ""
		}
		for i, element := range v {
			if fails([]any{element}) {
				return fmt.Sprintf("[%d]", i) + s.within(element, func(inner any) any { return around([]any{inner}) })
			}
		}
	}
	return ""
}
