// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
)

// A pod is of one WorkloadSet, and not of another one whose name begins with that one's.
func TestWorkloadSetNameOf(t *testing.T) {
	for pod, want := range map[string]string{PodNameFor("a-c-m", 0): "a-c-m", PodNameFor("a-c-m", 12): "a-c-m",
		PodNameFor("a-c-m-x-y", 0): "a-c-m-x-y", PodNameFor("b-a-c-m", 0): "b-a-c-m", "pod": "", "": ""} {
		if got := WorkloadSetNameOf(pod); got != want {
			t.Errorf("%q is of %q", pod, got)
		}
	}
}

// What is derived from names is allowed at every length, wherever those have dots and hyphens, and follows from the
// whole of them.
func TestDerivedNames(t *testing.T) {
	for _, limit := range []int{MaxLabelValue, MaxObjectName} {
		seen := map[string]string{}
		for length := 1; length <= MaxObjectName; length++ {
			for _, unit := range []string{"a", "a.", "a-", "ab.c-", "a--", "1.2.3-4"} {
				name := strings.Repeat(unit, length)[:length-1] + "z"
				got := DerivedName(limit, name, "backup")
				if problems := validation.IsDNS1123Subdomain(got); len(problems) > 0 || len(got) > limit {
					t.Fatalf("%q gives %q, which is longer than %d or not allowed: %v", name, got, limit, problems)
				}
				if whole := name + "-backup"; len(whole) <= limit && got != whole {
					t.Fatalf("%q gives %q, and fits", name, got)
				}
				if other := DerivedName(limit, name, "backuq"); other == got {
					t.Fatalf("%q gives %q, whatever follows", name, got)
				}
				if other, taken := seen[got]; taken && other != name {
					t.Fatalf("%q and %q give %q", name, other, got)
				}
				seen[got] = name
			}
		}
	}
	// Names that are in clusters stay.
	long := strings.Repeat("a", 60)
	if got := DerivedName(MaxLabelValue, long, "backup"); got != strings.Repeat("a", 54)+"-16724c8e" {
		t.Errorf("it is %q", got)
	}
}

// Names of Entities are allowed ones, and no two objects share one.
func TestEntityNames(t *testing.T) {
	seen := map[string]string{}
	for _, name := range []string{"app", "App", "a.b", "a-b", "ops@shop", "-", strings.Repeat("x", 63),
		strings.Repeat("x", 64), "app-", "172ed3ecf48b5c6f"} {
		got := EntityNameFor("redis-cache", "acl-user", name)
		if problems := validation.IsDNS1123Subdomain(got); len(problems) > 0 {
			t.Errorf("%q has the name %q: %v", name, got, problems)
		}
		if other, taken := seen[got]; taken {
			t.Errorf("%q and %q share the name %q", name, other, got)
		}
		seen[got] = name
	}
	if got := EntityNameFor("redis-cache", "acl-user", "app"); got != "redis-cache-acl-user-app" {
		t.Errorf("it is %q", got)
	}
}
