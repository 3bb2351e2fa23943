// SPDX-License-Identifier: Apache-2.0

// Package writing is the loop around permission.Agent: it keeps what was promised on disk ([memory]), asks the other
// members of the list, has the record read where they do not answer, and kills a writer at the end of its permission
// ([Guard]).
//
//	           Acknowledge, Promise, Learn, AnswerRead
//	                           │ calls
//	members ◄── rounds ── [Member] ── wishes ──► status agent ──► API server
//	                           │ end of the permission
//	                        [Guard] ── SIGKILL ──► process
//	                           │ timer                ▲
//	                       [Sentinel] ── SIGKILL ─────┘ where PID 1 is held up
//
// A Member has a lock of its own, which is held while something is written to disk. The Guard has another one and
// nothing that it waits for but the clock, so that a disk that hangs does not keep a process alive.
package writing
