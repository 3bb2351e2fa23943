// SPDX-License-Identifier: Apache-2.0

// Package operation runs Operations: it carries out what package opsflow decides.
//
// Inputs: Operations of its domain; the Application, Component or WorkloadSet
// that each names; WorkloadSets and pods of that Application, with the reports of
// their agents; the plugin that the Application is pinned to.
//
// Effects: calls to the process managers of pods, one at a time, each after the
// status that announces it was written; the deletion of a finished Operation
// whose time to live is over. It owns the status of Operations ("operation") and
// applies no objects.
//
// Conditions: Ready (True once succeeded), Reconciling (while pending or running)
// and Stalled (once failed). A finished Operation is never written again.
//
// A restore drill makes an Application, which the Operation owns, and deletes it again. It ends without a turn of its
// own only once that is being deleted.
//
// One Operation of an Application runs at a time, and beside it one drill. Who starts is decided under a
// lock of this process (there is one leader) on a live list, so that neither
// parallel workers nor a cache that lags can start two. Nothing waits in a
// reconcile: pods and Operations wake it, a clock serves timeouts, times to live,
// and calls that nobody answered.
package operation
