// SPDX-License-Identifier: Apache-2.0

//go:build integration

package kind_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/testkit"
	"github.com/zeroinfra/platform-core/sdk/testkit/kindtest"

	aiv1 "github.com/zeroinfra/model-operator/api/v1"
	"github.com/zeroinfra/model-operator/internal/kind"
)

// adapts waits until an Application has the file of an adapter, and reports it ready.
func adapts(t *testing.T, app *platformv1.Application, digit string) {
	t.Helper()
	testkit.WaitFor(t, env.Client, app, "is adapted by "+digit, func() error {
		got := string(app.Spec.Components[0].Parameters["model.adapters"])
		if !strings.Contains(got, `"sha256":"`+strings.Repeat(digit, 64)+`"`) {
			return fmt.Errorf("its adapters are %q", got)
		}
		return nil
	})
	ready(t, app)
}

// An adapter follows its stage, keeps the version that is used and its base, and is refused beside another base.
func TestInferenceWithAnAdapter(t *testing.T) {
	namespace := env.Namespace(t)
	kindtest.Serve(t, env, kind.All()...)
	base, adapter := modelOf(namespace, "chat"), modelOf(namespace, "poet")
	i := &aiv1.Inference{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "answers"}}
	i.Spec.Version, i.Spec.ModelRef = "0.7", aiv1.InferenceModelReference{Name: "chat", Version: "1.0"}
	i.Spec.Adapters = []aiv1.InferenceAdapter{{Name: "poet", Stage: "Production"}}
	create(t, base, i)
	says(t, i, platformv1.ReasonReferenceNotFound, `spec.adapters[0] names Model "poet", which does not exist`)
	create(t, adapter)
	says(t, i, platformv1.ReasonInvalidSpec, `Model "poet", which does not require Model "chat", and that is served`)
	edit := func(change func()) error { return testkit.Edit(t.Context(), env.Client, adapter, change) }
	if err := edit(func() { adapter.Spec.Requires = []aiv1.ModelReference{{Name: "chat"}} }); err != nil {
		t.Fatal(err)
	}
	app := &platformv1.Application{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "inference-answers"}}
	adapts(t, app, "1")
	testkit.WaitForReady(t, env.Client, i)
	counts(t, adapter, 1, 0)
	if s := i.Status.Adapters; len(s) != 1 || s[0].ID != 0 || s[0].Name != "poet" || s[0].Version != "1.0" ||
		s[0].Digest != "sha256:"+strings.Repeat("1", 64) {
		t.Errorf("the adapters are %+v", s)
	}

	// Until all pods have the other version both are in use.
	if err := edit(func() { adapter.Spec.Stages["Production"] = "2.0" }); err != nil {
		t.Fatal(err)
	}
	counts(t, adapter, 1, 1)
	testkit.Refused(t, edit(func() {
		adapter.Spec.Versions = slices.DeleteFunc(adapter.Spec.Versions,
			func(v aiv1.ModelVersion) bool { return v.Name == "1.0" })
	}), "a version that an Inference uses cannot be taken out")
	adapts(t, app, "2")
	counts(t, adapter, 0, 1)

	// Without the adapter, it and its base can go.
	if err := testkit.Edit(t.Context(), env.Client, i, func() { i.Spec.Adapters = nil }); err != nil {
		t.Fatal(err)
	}
	testkit.WaitFor(t, env.Client, app, "has no adapters", func() error {
		if got, has := app.Spec.Components[0].Parameters["model.adapters"]; has {
			return fmt.Errorf("its adapters are %q", got)
		}
		return nil
	})
	ready(t, app)
	counts(t, adapter, 0, 0)
	if err := env.Client.Delete(t.Context(), adapter); err != nil {
		t.Fatal(err)
	}
	testkit.WaitGone(t, env.Client, adapter)
	if err := env.Denied(env.System.User); err != nil {
		t.Error(err)
	}
}
