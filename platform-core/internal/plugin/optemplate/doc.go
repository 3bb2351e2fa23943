// SPDX-License-Identifier: Apache-2.0

// Package optemplate has the templates of Operations: the types of their steps, the checks of what they say, the
// compilation of their CEL expressions, and the order in which steps are taken. A template belongs to a plugin, to the
// engine, or to one Operation (inline). The package is pure, and knows plugins only by [Scope].
package optemplate
