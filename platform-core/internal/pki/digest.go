// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// DigestKeyKey is the key in the Secret of an authority that holds the key of Digest. It
// outlives the certificates: a new authority for the same domain keeps it, also one in the place of an authority that
// was lost (DigestSecretName).
const DigestKeyKey = "digest.key"

const digestKeySize = 32

func newDigestKey() []byte {
	key := make([]byte, digestKeySize)
	_, _ = rand.Read(key) // never fails, says its documentation
	return key
}

func parseDigestKey(data map[string][]byte) ([]byte, error) {
	key := data[DigestKeyKey]
	if len(key) != digestKeySize {
		return nil, fmt.Errorf("cannot read %s: it has %d bytes, not %d", DigestKeyKey, len(key), digestKeySize)
	}
	return key, nil
}

// Digest tells one secret text from another without giving either away: it is an
// HMAC-SHA256 under a key that only the operators of the domain have, cut to 16 hexadecimal
// digits. Who sees it cannot try passwords against it.
func (a *Authority) Digest(text string) string {
	mac := hmac.New(sha256.New, a.holds().digestKey)
	mac.Write([]byte(text))
	return hex.EncodeToString(mac.Sum(nil))[:16]
}
