// SPDX-License-Identifier: Apache-2.0

package model

import (
	"errors"
	"strings"
	"testing"

	"github.com/zeroinfra/platform-core/sdk/typed"

	aiv1 "github.com/zeroinfra/model-operator/api/v1"
	"github.com/zeroinfra/model-operator/internal/signature/signaturetest"
)

// A Model with a key refuses versions without a good signature, names the first of them, and says of each in its status
// whether it is verified. The webhook answers with the same words.
func TestVersionsAreVerifiedByTheKeyOfTheModel(t *testing.T) {
	signer, other := signaturetest.New(t), signaturetest.New(t)
	m := &aiv1.Model{ObjectMeta: named("chat")}
	for _, digit := range []string{"1", "2", "3"} {
		m.Spec.Versions = append(m.Spec.Versions, aiv1.ModelVersion{
			Name: aiv1.ModelVersionName(digit + ".0"), SHA256: strings.Repeat(digit, 64)})
	}
	states := func(want ...aiv1.ModelSignatureState) {
		t.Helper()
		Kind{}.ReportUsers(m, nil)
		for n, known := range m.Status.Versions {
			if known.Signature != want[n] {
				t.Errorf("version %q is %q; want %q", known.Name, known.Signature, want[n])
			}
		}
	}
	refused := func(want string) {
		t.Helper()
		_, err := typed.Register(Kind{}).Compile(m, "model")
		refusal, is := errors.AsType[*typed.Refusal](err)
		if !is || refusal.Reason != aiv1.ReasonVersionNotVerified || !strings.Contains(refusal.Message, want) {
			t.Errorf("got %v; want %q", err, want)
		}
	}
	states("", "", "")
	m.Spec.Verification = signer.Verification(t)
	refused(`spec.versions[0], "1.0", is not verified, and no Inference begins to serve it: it has no signature`)
	refused("2 other versions are not verified either")
	signer.Sign(t, &m.Spec.Versions[0])
	other.Sign(t, &m.Spec.Versions[1])
	signer.Sign(t, &m.Spec.Versions[2])
	refused(`spec.versions[1], "2.0", is not verified, and no Inference begins to serve it: its signature is not one of`)
	states(aiv1.SignatureVerified, aiv1.SignatureNotVerified, aiv1.SignatureVerified)
	signer.Sign(t, &m.Spec.Versions[1])
	if _, err := typed.Register(Kind{}).Compile(m, "model"); err != nil {
		t.Error(err)
	}
	m.Spec.Verification.PublicKey = "-----BEGIN PUBLIC KEY-----"
	refused("spec.verification.publicKey is not a key in PEM")
	states(aiv1.SignatureNotVerified, aiv1.SignatureNotVerified, aiv1.SignatureNotVerified)
}
