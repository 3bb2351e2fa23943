// SPDX-License-Identifier: Apache-2.0

// Package entity keeps the objects that Entities stand for, inside the middleware, as their specs say.
//
// A turn is about all Entities of one Application: its request names the Application. It asks the ops agent of the pod
// that takes writes for all of their objects at once, compares, changes in batches what is not as asked, and reads that
// back. Objects that every pod has for itself (pods: Each) are asked for in each, one after the other.
//
// Inputs: Entities of its domain, and whether the objects that declare those which are to go are there still; the
// Application that they name, and its plugin; the pods of that Application, with the reports of their agents; the
// Secrets that passwordFrom names, each watched by its name.
//
// Effects: calls to ops agents, each with an idempotency key; the finalizer of Entities whose object goes with them. It
// owns the status of Entities ("entity").
//
// Conditions: Ready (the object in the middleware matches the spec, as read back), Reconciling and Stalled. One that is
// ready stays so while no pod can be asked, and nothing is written.
//
// Whose object it is: before an object is made, status.origin says so; one that is there without that is somebody
// else's, and is left alone unless the spec adopts it. So a controller that dies in between knows its own objects
// again. What was refused and is not there is claimed no more, and is asked for again ever more seldom (claim.go).
//
// Drift: objects are looked at every so often (a setting), after the process was started anew and when another pod
// takes writes. What somebody changed beside the Entity is put right, told in an event and counted. What a restarted
// process forgot is no drift.
package entity
