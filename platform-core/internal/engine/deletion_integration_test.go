// SPDX-License-Identifier: Apache-2.0

//go:build integration

package engine_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// hold keeps a pod of a namespace there once it is deleted, as a process does that takes its time to end, until it is
// let go.
func hold(t *testing.T, namespace, name string) (letGo func()) {
	t.Helper()
	patch := func(finalizers string) {
		t.Helper()
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		body := fmt.Sprintf(`{"metadata":{"finalizers":%s}}`, finalizers)
		err := env.Client.Patch(context.Background(), pod, client.RawPatch(types.MergePatchType, []byte(body)))
		if err != nil {
			t.Fatal(err)
		}
	}
	patch(`["example.com/hold"]`)
	return func() { t.Helper(); patch("null") }
}

// deleteForeground deletes an object that is to be there until all is gone that is made for it.
func deleteForeground(t *testing.T, obj client.Object) {
	t.Helper()
	err := env.Client.Delete(t.Context(), obj, client.PropagationPolicy(metav1.DeletePropagationForeground))
	if err != nil {
		t.Fatal(err)
	}
}

// Who deletes in the foreground sees an instance go from the inside out: pods, their volumes where the policy says so,
// sets, components, the Application. While a pod ends, nothing above it goes, and no volume is asked to.
func TestForegroundDeletionGoesFromTheInsideOut(t *testing.T) {
	run(t, -1)
	env.Controllers(t, testkit.GarbageCollector, testkit.ClaimProtection)
	for policy, keeps := range map[platformv1.DeletionPolicy]bool{platformv1.DeletionPolicyRetain: true,
		platformv1.DeletionPolicyDelete: false} {
		t.Run(string(policy), func(t *testing.T) {
			namespace := env.Namespace(t)
			node(t, namespace)
			told := follow(t, namespace)
			app := shop(namespace, "a", "tiers")
			app.Spec.DeletionPolicy = policy
			create(t, app)
			testkit.WaitForReady(t, env.Client, app)
			letGo := hold(t, namespace, "a-db-1-0")
			deleteForeground(t, app)
			testkit.Eventually(t, "the end of all pods but the one that is held", func(context.Context) error {
				if left := podNames(t, namespace); len(left) != 1 {
					return fmt.Errorf("there are %v", left)
				}
				return nil
			})
			testkit.Eventually(t, "the end of the component whose pods are gone", func(context.Context) error {
				if told.of("Component a-web").gone == 0 {
					return fmt.Errorf("it is there")
				}
				return nil
			})
			for _, name := range []string{"WorkloadSet a-db-1", "Component a-db", "Application a"} {
				if s := told.of(name); s.condemned == 0 || s.gone != 0 {
					t.Errorf("%s while a pod ends: %+v, want that it waits to go", name, s)
				}
			}
			for _, claim := range []string{"data-a-db-1-0", "data-a-db-1-1"} {
				if s := told.of("PersistentVolumeClaim " + claim); s.condemned != 0 {
					t.Errorf("claim %s while a pod ends: %+v, want that nobody asked it to go", claim, s)
				}
			}
			letGo()
			testkit.WaitGone(t, env.Client, app)
			testkit.Eventually(t, "the whole story", func(context.Context) error { return insideOut(told.all(), keeps) })
		})
	}
}

// insideOut says what of the stories of an instance that was deleted is not as it should be; keeps says that volumes
// stay.
func insideOut(stories map[string]story, keeps bool) error {
	owners := map[string]string{"a-db-0": "a-db", "a-db-1": "a-db", "a-web-main": "a-web"}
	for name, s := range stories {
		kind, object, _ := strings.Cut(name, " ")
		if kind == "PersistentVolumeClaim" {
			if keeps != (s.condemned == 0) || keeps != (s.gone == 0) {
				return fmt.Errorf("%s: %+v", name, s)
			}
			continue
		}
		if s.gone == 0 {
			return fmt.Errorf("%s is there", name)
		}
		var outer string
		switch kind {
		case "Pod":
			outer = "WorkloadSet " + object[:strings.LastIndex(object, "-")]
		case "WorkloadSet":
			outer = "Component " + owners[object]
		case "Component":
			outer = "Application a"
		default:
			continue
		}
		if s.gone >= stories[outer].gone {
			return fmt.Errorf("%s was gone at %d, after %s at %d", name, s.gone, outer, stories[outer].gone)
		}
		claim := stories["PersistentVolumeClaim data-"+object]
		if kind == "Pod" && claim.condemned != 0 && (s.gone >= claim.condemned || claim.condemned >= stories[outer].gone) {
			return fmt.Errorf("the claim of %s was deleted at %d, the pod was gone at %d and its set at %d", name,
				claim.condemned, s.gone, stories[outer].gone)
		}
	}
	return nil
}
