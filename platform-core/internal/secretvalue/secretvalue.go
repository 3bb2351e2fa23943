// SPDX-License-Identifier: Apache-2.0

// Package secretvalue judges the values that users keep in Secrets: passwords, keys of accounts and passphrases. The
// same rule holds for all of them, since one that is read in two ways, with the newline at its end and without, is a
// password that nobody can log in with.
package secretvalue

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Problem says why the value under a key of a Secret is refused, and what to do; "" for one that can be used, and for
// an empty one, which is missing. A value is one line of UTF-8 text without control characters that neither begins nor
// ends with white space. Certificates in PEM have lines, and are exempt. Of the value only the character is told.
func Problem(secret, key string, value []byte) string {
	if len(value) == 0 || isPEM(value) {
		return ""
	}
	fault := faultOf(string(value))
	if fault == "" {
		return ""
	}
	return fmt.Sprintf("the value under the key %q of Secret %q %s, and is refused, since clients could not log in "+
		"with it: create the Secret with the exact value, from a file that printf '%%s' has written and not echo",
		key, secret, fault)
}

// isPEM says whether a value is a certificate or key in PEM.
func isPEM(value []byte) bool {
	return bytes.HasPrefix(bytes.TrimSpace(value), []byte("-----BEGIN "))
}

// faultOf a value; "" for none.
func faultOf(value string) string {
	if !utf8.ValidString(value) {
		return "is not UTF-8 text"
	}
	first, _ := utf8.DecodeRuneInString(value)
	last, _ := utf8.DecodeLastRuneInString(value)
	switch {
	case isEdge(last):
		return "ends with " + name(last)
	case isEdge(first):
		return "begins with " + name(first)
	}
	if at := strings.IndexFunc(value, unicode.IsControl); at >= 0 {
		inner, _ := utf8.DecodeRuneInString(value[at:])
		return "contains " + name(inner)
	}
	return ""
}

// byteOrderMark begins files that some editors write.
const byteOrderMark = '\ufeff'

// isEdge says whether a value must neither begin nor end with a character.
func isEdge(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) || r == byteOrderMark }

// name of a character that cannot be seen.
func name(r rune) string {
	switch r {
	case '\n':
		return "a newline"
	case '\r':
		return "a carriage return"
	case '\t':
		return "a tab"
	case ' ':
		return "a space"
	case byteOrderMark:
		return "a byte order mark"
	}
	return fmt.Sprintf("the character %U", r)
}
