// SPDX-License-Identifier: Apache-2.0

//go:build integration

package entity

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/agentclient"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// An agent that was told of changes does not do any more what an operator asks that has missed the present writer of
// the set.
func TestChangesAreMadeInTheTermOfTheSet(t *testing.T) {
	f := newFixture(t)
	set := &platformv1.WorkloadSet{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "redis-a-redis-main"},
		Spec: platformv1.WorkloadSetSpec{
			Application: "redis-a", Component: "redis", Set: "main",
			Plugin: platformv1.PluginReference{Name: "redis", Version: "1.0.0"}, Version: "7.0", Replicas: 1, Revision: "1",
			Template: runtime.RawExtension{Raw: []byte(`{}`)}, Plan: runtime.RawExtension{Raw: []byte(`{}`)}}}
	f.create(set)
	set.Status.Primary = &platformv1.PrimaryRecord{Term: 3}
	if err := env.Client.Status().Update(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: podName}}
	if err := testkit.Edit(t.Context(), env.Client, pod, func() {
		pod.OwnerReferences = []metav1.OwnerReference{
			*metav1.NewControllerRef(set, platformv1.GroupVersion.WithKind("WorkloadSet"))}
	}); err != nil {
		t.Fatal(err)
	}
	f.secret("users", map[string]string{"alice": "secret"})
	alice := f.entity("alice", nil)
	f.create(alice)
	f.run(-1)
	f.ready(alice)
	connections := agentclient.New(f.authority, agentclient.WithOpsPort(f.opsPort))
	t.Cleanup(connections.Close)
	agent, err := connections.DialEntities(t.Context(), pod)
	if err != nil {
		t.Fatal(err)
	}
	gone := []agentclient.EntityChange{
		{EntityQuery: agentclient.EntityQuery{Name: "mallory"}, Intent: agentclient.EntityDelete}}
	if _, err := agent.Change(agentclient.Within(t.Context(), 2), "late", "acl-user", gone); err == nil ||
		!strings.Contains(err.Error(), "2 is lower than 3") {
		t.Errorf("it is asked in term 2: %v", err)
	}
	if _, err := agent.Change(agentclient.Within(t.Context(), 3), "in time", "acl-user", gone); err != nil {
		t.Errorf("it is asked in term 3: %v", err)
	}
}
