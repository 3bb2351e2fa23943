// SPDX-License-Identifier: Apache-2.0

// Package failoverrecord puts the failovers that the engine decides on on record as Operations.
//
// Duty: for each term of a WorkloadSet that began since its writer failed, and that no Operation asked for, there is an
// Operation of template Failover, which tells of it and ends when the next pod takes writes. Nothing waits for it: the
// failover goes on by itself, and what it did is in status.primary.changes until it is on record here.
//
// Inputs: the WorkloadSet's status.primary, and its Application, which owns the Operation.
//
// Writes: Operations, create-only, under names that follow from set and term; then the annotation
// RecordedTermAnnotation of the WorkloadSet, so that what was purged is not made again.
package failoverrecord
