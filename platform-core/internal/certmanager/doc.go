// SPDX-License-Identifier: Apache-2.0

// Package certmanager reads, writes and watches the objects of cert-manager, where that is installed. It may be installed, at any
// time, after the operator: nothing is watched until somebody has asked for TLS and its kinds are there.
package certmanager
