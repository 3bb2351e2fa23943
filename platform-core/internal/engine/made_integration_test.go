// SPDX-License-Identifier: Apache-2.0

//go:build integration

package engine_test

import (
	"context"
	"fmt"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// tinkerer is somebody who may do everything with Components and WorkloadSets of a namespace.
func tinkerer(t *testing.T, namespace string) client.Client {
	t.Helper()
	return env.User(t, namespace, "tinkerer", rbacv1.PolicyRule{APIGroups: []string{platformv1.GroupVersion.Group},
		Resources: []string{"components", "workloadsets"}, Verbs: []string{"*"}})
}

// Users change Components and WorkloadSets; the engine alone makes them, and users do not delete one with the volumes
// of an instance that is declared.
func TestUsersDoNotMakeOrDeleteWhatTheEngineMakes(t *testing.T) {
	namespace, app := standing(t, "tiers")
	admits(t, namespace, env.Client)
	change(t, app, func(s *platformv1.ApplicationSpec) { s.DeletionPolicy = platformv1.DeletionPolicyDelete })
	user := tinkerer(t, namespace)
	set := &platformv1.WorkloadSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "a-db-0"}}
	component := &platformv1.Component{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "a-db"}}
	testkit.WaitFor(t, env.Client, set, "its volumes go with it", func() error {
		if set.Spec.DeletionPolicy != platformv1.DeletionPolicyDelete {
			return fmt.Errorf("its policy is %q", set.Spec.DeletionPolicy)
		}
		return nil
	})
	refresh(t, component)
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"note":"seen"}}}`))
	testkit.Eventually(t, "the rights of the user", func(ctx context.Context) error {
		return user.Patch(ctx, set.DeepCopy(), patch, client.DryRunAll)
	})

	const makes = "the engine makes Components and WorkloadSets"
	another := &platformv1.WorkloadSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "a-db-mine",
		Labels: set.Labels}, Spec: *set.Spec.DeepCopy()}
	forbidden(t, "a WorkloadSet", user.Create(t.Context(), another, client.DryRunAll), makes)
	part := &platformv1.Component{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "a-mine",
		Labels: component.Labels}, Spec: *component.Spec.DeepCopy()}
	forbidden(t, "a Component", user.Create(t.Context(), part, client.DryRunAll), makes)
	forbidden(t, "the end of a WorkloadSet", user.Delete(t.Context(), set.DeepCopy(), client.DryRunAll),
		"the volumes of WorkloadSet a-db-0 would be deleted with it, and Component a-db still declares it")
	forbidden(t, "the end of a Component", user.Delete(t.Context(), component.DeepCopy(), client.DryRunAll),
		"the volumes of Component a-db would be deleted with it, and Application a still declares it")
	// The engine and the end of the Application are not held up.
	change(t, app, func(s *platformv1.ApplicationSpec) {
		s.Components = []platformv1.ApplicationComponent{{Name: "db", Sets: []platformv1.ComponentSet{{Name: "1"}}}}
	})
	testkit.Eventually(t, "the set to go", func(ctx context.Context) error {
		if err := env.Client.Get(ctx, client.ObjectKeyFromObject(set), set); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %v", err)
		}
		return nil
	})
}
