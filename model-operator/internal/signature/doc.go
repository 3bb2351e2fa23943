// SPDX-License-Identifier: Apache-2.0

// Package signature verifies detached signatures of files of models by a public key. It is pure: the key, the digest of
// a file and its signature are in the spec of the Model, and pods verify the digest of the file that they read.
//
// Signatures are those that "openssl dgst -sha256 -sign" and "cosign sign-blob --key" make: over the SHA-256 digest of
// the file, by ECDSA on the curve P-256 (ASN.1, SEC 1 and RFC 3279) or by RSA PKCS #1 v1.5 (RFC 8017).
package signature
