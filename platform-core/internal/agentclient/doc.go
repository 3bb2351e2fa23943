// SPDX-License-Identifier: Apache-2.0

// Package agentclient calls the process manager in a pod: gRPC with mutual TLS to the pod's
// address. Connections are kept per pod, close themselves when idle, and are dropped when the pod
// goes. No more than DefaultMaxOpen are kept that nobody calls on, however many pods there are.
//
// Every call returns at once with what the agent has recorded; the outcome of a change
// comes with the pod's report annotation. Calls have a deadline of CallTimeout.
package agentclient
