// SPDX-License-Identifier: Apache-2.0

// Package rbac embeds the rights of an operator, for tests that run as its account.
package rbac

import "embed"

// FS holds the account of an operator, its roles and their bindings, and the policy on the agents.
//
//go:embed *.yaml
var FS embed.FS
