// SPDX-License-Identifier: Apache-2.0

// Package framework is what the end-to-end tests share: the body of TestMain, namespaces that are deleted at the end of a test, instances of each
// kind with clients of their middleware, port-forwards, commands in pods, and the API server's audit log.
//
// The tests judge the suite from outside: through the Kubernetes API, through a client behind the Service, and through the audit log. Nothing
// of the product runs inside the tests, and no test reads a controller's memory.
//
// KUBECONFIG names the cluster; it is required. The README of the module lists the other settings and what each file proves. A test
// runs in a namespace of its own that enforces the Pod Security Standard "restricted".
package framework
