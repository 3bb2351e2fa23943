// SPDX-License-Identifier: Apache-2.0

package conditions_test

import (
	"testing"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// What stops a pod of one part is said before what another part waits for.
func TestWorstSaysFirstWhatStopsAPod(t *testing.T) {
	needs := outcome.Waiting(platformv1.ReasonNeedNotReady, "component web: waiting for component db to be ready")
	image := outcome.Waiting(platformv1.ReasonImageUnavailable, "component db: no image")
	refused := outcome.Stalled(platformv1.ReasonMembersRefused, "no")
	for name, test := range map[string]struct {
		parts           []outcome.Outcome
		kind            outcome.Kind
		reason, message string
	}{
		"nothing": {nil, outcome.KindDone, "", ""},
		"behind": {[]outcome.Outcome{needs, outcome.Done(), image}, outcome.KindWaiting, image.Reason(),
			"component db: no image; component web: waiting for component db to be ready"},
		"ahead":        {[]outcome.Outcome{image, needs}, outcome.KindWaiting, image.Reason(), "component db: no image"},
		"beside worse": {[]outcome.Outcome{image, refused}, outcome.KindStalled, refused.Reason(), image.Message() + "; no"},
		"no pod stops": {[]outcome.Outcome{outcome.Done(), needs}, outcome.KindWaiting, needs.Reason(), needs.Message()},
	} {
		o := conditions.Worst(test.parts...)
		if o.Kind() != test.kind || o.Reason() != test.reason || o.Message() != test.message {
			t.Errorf("%s: got %v %s %q", name, o.Kind(), o.Reason(), o.Message())
		}
	}
}
