// SPDX-License-Identifier: Apache-2.0

// Package crd embeds the CustomResourceDefinitions of the core API, as every
// operator installs them.
package crd

import "embed"

// FS holds the definitions as bases/*.yaml, generated from api/v1.
//
//go:embed bases/*.yaml
var FS embed.FS
