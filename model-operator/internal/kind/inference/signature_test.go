// SPDX-License-Identifier: Apache-2.0

package inference

import (
	"errors"
	"strings"
	"testing"

	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/outcome"
	"github.com/zeroinfra/platform-core/sdk/typed"

	aiv1 "github.com/zeroinfra/model-operator/api/v1"
	"github.com/zeroinfra/model-operator/internal/signature/signaturetest"
)

// Of a Model with a key only signed versions are served, as model, as canary and as adapter. One that is signed is
// served whatever the others are.
func TestCompileRefusesAVersionThatIsNotVerified(t *testing.T) {
	m, signer := modelNamed("chat"), signaturetest.New(t)
	m.Spec.Verification = signer.Verification(t)
	signer.Sign(t, &m.Spec.Versions[0])
	conditions.Report(m, outcome.Stalled(aiv1.ReasonVersionNotVerified, "other versions are not signed"), "")
	ref := func(version aiv1.ModelVersionName) aiv1.InferenceModelReference {
		return aiv1.InferenceModelReference{Name: "chat", Version: version}
	}
	for name, c := range map[string]struct {
		spec aiv1.InferenceSpec
		want string
	}{
		"signed": {aiv1.InferenceSpec{ModelRef: ref("1.0")}, ""},
		"model": {aiv1.InferenceSpec{ModelRef: ref("4.0")},
			`spec.modelRef names version "4.0" of Model "chat", which is not verified: it has no signature`},
		"canary": {aiv1.InferenceSpec{ModelRef: ref("1.0"), Replicas: new(int32(2)),
			Canary: &aiv1.InferenceCanary{ModelRef: ref("4.0"), Weight: new(int32(50))}},
			`spec.canary.modelRef names version "4.0"`},
		"adapter": {aiv1.InferenceSpec{ModelRef: ref("1.0"),
			Adapters: []aiv1.InferenceAdapter{{Name: "poet", Version: "4.0"}}}, `spec.adapters[0] names version "4.0"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := compiled(&aiv1.Inference{Spec: c.spec}, m)
			if c.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			refusal, is := errors.AsType[*typed.Refusal](err)
			if !is || refusal.Reason != aiv1.ReasonVersionNotVerified || !strings.Contains(refusal.Message, c.want) {
				t.Errorf("got %v; want %q", err, c.want)
			}
		})
	}
}
