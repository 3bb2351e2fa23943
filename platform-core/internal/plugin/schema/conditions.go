// SPDX-License-Identifier: Apache-2.0

package schema

// PodCondition is a condition of the instance that follows from what its pods report. It holds nothing up. Status,
// Reason and Message are CEL expressions over role and attributes, as the probe reports them, that give text.
type PodCondition struct {
	// Type of the condition, for example Archiving.
	Type string `json:"type"`
	// Roles of the pods that it speaks of; every pod when empty.
	Roles []string `json:"roles,omitempty"`
	// Status gives "True" or "False"; an empty text where there is no such condition.
	Status string `json:"status"`
	// Reason gives one word.
	Reason string `json:"reason"`
	// Message gives a sentence.
	Message string `json:"message"`
}
