// SPDX-License-Identifier: Apache-2.0

// Package placeholder compiles and evaluates the placeholders of plugins: CEL
// expressions in "${...}" within a text. "$${" is a literal "${".
//
// An expression is type-checked against the variables of its Scope and has a
// cost limit. Its outcome is one piece of text, a number or true/false, never a
// list or a map, so that no value can change the shape of what is rendered; and
// it is never looked at again, so that a "${" within a value stays what it is.
package placeholder
