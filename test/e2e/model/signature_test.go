// SPDX-License-Identifier: Apache-2.0

package model

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/test/e2e/framework"
)

// TestModelSignature has a Model with a key take a version that is signed by it, which is served, and refuse one that
// is signed by another: at admission, or by a condition where the webhook was away.
func TestModelSignature(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespaceWithOperator(t, operator)
	digest := library(s, 1)[1]
	signer, other := key(s), key(s)
	const refusal = `"v1", is not verified`
	forged := unmade(s, "Model", "forged", signedModel(s, signer, other, digest))
	if err := s.TryCreate(forged); err != nil {
		if !strings.Contains(err.Error(), refusal) {
			s.Errorf("a signature by another key: got %v, want %q", err, refusal)
		}
	} else {
		s.Eventually(framework.SettleTimeout, "a signature by another key is refused", func() error {
			return statusHas(s, forged, refusal)
		})
	}

	m := object(s, "Model", "chat", signedModel(s, signer, signer, digest))
	i := object(s, "Inference", "chat",
		`{version: "0.7", modelRef: {name: chat, version: v1}, parameters: {ctx-size: 512},
  resources: {requests: {cpu: 50m, memory: 96Mi}, limits: {memory: 512Mi}}}`)
	s.WaitForReady(i)
	expectDigest(s, i, digest)
	s.Eventually(framework.SettleTimeout, "the version is verified", func() error {
		return statusHas(s, m, "signature:Verified")
	})
	s.Delete(i)
}

func key(s *framework.Namespace) *ecdsa.PrivateKey {
	s.Helper()
	made, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		s.Fatal(err)
	}
	return made
}

// signedModel is a Model with the public part of a key and one version, which a key has signed.
func signedModel(s *framework.Namespace, public, signer *ecdsa.PrivateKey, digest string) string {
	s.Helper()
	der, err := x509.MarshalPKIXPublicKey(public.Public())
	if err != nil {
		s.Fatal(err)
	}
	sum, err := hex.DecodeString(digest)
	if err != nil {
		s.Fatal(err)
	}
	signature, err := ecdsa.SignASN1(rand.Reader, signer, sum)
	if err != nil {
		s.Fatal(err)
	}
	text := string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
	return fmt.Sprintf(`format: GGUF
verification: {publicKey: %q}
versions:
  - name: v1
    sha256: %q
    signature: %q
    source: {http: {url: "http://%s:8080/m1.gguf"}}`, text, digest, base64.StdEncoding.EncodeToString(signature),
		libraryPod)
}

// statusHas says whether the status of an object has a text.
func statusHas(s *framework.Namespace, object *unstructured.Unstructured, text string) error {
	s.Helper()
	if err := framework.Cluster.Client.Get(s.Ctx, client.ObjectKeyFromObject(object), object); err != nil {
		return err
	}
	if said := fmt.Sprint(object.Object["status"]); !strings.Contains(said, text) {
		return fmt.Errorf("its status is %s", said)
	}
	return nil
}
