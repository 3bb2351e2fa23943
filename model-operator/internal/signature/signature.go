// SPDX-License-Identifier: Apache-2.0

package signature

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"

	aiv1 "github.com/zeroinfra/model-operator/api/v1"
)

// Sizes of RSA keys, in bits.
const (
	minBits = 2048
	maxBits = 4096
)

// Verify says why a version of a Model has no good signature by the key of the Model; nil where it has one, and for a
// Model without a key.
func Verify(spec *aiv1.ModelSpec, version *aiv1.ModelVersion) error {
	if spec.Verification == nil {
		return nil
	}
	key, err := parse(spec.Verification.PublicKey)
	if err != nil {
		return err
	}
	return verify(key, version)
}

// parse reads a public key in PEM. Errors say which keys are accepted.
func parse(text string) (crypto.PublicKey, error) {
	const field = "spec.verification.publicKey"
	block, rest := pem.Decode([]byte(text))
	switch {
	case block == nil:
		return nil, errors.New(field + " is not a key in PEM: write it as openssl pkey -pubout does, line by line")
	case block.Type != "PUBLIC KEY":
		return nil, fmt.Errorf("%s is a %s, and a PUBLIC KEY is needed: openssl pkey -pubout writes one", field, block.Type)
	case strings.TrimSpace(string(rest)) != "":
		return nil, errors.New(field + " has text after the key: write one key and nothing else")
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be read: %w", field, err)
	}
	switch key := key.(type) {
	case *ecdsa.PublicKey:
		if key.Curve != elliptic.P256() {
			return nil, fmt.Errorf("%s is an ECDSA key on the curve %s: the curve must be P-256", field, key.Params().Name)
		}
	case *rsa.PublicKey:
		if bits := key.N.BitLen(); bits < minBits || bits > maxBits {
			return nil, fmt.Errorf("%s is an RSA key of %d bits: it must have %d to %d", field, bits, minBits, maxBits)
		}
	default:
		return nil, fmt.Errorf("%s is a %T: the key must be ECDSA on the curve P-256, or RSA", field, key)
	}
	return key, nil
}

// verify says what is wrong with the signature of a version; nil for nothing.
func verify(key crypto.PublicKey, version *aiv1.ModelVersion) error {
	if version.Signature == "" {
		return errors.New("it has no signature: sign its file with the private key of spec.verification.publicKey")
	}
	digest, err := hex.DecodeString(version.SHA256)
	if err != nil || len(digest) != sha256.Size {
		return fmt.Errorf("sha256 is %q, and not a digest", version.SHA256)
	}
	signature, err := base64.StdEncoding.DecodeString(version.Signature)
	if err != nil {
		return fmt.Errorf("its signature is not in base64: %w", err)
	}
	good := false
	switch key := key.(type) {
	case *ecdsa.PublicKey:
		good = ecdsa.VerifyASN1(key, digest, signature)
	case *rsa.PublicKey:
		good = rsa.VerifyPKCS1v15(key, crypto.SHA256, digest, signature) == nil
	}
	if !good {
		return errors.New("its signature is not one of the file with its sha256 by spec.verification.publicKey: sign that " +
			"file with the private key, or correct sha256")
	}
	return nil
}
