// SPDX-License-Identifier: Apache-2.0

// Package platform tests what all kinds and operators share, from outside and on a real cluster: the engine, plugins,
// Operations, charts, security, nodes, and middleware that is run by a plugin alone.
//
// Tests that stop, replace or measure the operator run alone, one after the other; the rest runs in parallel after
// them.
package platform
