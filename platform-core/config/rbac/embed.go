// SPDX-License-Identifier: Apache-2.0

// Package rbac embeds the rights of an operator, for tests that run as its account.
package rbac

import (
	"embed"
	"io/fs"
)

// FS holds the account of an operator, its roles and their bindings, and the policies of the suite.
//
//go:embed *.yaml
var FS embed.FS

//go:embed webhook
var webhook embed.FS

// Webhook holds what an operator needs beside FS for a webhook, whose configuration is named "webhook".
func Webhook() fs.FS {
	folder, err := fs.Sub(webhook, "webhook")
	if err != nil {
		panic(err) // There is that folder: it is embedded.
	}
	return folder
}
