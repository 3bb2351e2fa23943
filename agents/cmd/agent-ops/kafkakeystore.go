// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"

	"github.com/zeroinfra/agents/internal/atomicfile"
	"github.com/zeroinfra/platform-core/agentproto/plan"
)

// writeKeystore writes the key and the certificate of a folder into one PEM file as Kafka reads it: the key in the form
// of PKCS #8, whichever form it comes in.
func writeKeystore(path, folder string) error {
	key, err := os.ReadFile(filepath.Join(folder, plan.KeyFile))
	if err != nil {
		return err
	}
	certificate, err := os.ReadFile(filepath.Join(folder, plan.CertificateFile))
	if err != nil {
		return err
	}
	converted, err := toPKCS8(key)
	if err != nil {
		return fmt.Errorf("cannot read the key of the certificate in %s: %w", folder, err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return atomicfile.Write(path, append(converted, certificate...), 0o600)
}

// toPKCS8 is a private key in PEM in the form of PKCS #8.
func toPKCS8(text []byte) ([]byte, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("it is not in PEM")
	}
	der := block.Bytes
	var key any
	var err error
	switch block.Type {
	case "PRIVATE KEY":
		return pem.EncodeToMemory(block), nil
	case "RSA PRIVATE KEY":
		key, err = x509.ParsePKCS1PrivateKey(der)
	case "EC PRIVATE KEY":
		key, err = x509.ParseECPrivateKey(der)
	default:
		return nil, fmt.Errorf("%q is no form of a private key", block.Type)
	}
	if err != nil {
		return nil, err
	}
	if der, err = x509.MarshalPKCS8PrivateKey(key); err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}
