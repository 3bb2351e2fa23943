// SPDX-License-Identifier: Apache-2.0

//go:build integration

package engine_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// Steps of Operations apply, patch and delete Components and WorkloadSets like a user who does: what a user may change
// there is declared, other edits are taken back, and a set that is deleted is made again with its volumes. They do it
// as the account that the Operation names, and only that.
func TestStepsActOnComponentsAndWorkloadSets(t *testing.T) {
	env.Controllers(t, testkit.GarbageCollector)
	namespace, app := standing(t, "tiers")
	meta := metav1.ObjectMeta{Namespace: namespace, Name: "arranger"}
	for _, obj := range []client.Object{
		&corev1.ServiceAccount{ObjectMeta: meta}, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace,
			Name: "nobody"}},
		&rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{platformv1.GroupVersion.Group}, Resources: []string{"components", "workloadsets"},
				Verbs: []string{"get", "patch", "delete"}},
			{APIGroups: []string{platformv1.GroupVersion.Group}, Resources: []string{"applications"}, Verbs: []string{"get"}},
		}},
		&rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role",
			Name: meta.Name},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: meta.Name}}},
	} {
		create(t, obj)
	}
	by := func(account string) func(*platformv1.OperationSpec) {
		return func(s *platformv1.OperationSpec) { s.ServiceAccountName, s.Author = account, author }
	}
	denied := ends(t, operate(t, app, "denied", "Rearrange", by("nobody")), platformv1.OperationFailed)
	if !strings.Contains(denied.Error, "system:serviceaccount:"+namespace+":nobody") {
		t.Errorf("it says %q", denied.Error)
	}

	set := aSet(namespace, "a-db-1")
	refresh(t, set)
	former := set.UID
	ends(t, operate(t, app, "rearrange", "Rearrange", by("arranger")), platformv1.OperationSucceeded)
	web := aSet(namespace, "a-web-main")
	testkit.WaitFor(t, env.Client, web, "has 2 pods", func() error {
		if web.Spec.Replicas != 2 || web.Status.ReadyReplicas != 2 {
			return fmt.Errorf("there are %d of %d", web.Status.ReadyReplicas, web.Spec.Replicas)
		}
		return nil
	})
	tellsOf(t, namespace, "EditReverted", "spec.topology", "operation-step",
		`it follows from Application "a": change that`)
	testkit.WaitFor(t, env.Client, set, "is made again", func() error {
		if set.UID == former || set.Status.ReadyReplicas != 2 {
			return fmt.Errorf("UID %s, which was %s, with %d pods that are ready", set.UID, former, set.Status.ReadyReplicas)
		}
		return nil
	})
}
