// SPDX-License-Identifier: Apache-2.0

// Package batch tests the kinds of the batch operator from outside, on a real cluster: CronJob.
package batch
