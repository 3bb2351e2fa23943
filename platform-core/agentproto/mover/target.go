// SPDX-License-Identifier: Apache-2.0

package mover

import "time"

const (
	// TargetEnv is the variable that has the command of VerbRestore go on from the data of the backup: a Target as JSON.
	// It is not set where the data is to be as the backup has it.
	TargetEnv = "RESTORE_TARGET"
	// ExitOutOfRange is the exit code by which that command says that the target is out of what it can reach:
	// ReasonOutOfRange. What it says last on standard error is the sentence for a person.
	ExitOutOfRange = 65
)

// Reasons of movers. This one is of those that restore to a point in time.
const (
	// ReasonOutOfRange: the logs that are kept do not lead from the backup to the point in time, or not yet. The
	// operator tries again. Wait until the log is archived, or restore to another time or from another Backup.
	ReasonOutOfRange = "TargetOutOfRange"
)

// Target is a point in time that is reached from a backup by logs that were kept since.
type Target struct {
	// Time that is wanted: all that was committed until then, and nothing of what came after.
	Time time.Time `json:"time"`
	// Since is when the backup was whole; no earlier time can be reached from it.
	Since time.Time `json:"since"`
	// Place is <namespace>/<application> of the instance that was backed up.
	Place string `json:"place"`
	// Parameters say where the logs are, by the names that the plugin declares.
	Parameters map[string]string `json:"parameters,omitempty"`
	// Facts of the backup.
	Facts map[string]string `json:"facts,omitempty"`
}
