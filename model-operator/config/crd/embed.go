// SPDX-License-Identifier: Apache-2.0

// Package crd holds the definitions of this operator's kinds, which its leader
// installs.
package crd

import "embed"

// FS holds the generated CustomResourceDefinitions.
//
//go:embed bases/*.yaml
var FS embed.FS
