// SPDX-License-Identifier: Apache-2.0

package plugin_test

import (
	"testing"

	"github.com/zeroinfra/platform-core/internal/plugin"
)

func TestIsReason(t *testing.T) {
	for text, want := range map[string]bool{"ArchivingFails": true, "": false, "two words": false, "1st": false} {
		if plugin.IsReason(text) != want {
			t.Errorf("%q is taken for a reason: %v", text, !want)
		}
	}
}
