// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"testing"

	"github.com/zeroinfra/platform-core/agentproto/report"
	"github.com/zeroinfra/platform-core/internal/plugin/optemplate"
)

// What an action that runs says of how far it is, is what its Operation waits for.
func TestAnActionThatRunsSaysHowFarItIs(t *testing.T) {
	step := &optemplate.Step{Agent: &optemplate.AgentStep{Action: "reassign"}}
	for message, want := range map[string]string{
		"":              "the reassign of pod kafka-0",
		"9 of 20 to go": "the reassign of pod kafka-0 (9 of 20 to go)",
	} {
		v := agentStep{}.acted(nil, step, nil, &Pod{Name: "kafka-0"},
			&Answer{Call: report.Call{Phase: report.CallRunning, Message: message}})
		if v.waiting != want || v.retry != actionPoll {
			t.Errorf("with %q it waits for %q, want %q", message, v.waiting, want)
		}
	}
}
