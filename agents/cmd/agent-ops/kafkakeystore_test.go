// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zeroinfra/platform-core/agentproto/plan"
)

// Kafka reads keys in the form of PKCS #8 alone, and cert-manager writes them in that of PKCS #1.
func TestKeystoreHasTheKeyInPKCS8(t *testing.T) {
	ofRSA, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	ofEC, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	inEC, err := x509.MarshalECPrivateKey(ofEC)
	if err != nil {
		t.Fatal(err)
	}
	inPKCS8, err := x509.MarshalPKCS8PrivateKey(ofEC)
	if err != nil {
		t.Fatal(err)
	}
	for form, der := range map[string][]byte{
		"RSA PRIVATE KEY": x509.MarshalPKCS1PrivateKey(ofRSA), "EC PRIVATE KEY": inEC, "PRIVATE KEY": inPKCS8,
	} {
		folder := t.TempDir()
		keystore := filepath.Join(folder, "kafka", "keystore.pem")
		for name, text := range map[string]string{
			plan.KeyFile:         string(pem.EncodeToMemory(&pem.Block{Type: form, Bytes: der})),
			plan.CertificateFile: "the certificate",
		} {
			if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := writeKeystore(keystore, folder); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(keystore)
		if err != nil {
			t.Fatal(err)
		}
		block, rest := pem.Decode(text)
		if _, err := x509.ParsePKCS8PrivateKey(block.Bytes); err != nil || block.Type != "PRIVATE KEY" ||
			!strings.Contains(string(rest), "the certificate") {
			t.Errorf("of %s it has %q: %v", form, block.Type, err)
		}
	}
	if _, err := toPKCS8([]byte("no key")); err == nil {
		t.Error("a text that is no key is taken for one")
	}
}
