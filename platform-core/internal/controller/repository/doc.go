// SPDX-License-Identifier: Apache-2.0

// Package repository says of each BackupRepository whether movers of this operator get in.
//
// Inputs: BackupRepositories, which belong to no domain; the Secrets that they name, each watched by its name; the claim; the Job of the check.
//
// Effects: one Job at a time for each repository, which writes, reads and deletes a small object there, and is removed once its result is on record.
// It owns the element of its domain in status.domains; the others are those of other operators, so that each write is bound to the version that was read.
//
// When: once for each spec and content of the Secrets. What was found ready is not looked at again; what was not, every few minutes until it is.
package repository
