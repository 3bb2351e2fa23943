// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// ExpectedStall is an edit that one object's schema cannot judge: the object says what is wrong as a condition.
type ExpectedStall struct {
	Name   string
	Edit   Setting
	Reason string
	// Texts all have to be in the message, or in the refusal where the operator's webhook is asked in time.
	Texts []string
}

// ExpectStalled waits for the error of a bad spec: as a condition, soon, with its reason and a sentence that names what
// is wrong.
func (i *Instance) ExpectStalled(c ExpectedStall) {
	i.Helper()
	var message string
	took := i.Eventually(ErrorTimeout, fmt.Sprintf("Redis %q says %s", i.Name, c.Reason), func() error {
		r := i.Object()
		stalled := meta.FindStatusCondition(r.Status.Conditions, platformv1.StalledCondition)
		if stalled == nil || stalled.Reason != c.Reason || r.Status.ObservedGeneration != r.Generation {
			return fmt.Errorf("at generation %d of %d it says: %s", r.Status.ObservedGeneration, r.Generation,
				Describe(r.Status.Conditions))
		}
		message = stalled.Message
		for _, text := range c.Texts {
			if !strings.Contains(message, text) {
				return fmt.Errorf("the message says nothing of %q: %s", text, message)
			}
		}
		return nil
	})
	i.Logf("after %s: %s: %s", FormatSeconds(took), c.Reason, message)
}
