// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"testing"

	"github.com/zeroinfra/platform-core/internal/plugin/schema"
)

func TestPasswordsAreLongAndDiffer(t *testing.T) {
	seen := map[string]bool{}
	for _, length := range []int{0, 8, 32, 100} {
		want := length
		if want == 0 {
			want = defaultPasswordLength
		}
		password := NewPassword(schema.Credential{Length: length})
		if len(password) != want || seen[password] {
			t.Errorf("length %d: got %d characters", length, len(password))
		}
		seen[password] = true
	}
}
