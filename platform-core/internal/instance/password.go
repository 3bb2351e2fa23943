// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"crypto/rand"

	"github.com/zeroinfra/platform-core/internal/plugin/schema"
)

// defaultPasswordLength is the number of characters of a generated password: at 5 bits each, 160 bits.
const defaultPasswordLength = 32

// NewPassword returns letters and digits from the system's random source, as many as a credential asks for.
func NewPassword(declared schema.Credential) string {
	length := declared.Length
	if length == 0 {
		length = defaultPasswordLength
	}
	text := ""
	for len(text) < length {
		text += rand.Text()
	}
	return text[:length]
}
