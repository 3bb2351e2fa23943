// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Names of Entities are allowed ones, and no two objects share one.
func TestEntityNames(t *testing.T) {
	seen := map[string]string{}
	for _, name := range []string{"app", "App", "a.b", "a-b", "ops@shop", "-", strings.Repeat("x", 63), strings.Repeat("x", 64), "app-", "172ed3ecf48b5c6f"} {
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
