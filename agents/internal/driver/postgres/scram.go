// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
)

const (
	scramPrefix = "SCRAM-SHA-256"
	// scramIterations is the server's own default.
	scramIterations = 4096
	// maxIterations bounds what comparing with a verifier that somebody else set may cost.
	maxIterations = 100_000
	saltBytes     = 16
	// maxVerified bounds what Verified remembers.
	maxVerified = 4096
)

// checkPassword refuses what clients and server would have to bring into one form first (SASLprep), which not all do
// alike.
func checkPassword(password string) error {
	if strings.ContainsFunc(password, func(r rune) bool { return r < ' ' || r > '~' }) {
		return errors.New("the password has other characters than the printable ones of ASCII: take one without")
	}
	return nil
}

// Verifier is what the server keeps of a password, and takes in place of it.
func Verifier(password string) (string, error) {
	if err := checkPassword(password); err != nil {
		return "", err
	}
	return verifierOf(password)
}

// verifierOf is what the server keeps of a password: enough to tell it, not enough to log in with it.
func verifierOf(password string) (string, error) {
	salt := make([]byte, saltBytes)
	// It never fails.
	_, _ = rand.Read(salt)
	stored, server, err := keysOf(password, salt, scramIterations)
	if err != nil {
		return "", err
	}
	encode := base64.StdEncoding.EncodeToString
	return fmt.Sprintf("%s$%d:%s$%s:%s", scramPrefix, scramIterations, encode(salt), encode(stored), encode(server)), nil
}

// keysOf are the keys of RFC 5803.
func keysOf(password string, salt []byte, iterations int) (stored, server []byte, err error) {
	salted, err := pbkdf2.Key(sha256.New, password, salt, iterations, sha256.Size)
	if err != nil {
		return nil, nil, err
	}
	sign := func(what string) []byte {
		mac := hmac.New(sha256.New, salted)
		mac.Write([]byte(what))
		return mac.Sum(nil)
	}
	client := sha256.Sum256(sign("Client Key"))
	return client[:], sign("Server Key"), nil
}

// verifies says whether a verifier is of the password. One in another form, such as MD5, is not.
func verifies(verifier, password string) bool {
	parts := strings.FieldsFunc(verifier, func(r rune) bool { return r == '$' || r == ':' })
	if len(parts) != 5 || parts[0] != scramPrefix {
		return false
	}
	iterations, err := strconv.Atoi(parts[1])
	if err != nil || iterations < 1 || iterations > maxIterations {
		return false
	}
	salt, saltErr := base64.StdEncoding.DecodeString(parts[2])
	want, wantErr := base64.StdEncoding.DecodeString(parts[3])
	if saltErr != nil || wantErr != nil {
		return false
	}
	stored, _, err := keysOf(password, salt, iterations)
	return err == nil && subtle.ConstantTimeCompare(stored, want) == 1
}

// Verified remembers which verifiers are of which passwords, since to find out takes a thousandth of a second of the
// processor for each and nothing changes for days. It keeps neither, and is safe for concurrent use.
type Verified struct {
	mu    sync.Mutex
	known map[[sha256.Size]byte]bool
}

// same says whether a verifier is of the password.
func (v *Verified) same(verifier, password string) bool {
	if v == nil {
		return verifies(verifier, password)
	}
	pair := sha256.Sum256([]byte(verifier + "\x00" + password))
	v.mu.Lock()
	same, known := v.known[pair]
	v.mu.Unlock()
	if known {
		return same
	}
	same = verifies(verifier, password)
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.known) >= maxVerified || v.known == nil {
		v.known = map[[sha256.Size]byte]bool{}
	}
	v.known[pair] = same
	return same
}
