// SPDX-License-Identifier: Apache-2.0

// Package retention deletes the Backups of its domain whose retention has them go.
//
// Inputs: Backups of its domain, taken together by the BackupRepository that they are in; that repository.
//
// Effects: it deletes Backups, each as it was read from the API server a moment before, and writes nothing else. What
// is kept of them is then removed by the controller of Backups. No more are being deleted at a time than run at a time
// in the repository, so that a retention that was made shorter is no burst of pods; those that do not come to an end
// keep others waiting only when there are many.
//
// What it never deletes: the last Backup of a series that can be restored, those without a retention, those that are to
// stay in the repository (deletionPolicy Retain), those that are not whole yet, and any in a repository that is not
// there.
//
// Events of a Backup: Expired, with the rule that has it go.
package retention
