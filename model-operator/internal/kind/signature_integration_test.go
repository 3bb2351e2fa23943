// SPDX-License-Identifier: Apache-2.0

//go:build integration

package kind_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/testkit"
	"github.com/zeroinfra/platform-core/sdk/testkit/kindtest"

	aiv1 "github.com/zeroinfra/model-operator/api/v1"
	"github.com/zeroinfra/model-operator/internal/kind"
	"github.com/zeroinfra/model-operator/internal/signature/signaturetest"
)

// A Model gets a key while a version without a signature is served: that goes on, and is not served anew. A version
// that is signed is served whatever the others are.
func TestInferenceServesVersionsThatAreVerified(t *testing.T) {
	namespace, signer := env.Namespace(t), signaturetest.New(t)
	kindtest.Serve(t, env, kind.All()...)
	m := modelOf(namespace, "chat")
	i := &aiv1.Inference{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "answers"}}
	i.Spec.Version, i.Spec.ModelRef = "0.7", aiv1.InferenceModelReference{Name: "chat", Stage: "Production"}
	create(t, m, i)
	app := &platformv1.Application{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "inference-answers"}}
	serves(t, app, "1")
	testkit.WaitForReady(t, env.Client, i)
	sign := func(version aiv1.ModelVersionName, by *signaturetest.Signer) {
		t.Helper()
		err := testkit.Edit(t.Context(), env.Client, m, func() {
			m.Spec.Verification = signer.Verification(t)
			for n := range m.Spec.Versions {
				if v := &m.Spec.Versions[n]; v.Name == version {
					by.Sign(t, v)
				}
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	sign("2.0", signer)
	says(t, m, aiv1.ReasonVersionNotVerified,
		`"1.0", is not verified, and no Inference begins to serve it: it has no signature`)
	says(t, i, aiv1.ReasonVersionNotVerified, `spec.modelRef names version "1.0" of Model "chat", which is not verified`)
	serves(t, app, "1")
	states := map[aiv1.ModelVersionName]aiv1.ModelSignatureState{}
	for _, known := range m.Status.Versions {
		states[known.Name] = known.Signature
	}
	if states["1.0"] != aiv1.SignatureNotVerified || states["2.0"] != aiv1.SignatureVerified {
		t.Errorf("the versions are %v", states)
	}

	if err := testkit.Edit(t.Context(), env.Client, m, func() { m.Spec.Stages["Production"] = "2.0" }); err != nil {
		t.Fatal(err)
	}
	serves(t, app, "2")
	testkit.WaitForReady(t, env.Client, i)
	sign("1.0", signaturetest.New(t))
	says(t, m, aiv1.ReasonVersionNotVerified, "its signature is not one of the file")
	sign("1.0", signer)
	testkit.WaitForReady(t, env.Client, m)
	if err := env.Denied(env.System.User); err != nil {
		t.Error(err)
	}
}
