// SPDX-License-Identifier: Apache-2.0

package v1_test

import (
	"strings"
	"testing"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// People write the annotation by hand.
func FuzzParseHandoverRequest(f *testing.F) {
	for _, text := range []string{"", "a-0", "a-0/a-1", "a-0/a-1!#op/uid", "!#", "a#b#c", "/"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		request := platformv1.ParseHandoverRequest(text)
		if strings.ContainsAny(request.From+request.To, "!/") {
			// No pod has such a name.
			return
		}
		if again := platformv1.ParseHandoverRequest(request.String()); again != request {
			t.Errorf("%q is read as %+v, and that as %+v", text, request, again)
		}
		request.Operation()
	})
}
