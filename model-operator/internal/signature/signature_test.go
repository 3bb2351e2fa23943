// SPDX-License-Identifier: Apache-2.0

package signature

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"strings"
	"testing"

	aiv1 "github.com/zeroinfra/model-operator/api/v1"
)

// file is what is signed.
const file = "weights"

func digest(of string) []byte {
	sum := sha256.Sum256([]byte(of))
	return sum[:]
}

// signed returns a Model with the public key, and a version of it with the signature that the key makes of a digest.
func signed(t *testing.T, key crypto.Signer, of []byte) (*aiv1.ModelSpec, *aiv1.ModelVersion) {
	t.Helper()
	made, err := key.Sign(rand.Reader, of, crypto.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	return &aiv1.ModelSpec{Verification: &aiv1.ModelVerification{PublicKey: public(t, key)}}, &aiv1.ModelVersion{
		Name: "1.0", SHA256: hex.EncodeToString(digest(file)), Signature: base64.StdEncoding.EncodeToString(made)}
}

// public is the public part of a key in PEM.
func public(t *testing.T, key crypto.Signer) string {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

func ecKey(t *testing.T, curve elliptic.Curve) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func rsaKey(t *testing.T, bits int) *rsa.PrivateKey {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestVerifyAcceptsSignaturesByTheKey(t *testing.T) {
	for name, key := range map[string]crypto.Signer{
		"ECDSA": ecKey(t, elliptic.P256()), "RSA 2048": rsaKey(t, 2048), "RSA 3072": rsaKey(t, 3072),
	} {
		t.Run(name, func(t *testing.T) {
			spec, version := signed(t, key, digest(file))
			if err := Verify(spec, version); err != nil {
				t.Error(err)
			}
			if err := Verify(&aiv1.ModelSpec{}, &aiv1.ModelVersion{}); err != nil {
				t.Errorf("a Model without a key has %v", err)
			}
		})
	}
}

func TestVerifyRefusesOtherSignatures(t *testing.T) {
	for algorithm, key := range map[string]crypto.Signer{"ECDSA": ecKey(t, elliptic.P256()), "RSA": rsaKey(t, 2048)} {
		for name, c := range map[string]struct {
			change func(*aiv1.ModelVersion)
			want   string
		}{
			"none": {func(v *aiv1.ModelVersion) { v.Signature = "" }, "it has no signature"},
			"another digest": {func(v *aiv1.ModelVersion) { v.SHA256 = hex.EncodeToString(digest("others")) },
				"not one of the file"},
			"no digest": {func(v *aiv1.ModelVersion) { v.SHA256 = "abc" }, "not a digest"},
			"another key": {func(v *aiv1.ModelVersion) {
				_, other := signed(t, ecKey(t, elliptic.P256()), digest(file))
				v.Signature = other.Signature
			}, "not one of the file"},
			"of something else": {func(v *aiv1.ModelVersion) {
				_, other := signed(t, key, digest("others"))
				v.Signature = other.Signature
			}, "not one of the file"},
			"no base64":       {func(v *aiv1.ModelVersion) { v.Signature = "****" }, "not in base64"},
			"bytes of no key": {func(v *aiv1.ModelVersion) { v.Signature = "AAAAAAAAAAAAAAAAAAAAAA==" }, "not one of the file"},
		} {
			t.Run(algorithm+" "+name, func(t *testing.T) {
				spec, version := signed(t, key, digest(file))
				c.change(version)
				refused(t, spec, version, c.want)
			})
		}
	}
}

// A probabilistic signature of RSA is not what the field takes.
func TestVerifyRefusesPSS(t *testing.T) {
	key := rsaKey(t, 2048)
	spec, version := signed(t, key, digest(file))
	made, err := rsa.SignPSS(rand.Reader, key, crypto.SHA256, digest(file), nil)
	if err != nil {
		t.Fatal(err)
	}
	version.Signature = base64.StdEncoding.EncodeToString(made)
	refused(t, spec, version, "not one of the file")
}

func TestVerifyRefusesOtherKeys(t *testing.T) {
	good := ecKey(t, elliptic.P256())
	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(good)
	if err != nil {
		t.Fatal(err)
	}
	block := func(kind string, bytes []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: bytes}))
	}
	for name, c := range map[string]struct{ key, want string }{
		"empty":       {"", "is not a key in PEM"},
		"cut off":     {public(t, good)[:80], "is not a key in PEM"},
		"on one line": {strings.ReplaceAll(public(t, good), "\n", " "), "is not a key in PEM"},
		"private":     {block("PRIVATE KEY", private), "is a PRIVATE KEY, and a PUBLIC KEY is needed"},
		"PKCS #1": {block("RSA PUBLIC KEY", x509.MarshalPKCS1PublicKey(&rsaKey(t, 2048).PublicKey)),
			"is a RSA PUBLIC KEY"},
		"two":              {public(t, good) + public(t, good), "text after the key"},
		"bytes of nothing": {block("PUBLIC KEY", []byte("abc")), "cannot be read"},
		"another curve":    {public(t, ecKey(t, elliptic.P384())), "on the curve P-384: the curve must be P-256"},
		"a short RSA key":  {shortKey, "an RSA key of 1024 bits"},
		"Ed25519":          {public(t, edwards), "must be ECDSA on the curve P-256, or RSA"},
	} {
		t.Run(name, func(t *testing.T) {
			spec, version := signed(t, good, digest(file))
			spec.Verification.PublicKey = c.key
			refused(t, spec, version, c.want)
		})
	}
}

// Files of openssl 3.0 and cosign 3.1, by the commands of docs/kinds/model.md.
func TestVerifyReadsWhatOtherToolsWrite(t *testing.T) {
	for name, c := range map[string]struct{ key, signature string }{
		"openssl ECDSA": {opensslECKey, opensslECSignature}, "openssl RSA": {opensslRSAKey, opensslRSASignature},
		"cosign": {cosignKey, cosignSignature},
	} {
		t.Run(name, func(t *testing.T) {
			spec := &aiv1.ModelSpec{Verification: &aiv1.ModelVerification{PublicKey: c.key}}
			version := &aiv1.ModelVersion{SHA256: hex.EncodeToString(digest(file)), Signature: c.signature}
			if err := Verify(spec, version); err != nil {
				t.Error(err)
			}
		})
	}
}

func refused(t *testing.T, spec *aiv1.ModelSpec, version *aiv1.ModelVersion, want string) {
	t.Helper()
	if err := Verify(spec, version); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v; want %q", err, want)
	}
}
