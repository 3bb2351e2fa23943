// SPDX-License-Identifier: Apache-2.0

// Package backup carries out Backups, which Operations make, and removes what is kept when they are deleted; what is
// half made whatever their deletionPolicy.
//
// Inputs: Backups of its domain; the Application that one names, its plugin, sets and pods with the reports of their
// agents; the BackupRepository that it names and the Secrets or the claim of that; the Jobs and the VolumeSnapshots
// that it made, the latter past every cache; Operations that are drills of it.
//
// Effects: one Job that carries the data (mover-<UID>), made once, under a name that follows from the Backup, after the
// status says from which pod and to which folder; Jobs that remove what is kept (remove-<UID>-<number>). Nothing is
// ever tried again: whoever asked makes another Backup. Where a method keeps its data so: VolumeSnapshots of the
// source's volume, created only, whose names are in the status before, and their deletion; and calls that have the
// agent of the source keep the middleware still meanwhile, or go on. They are part of observing, since they say how it
// stands: a repeated one renews and begins nothing. It owns the status of Backups ("backup"), and lets go of their
// finalizer.
//
// Conditions: Ready (it is whole), Reconciling and Stalled.
//
// Turns: of the Backups of a repository at most maxConcurrentBackups run. One begins when fewer than that run or were
// made before it and wait for their turn too; one that waits for a pod to take the data from keeps nobody waiting. It
// says behind whom it waits. An operator lets one Backup at a time look and begin; two operators that look in the same
// moment may exceed the limit by one each.
//
// What a restore drill has come to is in the outputs of its Operation, which does not end before the Backup says it,
// too (status.verified).
//
// One that is whole stalls as DataMissing when the inventory of its repository (package repository) has found nothing
// of it.
//
//	Pending ──▶ Running ──▶ Completed ──▶ Deleting
//	   └───────────┴─────▶ Failed ──────────┘
package backup
