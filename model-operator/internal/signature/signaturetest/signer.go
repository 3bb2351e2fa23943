// SPDX-License-Identifier: Apache-2.0

// Package signaturetest signs versions of Models in tests.
package signaturetest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"testing"

	aiv1 "github.com/zeroinfra/model-operator/api/v1"
)

// Signer has a private key on the curve P-256.
type Signer struct{ key *ecdsa.PrivateKey }

// New returns a Signer with a key of its own.
func New(t testing.TB) *Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return &Signer{key}
}

// Verification names the public key.
func (s *Signer) Verification(t testing.TB) *aiv1.ModelVerification {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(s.key.Public())
	if err != nil {
		t.Fatal(err)
	}
	return &aiv1.ModelVerification{
		PublicKey: string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))}
}

// Sign gives a version the signature of its file.
func (s *Signer) Sign(t testing.TB, version *aiv1.ModelVersion) {
	t.Helper()
	digest, err := hex.DecodeString(version.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	made, err := ecdsa.SignASN1(rand.Reader, s.key, digest)
	if err != nil {
		t.Fatal(err)
	}
	version.Signature = base64.StdEncoding.EncodeToString(made)
}
