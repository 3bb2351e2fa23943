// SPDX-License-Identifier: Apache-2.0

// Package repository says of each BackupRepository whether movers of this operator get in, and how what is kept
// compares with the Backups that there are.
//
// Inputs: BackupRepositories, which belong to no domain; the Secrets that they name, each watched by its name; the
// claim; the Jobs of the check and of the inventory; when that has ended, the Backups of all domains.
//
// Effects: one Job at a time for each repository, which writes, reads and deletes a small object there, lists what is
// kept, or reads what is told of it, and is removed once its result is on record; Backups of what is kept and has none,
// where the spec asks for that, each made once under a name that follows from its folder (docs/adr/0035). It owns the
// element of its domain in status.domains; the others are those of other operators, so that each write is bound to the
// version that was read.
//
// When: for each spec and content of the Secrets, before each inventory that is due, and when a Backup of the domain or
// an inventory has failed since; what was not found ready, every few minutes until it is. The inventory is taken when a
// repository is ready for the first time and then once in its interval, by whichever operator comes first: the others
// see when the latest was, and drop their own. The import follows it, by the same operator. It deletes nothing: a
// backup of which nothing is known may be all that is left of an instance.
package repository
