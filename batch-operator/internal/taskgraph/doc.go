// SPDX-License-Identifier: Apache-2.0

// Package taskgraph compiles tasks that depend on each other to the inline template of an Operation, and checks them
// and the arguments of a run. It is pure. Workflows run what it makes, and so do CronJobs whose task is a Workflow.
package taskgraph
