// SPDX-License-Identifier: Apache-2.0

package jobstate

import (
	"encoding/json"
	"slices"

	"github.com/zeroinfra/platform-core/agentproto/mover"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// longestReason is how many characters of what a mover said last are taken for the reason why it ended.
const longestReason = 400

// finalReasons are those that another attempt at the same Backup and volume cannot mend.
var finalReasons = []string{mover.ReasonDamaged, mover.ReasonUnsupported, mover.ReasonNotFound, mover.ReasonBadPlan,
	mover.ReasonTargetNotEmpty}

// IsFinal says whether another mover would fail for the same reason.
func IsFinal(reason string) bool { return slices.Contains(finalReasons, reason) }

// Result reads what a mover said last, of a Job that has ended. One that was killed said nothing.
func (s *State) Result() mover.Result {
	var result mover.Result
	if err := json.Unmarshal([]byte(s.Said), &result); err != nil || result.Reason == "" &&
		s.Phase != platformv1.OperationSucceeded {
		result = mover.Result{}
		if s.Phase != platformv1.OperationSucceeded {
			result.Reason, result.Message = platformv1.ReasonMoverLost, "its mover ended without a result: "+
				s.LastWord(longestReason)
		}
	}
	return result
}
