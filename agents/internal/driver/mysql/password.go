// SPDX-License-Identifier: Apache-2.0

package mysql

import (
	"crypto/sha256"
	"crypto/subtle"
	"strconv"
	"strings"
	"sync"
)

// A verifier of caching_sha2_password is $A$<rounds in thousands, as hexadecimal digits>$<salt><digest>, where the
// digest is that of SHA-crypt (https://www.akkadia.org/drepper/SHA-crypt.txt, with SHA-256) in its own base 64.
const (
	verifierPrefix = "$A$"
	saltBytes      = 20
	digestBytes    = 43
	roundsUnit     = 1000
	// maxRounds bounds what comparing with a verifier that somebody else set may cost.
	maxRounds = 100_000
	// maxVerified bounds what Verified remembers.
	maxVerified = 4096
)

// Verified remembers which passwords were found to be those of verifiers, since comparing takes thousands of digests.
// It has no passwords, but sums of them. It is safe for concurrent use, and may be nil.
type Verified struct {
	mu    sync.Mutex
	known map[[sha256.Size]byte]bool
}

// same says whether a password is that of a verifier. No password is that of an empty one.
func (v *Verified) same(verifier, password string) bool {
	if password == "" {
		return true
	}
	if v == nil {
		return isPassword(verifier, password)
	}
	key := sha256.Sum256([]byte(strconv.Itoa(len(verifier)) + ":" + verifier + password))
	v.mu.Lock()
	is, known := v.known[key]
	v.mu.Unlock()
	if known {
		return is
	}
	is = isPassword(verifier, password)
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.known == nil || len(v.known) >= maxVerified {
		v.known = map[[sha256.Size]byte]bool{}
	}
	v.known[key] = is
	return is
}

func isPassword(verifier, password string) bool {
	rest, found := strings.CutPrefix(verifier, verifierPrefix)
	if !found {
		return false
	}
	text, rest, found := strings.Cut(rest, "$")
	thousands, err := strconv.ParseUint(text, 16, 16)
	rounds := int(thousands) * roundsUnit
	if !found || err != nil || len(rest) != saltBytes+digestBytes || rounds == 0 || rounds > maxRounds {
		return false
	}
	salt, digest := rest[:saltBytes], rest[saltBytes:]
	return subtle.ConstantTimeCompare([]byte(digest), []byte(shaCrypt(password, salt, rounds))) == 1
}

// shaCrypt is the digest of SHA-crypt with SHA-256, for a salt of any length.
func shaCrypt(password, salt string, rounds int) string {
	key, seed := []byte(password), []byte(salt)
	other := sha256.Sum256(concat(key, seed, key))
	first := sha256.New()
	first.Write(concat(key, seed, repeated(other[:], len(key))))
	for n := len(key); n > 0; n >>= 1 {
		if n&1 != 0 {
			first.Write(other[:])
		} else {
			first.Write(key)
		}
	}
	sum := first.Sum(nil)

	ofKey := sha256.New()
	for range key {
		ofKey.Write(key)
	}
	p := repeated(ofKey.Sum(nil), len(key))
	ofSeed := sha256.New()
	for range 16 + int(sum[0]) {
		ofSeed.Write(seed)
	}
	s := repeated(ofSeed.Sum(nil), len(seed))

	for i := range rounds {
		round := sha256.New()
		begin, end := sum, p
		if i&1 != 0 {
			begin, end = p, sum
		}
		round.Write(begin)
		if i%3 != 0 {
			round.Write(s)
		}
		if i%7 != 0 {
			round.Write(p)
		}
		round.Write(end)
		sum = round.Sum(nil)
	}
	return encoded(sum)
}

func concat(parts ...[]byte) []byte {
	var all []byte
	for _, part := range parts {
		all = append(all, part...)
	}
	return all
}

// repeated is so many bytes of a text that is repeated.
func repeated(of []byte, n int) []byte {
	out := make([]byte, 0, n+len(of))
	for len(out) < n {
		out = append(out, of...)
	}
	return out[:n]
}

const alphabet = "./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// encoded writes three bytes as four letters, the lowest bits first, in the order that SHA-crypt has them in.
func encoded(sum []byte) string {
	var b strings.Builder
	write := func(high, middle, low byte, letters int) {
		bits := uint32(high)<<16 | uint32(middle)<<8 | uint32(low)
		for range letters {
			b.WriteByte(alphabet[bits&0x3f])
			bits >>= 6
		}
	}
	for i := range 10 {
		at := [3]int{i, i + 10, i + 20}
		turn := (3 - i%3) % 3
		write(sum[at[turn]], sum[at[(turn+1)%3]], sum[at[(turn+2)%3]], 4)
	}
	write(0, sum[31], sum[30], 3)
	return b.String()
}
