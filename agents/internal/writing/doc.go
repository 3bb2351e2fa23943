// SPDX-License-Identifier: Apache-2.0

// Package writing implements one member of a set with a write lease, around permission.Agent. It persists promises
// ([memberFile]), asks the other members for acknowledgements, requests a read of the record if they do not answer, and
// kills the primary at the end of its write lease ([Guard]).
//
//	           Acknowledge, Promise, Learn, AnswerRead
//	                           │ calls
//	members ◄── rounds ── [Member] ── reads ───► status agent ──► API server
//	                           │ end of the lease
//	                        [Guard] ── SIGKILL ──► process
//	                           │ timer                ▲
//	                       [Sentinel] ── SIGKILL ─────┘ if PID 1 hangs
//
// A Member has a lock that is held during writes to disk. The Guard has its own lock and waits for nothing but the
// clock, so that a hanging disk does not keep a process alive.
package writing
