// SPDX-License-Identifier: Apache-2.0

package component

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/apply"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// A set, and its volumes with it, goes by the component as it is, and not as a cache that is behind shows it.
func TestNoSetGoesByAComponentOfBefore(t *testing.T) {
	scheme := testkit.Scheme(t, platformv1.AddToScheme)
	component := &platformv1.Component{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "a-redis", UID: "1"}}
	set := &platformv1.WorkloadSet{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "a-redis-1", UID: "2"}}
	live := fake.NewClientBuilder().WithScheme(scheme).WithObjects(component, set).Build()
	c := &Controller{client: live, apply: apply.New(live, owner)}
	before := testkit.Outdated(t, live, component, func() {
		component.Spec.Sets = []platformv1.ComponentSet{{Name: "1"}}
	})
	err := c.prune(t.Context(), before, []client.Object{set}, map[string]bool{})
	if !apierrors.IsConflict(err) || live.Get(t.Context(), client.ObjectKeyFromObject(set), set) != nil {
		t.Errorf("a component of before has a set go: %v", err)
	}
	if err := c.prune(t.Context(), before, []client.Object{set}, map[string]bool{keyOf(set): true}); err != nil {
		t.Errorf("a component of before that has nothing go: %v", err)
	}
	err = c.prune(t.Context(), component, []client.Object{set}, map[string]bool{})
	if err != nil || !apierrors.IsNotFound(live.Get(t.Context(), client.ObjectKeyFromObject(set), set)) {
		t.Errorf("the component as it is has no set go: %v", err)
	}
}
