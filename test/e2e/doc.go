// SPDX-License-Identifier: Apache-2.0

// Package e2e judges the suite from outside, on a real cluster with real
// middleware: through the Kubernetes API, through redis-cli behind the Service,
// and through the API server's audit log. Nothing of the product runs inside the
// tests, and no test reads a controller's memory.
//
// KUBECONFIG names the cluster; it is required. The package's README, one folder
// up, lists the other settings and what each file proves.
//
// Tests that stop, replace or measure the operator run alone, one after the
// other; the rest runs in parallel after them, each in a namespace of its own that
// enforces the Pod Security Standard "restricted".
package e2e
