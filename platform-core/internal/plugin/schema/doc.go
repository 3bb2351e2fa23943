// SPDX-License-Identifier: Apache-2.0

// Package schema has the types of a plugin as its author writes them: what is in components.yaml and in the sets of
// parameters. They say what a plugin declares, and check nothing: package plugin loads, checks and renders them.
package schema
