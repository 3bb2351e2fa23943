// SPDX-License-Identifier: Apache-2.0

//go:build integration

package testkit_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// What a few tests leave behind is gone before the next one has a namespace, finalizers or not.
func TestNamespacesOfEndedTestsAreGone(t *testing.T) {
	const most = 4
	var left []*corev1.ConfigMap
	for range most {
		t.Run("earlier", func(t *testing.T) {
			object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace(t), Name: "held",
				Finalizers: []string{"example.com/held"}}}
			if err := env.Client.Create(t.Context(), object); err != nil {
				t.Fatal(err)
			}
			env.Namespace(t)
			if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
				t.Errorf("the test has not ended: %v", err)
			}
			left = append(left, object)
		})
	}
	// Once as many have ended after them, those of the tests before are gone.
	for range most {
		t.Run("later", func(t *testing.T) { env.Namespace(t) })
	}
	env.Namespace(t)
	for _, object := range left {
		if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(object), object); !apierrors.IsNotFound(err) {
			t.Errorf("getting what was left: %v", err)
		}
		if err := env.Client.Get(t.Context(), client.ObjectKey{Name: object.Namespace},
			&corev1.Namespace{}); !apierrors.IsNotFound(err) {
			t.Errorf("getting its namespace: %v", err)
		}
	}
}
