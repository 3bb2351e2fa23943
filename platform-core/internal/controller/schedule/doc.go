// SPDX-License-Identifier: Apache-2.0

// Package schedule makes the Operations that the schedules of Applications ask for. What to make, and when, is decided
// in package scheduling.
//
// Inputs: Applications of its domain and the Operations that their schedules made; the loaded plugins, which say
// whether a template waits for maintenance windows.
//
// Effects: Operations, created only and never changed, each under a name that follows from Application, schedule and
// time, and then the annotation of the Application that records which times are settled. A crash between the two finds
// the Operations under their names. The annotation is bound to the version that was decided on, so that of two leaders
// one fails. How the schedules are is shown in the status by the application controller.
//
// What is decided from the cache is decided again on live reads before anything is made. It sleeps until the next time;
// nothing is written unless a time comes or a schedule changes.
//
// Events of the Application: Scheduled, and TimePassedOver for a time at which no Operation was made.
package schedule
