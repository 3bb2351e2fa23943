// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"strings"

	"github.com/zeroinfra/platform-core/agentproto/configfile"
	"github.com/zeroinfra/platform-core/agentproto/plan"
)

// Texts looks up what Secrets hold that lead to a middleware outside of the pod. A nil reference has no text. The error
// is that of the first one that cannot be looked up.
func Texts(lookup configfile.Lookup, refs ...*plan.SecretRef) (map[*plan.SecretRef]string, error) {
	texts := make(map[*plan.SecretRef]string, len(refs))
	for _, ref := range refs {
		if ref == nil {
			continue
		}
		text, err := lookup(*ref)
		if err != nil {
			return nil, err
		}
		// A Secret that was made of a file ends with a line break.
		texts[ref] = strings.TrimSpace(text)
	}
	return texts, nil
}
