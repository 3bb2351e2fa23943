// SPDX-License-Identifier: Apache-2.0

// Package checksum knows the two forms in which SHA-256 digests are written.
package checksum

import "regexp"

var (
	sum  = regexp.MustCompile(`^[0-9a-f]{64}$`)
	full = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
)

// IsSHA256 says whether a text is a digest as sha256sum writes it: 64 hexadecimal digits in lower case.
func IsSHA256(text string) bool { return sum.MatchString(text) }

// IsDigest says whether a text is a digest with the name of its algorithm: "sha256:" and the digits.
func IsDigest(text string) bool { return full.MatchString(text) }
