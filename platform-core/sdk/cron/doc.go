// SPDX-License-Identifier: Apache-2.0

// Package cron computes the times of cron lines in a time zone. It is pure: the clock is the caller's.
//
// A line names times that the clocks on the wall show. Where the clocks are put forward they leave out some (a gap),
// and where they are put back they show some twice (an overlap). A Policy says what becomes of these:
//
//   - Gap Shift: a time in the gap comes at the moment at which the clocks are put forward, several of them once. Gap
//     Skip: it does not come.
//   - Overlap First, Last or Both: which of the two moments at which the clocks show a time counts.
//
// The computation goes from one change of the offset to the next. Between two changes the wall clock is UTC plus the
// offset, so that the times of a line there are those of its UTC times.
package cron
