// SPDX-License-Identifier: Apache-2.0

//go:build integration

package kind_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/testkit"
	"github.com/zeroinfra/platform-core/sdk/testkit/kindtest"

	aiv1 "github.com/zeroinfra/model-operator/api/v1"
	"github.com/zeroinfra/model-operator/internal/kind"
)

// An Inference with less than its Model needs has no pods, and gets them once it has as much. A version is promoted all
// the same, and what runs goes on.
func TestInferenceMeetsTheMinimumOfItsModel(t *testing.T) {
	namespace := env.Namespace(t)
	kindtest.Serve(t, env, kind.All()...)
	m := modelOf(namespace, "chat")
	m.Spec.Minimum = &aiv1.ModelMinimum{Runtime: &aiv1.ModelRuntime{Name: "llama-cpp", Version: "0.7"},
		Memory: new(resource.MustParse("4Gi"))}
	i := &aiv1.Inference{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "answers"}}
	i.Spec.Version, i.Spec.ModelRef = "0.7", aiv1.InferenceModelReference{Name: "chat", Stage: "Production"}
	create(t, m, i)
	says(t, i, aiv1.ReasonMinimumNotMet,
		`spec.modelRef names Model "chat", whose spec.minimum asks for 4Gi of memory or more`)
	testkit.WaitForReady(t, env.Client, m)
	app := &platformv1.Application{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "inference-answers"}}
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(app), app); !apierrors.IsNotFound(err) {
		t.Errorf("there is an Application: %v", err)
	}
	if err := testkit.Edit(t.Context(), env.Client, i, func() {
		i.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("4Gi")}
	}); err != nil {
		t.Fatal(err)
	}
	serves(t, app, "1")
	testkit.WaitForReady(t, env.Client, i)

	if err := testkit.Edit(t.Context(), env.Client, m, func() {
		m.Spec.Minimum.Memory = new(resource.MustParse("8Gi"))
		m.Spec.Stages["Production"] = "2.0"
	}); err != nil {
		t.Fatal(err)
	}
	says(t, i, aiv1.ReasonMinimumNotMet, "asks for 8Gi of memory or more, and spec.resources requests 4Gi")
	serves(t, app, "1")
	if err := testkit.Edit(t.Context(), env.Client, m, func() { m.Spec.Minimum = nil }); err != nil {
		t.Fatal(err)
	}
	serves(t, app, "2")
	if err := env.Denied(env.System.User); err != nil {
		t.Error(err)
	}
}
