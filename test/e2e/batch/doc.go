// SPDX-License-Identifier: Apache-2.0

// Package batch tests the kinds of the batch operator from outside, on a real cluster: CronJob and Workflow, with real
// pods and a real HTTP server.
package batch
