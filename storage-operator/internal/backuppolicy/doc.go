// SPDX-License-Identifier: Apache-2.0

// Package backuppolicy has the instances that BackupPolicies choose backed up, whatever domain they are of.
//
// A policy compiles to one entry of spec.schedules, with the policy's name, in the Application of each instance: an
// Operation of template Backup; and with a drill to another one, of template VerifyBackup, with -drill after its name.
// So it is the operator of the instance that makes the Operations, once each, under names that follow from the time;
// that makes up for a missed time, once; and that goes on while this operator is away. An instance of a domain whose
// operator comes later is backed up from then on.
//
// Inputs: BackupPolicies; Applications and scheduled Backups of all domains, of which a cache of its own holds the
// little that is read here; BackupRepositories.
//
// Effects: these entries and annotations that say whose they are, applied under the field owner backuppolicy/<name of
// the policy>, and applied away from instances that are not chosen any more, or whose policy is gone. An entry of that
// name that somebody else made is left alone. Nothing has a finalizer: while this operator is away the entries stay,
// and what a policy that was deleted left is taken away when it is back.
//
// Conditions: Ready (every instance is covered, and its last backup is whole), Reconciling and Stalled, and with a
// drill BackupsVerified. It owns the status of BackupPolicies.
package backuppolicy
