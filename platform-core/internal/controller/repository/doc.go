// SPDX-License-Identifier: Apache-2.0

// Package repository says of each BackupRepository whether movers of this operator get in, and how what is kept compares with the Backups that there are.
//
// Inputs: BackupRepositories, which belong to no domain; the Secrets that they name, each watched by its name; the claim; the Jobs of the check and
// of the inventory; when that has ended, the Backups of all domains.
//
// Effects: one Job at a time for each repository, which writes, reads and deletes a small object there or lists what is kept, and is removed once its result is on record.
// It owns the element of its domain in status.domains; the others are those of other operators, so that each write is bound to the version that was read.
//
// When: once for each spec and content of the Secrets. What was found ready is not looked at again; what was not, every few minutes until it is. The
// inventory is taken when a repository is ready for the first time and then once in its interval, by whichever operator comes first: the others
// see when the latest was, and drop their own. It deletes nothing: a backup of which nothing is known may be all that is left of an instance.
package repository
