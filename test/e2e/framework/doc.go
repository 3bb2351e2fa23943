// SPDX-License-Identifier: Apache-2.0

// Package framework is what the end-to-end tests share: the body of TestMain, namespaces that are deleted at the end
// of a test, instances of each kind with clients of their middleware, port-forwards, commands in pods, and the API
// server's audit log.
//
// The tests judge the suite from outside: through the Kubernetes API, through a client behind the Service, and through
// the audit log. Nothing of the product runs inside the tests, and no test reads a controller's memory.
//
// KUBECONFIG names the cluster; it is required. The README of the module lists the other settings and what each file
// proves. A test runs in a namespace of its own that enforces the Pod Security Standard "restricted".
//
// Where to begin:
//
//   - Main connects to the cluster; Install runs helm in a test.
//   - NewNamespace makes the namespace of a test; its methods create, read and delete objects in it.
//   - ApplySamplesOf applies the samples of an operator, WaitForReady waits by the rules of kstatus, BindingData reads
//     what clients need.
//   - NewPortForwards dials pods and Services through the API server, NewExternalClient from the network of the
//     cluster.
//   - Run and Exec run a command in a container; RunClient makes a pod to run clients in.
//   - Poll, Eventually and Throughout wait for conditions, and say what they last lacked.
package framework
