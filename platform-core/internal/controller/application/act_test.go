// SPDX-License-Identifier: Apache-2.0

package application

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

// A Component, and its volumes with it, goes by the Application as it is, and not as a cache that is behind shows it.
func TestNoComponentGoesByAnApplicationOfBefore(t *testing.T) {
	scheme := testkit.Scheme(t, platformv1.AddToScheme)
	app := &platformv1.Application{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "a", UID: "1"}}
	component := &platformv1.Component{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "a-proxy", UID: "2"}}
	live := fake.NewClientBuilder().WithScheme(scheme).WithObjects(app, component).Build()
	c := &Controller{client: live, apply: apply.New(live, owner)}
	before := testkit.Outdated(t, live, app, func() {
		app.Spec.Components = []platformv1.ApplicationComponent{{Name: "proxy"}}
	})
	f := &facts{components: map[string]*platformv1.Component{"proxy": component}}
	err := c.prune(t.Context(), before, f, map[string]bool{})
	if !apierrors.IsConflict(err) || live.Get(t.Context(), client.ObjectKeyFromObject(component), component) != nil {
		t.Errorf("an Application of before has a Component go: %v", err)
	}
	if err := c.prune(t.Context(), before, f, map[string]bool{"proxy": true}); err != nil {
		t.Errorf("an Application of before that has nothing go: %v", err)
	}
	err = c.prune(t.Context(), app, f, map[string]bool{})
	if err != nil || !apierrors.IsNotFound(live.Get(t.Context(), client.ObjectKeyFromObject(component), component)) {
		t.Errorf("the Application as it is has no Component go: %v", err)
	}
}
