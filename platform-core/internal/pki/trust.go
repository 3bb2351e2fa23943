// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"crypto/x509"
	"encoding/pem"
	"slices"
)

// Issued is a certificate that processes serve, and the authority that it came with.
type Issued struct {
	// Certificate as PEM: the first one is that of the process.
	Certificate []byte
	// CA as PEM: the certificate of the authority that issued it.
	CA []byte
}

// Trust is what is known of the authorities of an instance, whose members trust each other by certificates. All is
// PEM.
type Trust struct {
	// Authority that issues now; empty where it is not the instance's own.
	Authority []byte
	// Issued certificates, in an order that stays.
	Issued []Issued
	// Former is the bundle as it is.
	Former []byte
	// Behind says that a process serves another certificate than those in Issued: nobody knows who issued that.
	Behind bool
}

// Bundle returns the authorities to trust: the one that issues now, those of the certificates that are in use, and of
// the former ones those that a certificate in use is signed by, or may be. It is empty while nothing is known.
func (t Trust) Bundle() []byte {
	blocks := certificateBlocks(t.Authority)
	for _, issued := range t.Issued {
		blocks = append(blocks, certificateBlocks(issued.CA)...)
	}
	for _, former := range certificateBlocks(t.Former) {
		if t.Behind || t.signs(former) {
			blocks = append(blocks, former)
		}
	}
	var bundle []byte
	for i, block := range blocks {
		if !slices.ContainsFunc(blocks[:i], func(b []byte) bool { return string(b) == string(block) }) {
			bundle = append(bundle, encodeCertificate(block)...)
		}
	}
	return bundle
}

// signs says whether an authority signed a certificate that is in use.
func (t Trust) signs(authority []byte) bool {
	signing, err := x509.ParseCertificate(authority)
	return err == nil && slices.ContainsFunc(t.Issued, func(i Issued) bool { return SignedBy(i.Certificate, signing) })
}

// certificateBlocks are the certificates in PEM, as they are: an authority of a kind that is not known here is one.
func certificateBlocks(data []byte) [][]byte {
	var blocks [][]byte
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == certificateBlock {
			blocks = append(blocks, block.Bytes)
		}
	}
	return blocks
}
