// SPDX-License-Identifier: Apache-2.0

package accept

import (
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/opsflow"
	"github.com/zeroinfra/platform-core/internal/render"
)

// JudgeOperation decides about an Operation that is about to be created, by what it says alone: its inline template,
// and the parameters, the retry and the account for that. One of a template of a plugin or of the engine is about its
// target, and its record says what became of it.
func JudgeOperation(op *platformv1.Operation) Verdict {
	if !opsflow.IsInline(op) {
		return Verdict{}
	}
	template, refusal := opsflow.InlineTemplate(op.Spec)
	if refusal == nil {
		refusal = opsflow.CheckInline(op, template)
	}
	if refusal == nil {
		return Verdict{}
	}
	return Verdict{Refused: []*render.Refusal{refuse(refusal.Reason, "%s", refusal.Message)}}
}
