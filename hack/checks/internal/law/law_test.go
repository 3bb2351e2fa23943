// SPDX-License-Identifier: Apache-2.0

package law

import "testing"

func TestAllows(t *testing.T) {
	for _, c := range []struct {
		path, imports string
		code, test    bool
	}{
		{"platform-core/agentproto/plan", "google.golang.org/protobuf/proto", true, true},
		{"platform-core/agentproto/plan", "k8s.io/apimachinery/pkg/runtime", false, true},
		{"platform-core/api/v1", "k8s.io/api/core/v1", true, true},
		{"platform-core/api/v1", "sigs.k8s.io/controller-runtime/pkg/client", false, true},
		{"platform-core/sdk/typed", suite + "platform-core/internal/engine", false, true},
		{"platform-core/sdk/operator", suite + "platform-core/internal/engine", true, true},
		{"platform-core/internal/render", suite + "platform-core/internal/plugin", true, true},
		{"platform-core/internal/render", "sigs.k8s.io/controller-runtime/pkg/client", false, true},
		{"platform-core/internal/rollout", suite + "platform-core/internal/agentclient", false, true},
		{"platform-core/internal/controller/component", suite + "platform-core/internal/render", true, true},
		{"platform-core/internal/controller/component", suite + "platform-core/internal/controller/workloadset", false,
			false},
		{"platform-core/internal/controller/component/facts", suite + "platform-core/internal/controller/component", true,
			true},
		{"platform-core/internal/controller/workloadset", suite + "platform-core/internal/controller/workloadset/pods", true,
			true},
		{"platform-core/internal/controller/workloadset/pods",
			suite + "platform-core/internal/controller/workloadset/facts", true, true},
		{"platform-core/internal/controller/workloadset/pods",
			suite + "platform-core/internal/controller/workloadset/primary", false, false},
		{"platform-core/internal/controller/workloadset/pods", suite + "platform-core/internal/controller/workloadset",
			false, false},
		{"platform-core/internal/agentclient", suite + "platform-core/internal/controller/operation", false, false},
		{"agents/internal/supervisor", suite + "platform-core/agentproto/v1", true, true},
		{"agents/internal/supervisor", suite + "platform-core/api/v1", false, true},
		{"agents/internal/supervisor", "k8s.io/apimachinery/pkg/types", false, true},
		{"database-operator/internal/kind/redis", suite + "database-operator/api/v1", true, true},
		{"database-operator/internal/kind/redis", suite + "database-operator/internal/kind/mysql", false, false},
		{"database-operator/internal/kind/redis", suite + "database-operator/internal/sqlgrant", true, true},
		{"database-operator/internal/kind/redis", suite + "message-operator/api/v1", false, false},
		{"database-operator/internal/kind/redis", "sigs.k8s.io/controller-runtime/pkg/client", false, true},
		{"database-operator/internal/kind", suite + "database-operator/internal/kind/redis", true, true},
		{"database-operator/cmd", suite + "platform-core/sdk/operator", true, true},
		{"database-operator/cmd", suite + "platform-core/internal/engine", false, true},
		{"hack/images/internal/oci", suite + "hack/devcluster/internal/build", false, false},
		{"test/e2e/database", suite + "database-operator/api/v1", true, true},
		{"test/e2e/database", suite + "test/e2e/framework", true, true},
		{"database-operator/cmd", suite + "test/e2e/framework", false, false},
		{"platform-core/internal/render", "net/http", true, true},
	} {
		r, names, found := ruleOf(c.path)
		if !found {
			t.Errorf("no rule covers %s", c.path)
			continue
		}
		if got := r.allows(c.path, c.imports, names, false); got != c.code {
			t.Errorf("%s importing %s: allowed %v, want %v", c.path, c.imports, got, c.code)
		}
		if got := r.allows(c.path, c.imports, names, true); got != c.test {
			t.Errorf("test of %s importing %s: allowed %v, want %v", c.path, c.imports, got, c.test)
		}
	}
	if _, _, found := ruleOf("newthing/x"); found {
		t.Error("a folder outside the law is covered")
	}
}
