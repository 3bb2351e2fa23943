// SPDX-License-Identifier: Apache-2.0

package workloadset

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/disruption"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// A set that keeps its volumes has no finalizer, and goes without a turn before. What is remembered of it goes all the
// same, and nothing of a set whose name begins with its.
func TestWhatIsGoneIsForgotten(t *testing.T) {
	kinds := testkit.Scheme(t, platformv1.AddToScheme)
	pod := func(name string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, UID: types.UID(name)}}
	}
	gone, other := pod("a-c-m-0"), pod("a-c-m-x-y-0")
	locks := &disruption.Locks{}
	for _, called := range []*corev1.Pod{gone, other} {
		if locks.Note(called, "plan/1", "plan/1"); !locks.Unreported(called) {
			t.Fatalf("the call of %s is not remembered", called.Name)
		}
	}
	api := fake.NewClientBuilder().WithScheme(kinds).Build()
	c := newController(Deps{Locks: locks}, access{client: api, live: api})
	request := ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "n", Name: "a-c-m"}}
	if result, err := c.Reconcile(t.Context(), request); err != nil || !result.IsZero() {
		t.Fatalf("it comes to %+v, %v", result, err)
	}
	if locks.Unreported(gone) || !locks.Unreported(other) {
		t.Errorf("a call counts: of the set %t, of another one %t", locks.Unreported(gone), locks.Unreported(other))
	}
}
