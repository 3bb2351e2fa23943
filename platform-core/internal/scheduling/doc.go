// SPDX-License-Identifier: Apache-2.0

// Package scheduling decides which Operations the schedules of an Application make. It is pure: the clock is the
// caller's.
//
// Each schedule has a Record, which says up to when its times are settled. A time is settled when its Operation is made
// or when it is passed over, for good. What a schedule asks for the first time, with another line, or after a pause
// counts from then on.
//
// A time outside of the maintenance windows is that of the next opening, for what restarts or replaces pods: times that
// come to the same opening are one. A time that is past by more than Late was missed.
//
// A clock that was set back by up to an hour makes nothing twice. By more than that it was wrong before, and the
// schedules count from what it says now.
package scheduling
