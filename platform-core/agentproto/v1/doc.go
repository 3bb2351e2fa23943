// SPDX-License-Identifier: Apache-2.0

// Package agentv1 is the wire between the engine and the agents in a pod,
// generated from agent.proto, which is its specification.
package agentv1
