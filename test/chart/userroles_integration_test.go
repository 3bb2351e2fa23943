// SPDX-License-Identifier: Apache-2.0

//go:build integration

package chart_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// may says whether a user may do something with objects in a namespace, by the word of the API server.
func may(ctx context.Context, user, namespace, verb, group, resource, subresource string) (bool, error) {
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: namespace, Verb: verb, Group: group, Resource: resource, Subresource: subresource,
		},
	}}
	err := env.Client.Create(ctx, review)
	return review.Status.Allowed, err
}

// People who have the cluster's roles view, edit and admin in a namespace can see, change and clear
// what the suite has there, and gain nothing beyond.
func TestUserRoles(t *testing.T) {
	install(t)
	env.Controllers(t, testkit.RoleAggregation)
	namespace := env.Namespace(t)
	for _, role := range []string{"view", "edit", "admin"} {
		binding := &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: role},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: role}},
		}
		if err := env.Client.Create(t.Context(), binding); err != nil {
			t.Fatal(err)
		}
	}
	const core, own = "platform.zeroinfra.github.com", "database.zeroinfra.github.com"
	rights := []struct {
		verb, group, resource, subresource string
		// may are the roles that give it.
		may []string
	}{
		{"list", own, "redis", "", []string{"view", "edit", "admin"}},
		{"watch", core, "applications", "", []string{"view", "edit", "admin"}},
		{"get", core, "operations", "", []string{"view", "edit", "admin"}},
		{"get", core, "workloadsets", "", []string{"view", "edit", "admin"}},
		{"create", own, "redis", "", []string{"edit", "admin"}},
		{"delete", own, "redis", "", []string{"edit", "admin"}},
		{"patch", core, "applications", "", []string{"edit", "admin"}},
		{"create", core, "operations", "", []string{"edit", "admin"}},
		{"patch", core, "components", "", []string{"edit", "admin"}},
		{"update", core, "workloadsets", "scale", []string{"edit", "admin"}},
		{"deletecollection", own, "redis", "", []string{"admin"}},
		{"delete", core, "workloadsets", "", []string{"admin"}},
		{"approve", core, "operations", "", nil},
		{"create", core, "workloadsets", "", nil},
		{"patch", core, "applications", "status", nil},
		{"patch", own, "redis", "status", nil},
		{"create", core, "plugins", "", nil},
	}
	for _, right := range rights {
		for _, role := range []string{"view", "edit", "admin"} {
			want := false
			for _, given := range right.may {
				want = want || given == role
			}
			testkit.Eventually(t, fmt.Sprintf("%s: %s %s/%s is %t", role, right.verb, right.resource, right.subresource, want),
				func(ctx context.Context) error {
					got, err := may(ctx, role, namespace, right.verb, right.group, right.resource, right.subresource)
					if err == nil && got != want {
						err = fmt.Errorf("it is %t", got)
					}
					return err
				})
		}
	}
	// Who may approve may do nothing else to the instances.
	only(t, "approver", namespace, map[string]bool{"approve operations": true, "patch operations": true,
		"create operations": false, "delete operations": false, "patch applications": false})
	rolesAlone(t, namespace, own)
}

// rolesAlone proves that the roles by themselves give no right to Secrets, which edit and admin have of the cluster's
// own.
func rolesAlone(t *testing.T, namespace, own string) {
	t.Helper()
	for _, name := range []string{"viewer", "editor", "admin"} {
		user := "only-" + name
		binding := &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: user},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "zeroinfra-database-" + name},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}},
		}
		if err := env.Client.Create(t.Context(), binding); err != nil {
			t.Fatal(err)
		}
		testkit.Eventually(t, user+" sees Redis", func(ctx context.Context) error {
			got, err := may(ctx, user, namespace, "get", own, "redis", "")
			if err == nil && !got {
				err = fmt.Errorf("it does not")
			}
			return err
		})
		for _, resource := range []string{"secrets", "pods", "configmaps"} {
			if got, err := may(t.Context(), user, namespace, "get", "", resource, ""); err != nil || got {
				t.Errorf("%s may read %s: %t, %v", user, resource, got, err)
			}
		}
	}
}

// only binds one role of the chart to a user of its own and asks what he may do with the objects of the suite.
func only(t *testing.T, name, namespace string, rights map[string]bool) {
	t.Helper()
	user := "only-" + name
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "zeroinfra-database-" + name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}},
	}
	if err := env.Client.Create(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
	for right, want := range rights {
		verb, resource, _ := strings.Cut(right, " ")
		testkit.Eventually(t, fmt.Sprintf("%s: %s is %t", user, right, want), func(ctx context.Context) error {
			got, err := may(ctx, user, namespace, verb, "platform.zeroinfra.github.com", resource, "")
			if err == nil && got != want {
				err = fmt.Errorf("it is %t", got)
			}
			return err
		})
	}
}
