// SPDX-License-Identifier: Apache-2.0

// Package permission decides who may write, where the engine is the authority over it: at no moment two.
//
// The WorkloadSet holds a [Record]: a term that only grows, the one member that may write in it, and the list of
// members that this depends on. The agent of each pod ([Agent]) runs a primary only while it has a permission, which is
// valid for [Validity] from the moment at which it was asked for. There are two ways to one:
//
//   - every other member of the list acknowledged the primary's term, or
//   - a consistent read of the record named the primary at its term.
//
// So a primary that loses the API server goes on while all others are there, one that loses a member goes on while the
// API server is there, and one that is cut off from the world stops by itself. At the end of its permission the
// process is killed; it is not asked to end, since a graceful end lets open sessions write on.
//
// To change the primary ([Deposal]) the engine
//
//  1. writes the next term, with nobody named: from then on no read gives the old primary a permission;
//  2. has the candidate, a member of the list, promise to acknowledge no lower term, and keep that on disk: from
//     then on no round of acknowledgements does;
//  3. waits until what was given before has run out, unless the old primary's agent made the same promise,
//     and looks at the candidate again;
//  4. names the candidate.
//
// A list changes only when its primary confirmed the one before, and until it confirmed the new one a candidate has to
// be in both. A member is its pod's name and the identity of what its promises are kept on: one that lost its disk
// has promised nothing and is another member.
//
// All writes of the record are guarded by its resource version. Times are those of one machine since it booted
// (CLOCK_BOOTTIME, which goes on while the machine sleeps) and are never compared between machines; [Margin] is for
// clocks that run at different speeds. A machine that is stopped from outside and goes on later can write for the
// instant until its agent looks at the clock, so that this package alone does not make up for replication that is
// asynchronous.
//
// The package imports the standard library only, so that agents and engine run the same code. It has no clock and
// sends nothing. The idea of a lease that is counted from its request is that of C. Gray and D. Cheriton, "Leases: an
// efficient fault-tolerant mechanism for distributed file cache consistency" (1989).
package permission

import "time"

const (
	// Validity of a permission, from the sending of the request for it.
	Validity = 6 * time.Second
	// Margin that the engine waits beyond it. Clocks may differ in speed by a seventh.
	Margin = 2 * time.Second
	// MaxJump is by how much a term that a single pod tells of may be higher than the one that is known. More of them have
	// not gone by unheard: a pod that says so is wrong, or not to be trusted, and after a term at its ceiling there would
	// be no other.
	MaxJump = 1000
)
