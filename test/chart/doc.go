// SPDX-License-Identifier: Apache-2.0

// Package chart has the tests of the charts that need an API server and no node: the operator runs as
// a process of its own, with the arguments, the settings, the account and the rights that the chart gives it.
package chart
