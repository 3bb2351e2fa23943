// SPDX-License-Identifier: Apache-2.0

// Package testkit is what tests of the suite share: a real API server with etcd
// (Env), golden files (Golden), the rules that every status keeps (StatusLint),
// waits on conditions (WaitFor, WaitForCondition) and builders.
//
// Tests that need Env carry the build tag "integration". They fail, and are never
// skipped, when the binaries of Kubernetes are not there.
package testkit
