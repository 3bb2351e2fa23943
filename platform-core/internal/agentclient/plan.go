// SPDX-License-Identifier: Apache-2.0

package agentclient

import (
	"context"
	"encoding/json"

	agentv1 "github.com/zeroinfra/platform-core/agentproto/v1"
)

// heeds refuses a plan of which the agent would leave something out without a word: what came after the first version.
func (p *process) heeds(ctx context.Context, method string, text []byte) error {
	var wanted struct {
		Process struct {
			Hooks json.RawMessage `json:"hooks"`
		} `json:"process"`
	}
	// A plan that cannot be read is for the agent to refuse.
	if len(text) == 0 || json.Unmarshal(text, &wanted) != nil || wanted.Process.Hooks == nil {
		return nil
	}
	heeds, err := p.line.can(ctx, agentv1.CapabilityHooks, ofProcess)
	switch {
	case err != nil:
		return p.failure("Capabilities", err)
	case !heeds:
		return &Error{Pod: p.pod, Address: p.address, Method: method, Kind: Outdated,
			Problem: "the agent in the pod is too old to run the hooks of the plan: delete the pod, so that it comes back " +
				"with the present agent"}
	}
	return nil
}
