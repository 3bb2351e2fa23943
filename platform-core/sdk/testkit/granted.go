// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"context"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
)

// awaitRole waits until the API server grants a user what a role says, which it was bound to: the server hears of roles
// and bindings in its own time, and what it denies until then would pass for a right that is missing. Other objects
// than roles need no waiting.
func (e *Env) awaitRole(ctx context.Context, user string, obj *unstructured.Unstructured) error {
	// Either kind of role reads as one: what matters is the same.
	role := rbacv1.ClusterRole{}
	if kind := obj.GetKind(); kind != "ClusterRole" && kind != "Role" {
		return nil
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, &role); err != nil {
		return fmt.Errorf("cannot read role %q: %w", obj.GetName(), err)
	}
	// The server takes up a role as a whole, so that one rule stands for all.
	for _, rule := range role.Rules[:min(1, len(role.Rules))] {
		asked := &authorizationv1.ResourceAttributes{Namespace: obj.GetNamespace(), Verb: rule.Verbs[0],
			Group: rule.APIGroups[0], Resource: rule.Resources[0]}
		if len(rule.ResourceNames) > 0 {
			asked.Name = rule.ResourceNames[0]
		}
		err := wait.PollUntilContextTimeout(ctx, firstLook, Patience, true, func(ctx context.Context) (bool, error) {
			review := &authorizationv1.SubjectAccessReview{
				Spec: authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: asked}}
			err := e.Client.Create(ctx, review)
			return err == nil && review.Status.Allowed, err
		})
		if err != nil {
			return fmt.Errorf("role %q does not let %s %s %s: %w", obj.GetName(), user, asked.Verb, asked.Resource, err)
		}
	}
	return nil
}
