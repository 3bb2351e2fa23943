// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
)

func TestTooLittleMemory(t *testing.T) {
	uses := []MemoryUse{{"redis-a-0", 30 * mebibyte}, {"redis-a-1", 70*mebibyte + 1}, {"redis-a-2", 0}}
	for name, test := range map[string]struct {
		limit string
		uses  []MemoryUse
		// says are parts of the sentence; none where it is well.
		says []string
	}{
		"more than enough":        {"128Mi", uses, nil},
		"the least that would do": {"78Mi", uses, nil},
		"a byte below that": {"81788927", uses,
			[]string{"pod redis-a-1 uses 71Mi", "a limit of 81788927 is asked for", "the least that would do is 78Mi"}},
		"less than one uses": {"64Mi", uses,
			[]string{"pod redis-a-1 uses 71Mi of memory now, and", "a limit of 64Mi", "the least that would do is 78Mi"}},
		"less than all use": {"16Mi", uses, []string{"pod redis-a-1 uses 71Mi of memory now, the most of 2 pods"}},
		"nobody knows":      {"1Mi", []MemoryUse{{"redis-a-0", 0}}, nil},
		"nobody is there":   {"1Mi", nil, nil},
		"the first of those alike": {"1Mi", []MemoryUse{{"redis-a-1", mebibyte}, {"redis-a-0", mebibyte}},
			[]string{"pod redis-a-0 uses 1Mi", "is 2Mi"}},
		"what uses hardly anything": {"1Mi", []MemoryUse{{"redis-a-0", 4096}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := TooLittleMemory(resource.MustParse(test.limit), test.uses)
			if (got == "") != (test.says == nil) {
				t.Errorf("it says %q", got)
			}
			for _, part := range test.says {
				if !strings.Contains(got, part) {
					t.Errorf("it says %q, want %q in it", got, part)
				}
			}
		})
	}
}
