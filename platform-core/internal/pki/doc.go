// SPDX-License-Identifier: Apache-2.0

// Package pki is the certificate authority between the operator of a domain and
// the agents in its pods. There is one authority per domain, kept in the Secret
// "<domain>-agent-ca" in the operator's namespace and followed by every replica of the operator. Another one follows it
// in time (Advance).
//
// Agents get a server certificate per pod (IssueServer), which the engine keeps in a Secret
// of that pod. The operator's own client certificate lives in memory only (ClientTLS).
package pki
