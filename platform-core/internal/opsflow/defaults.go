// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"embed"
	"fmt"
	"io/fs"
	"sync"

	"github.com/zeroinfra/platform-core/internal/plugin"
)

//go:embed templates/*.yaml
var templates embed.FS

// Defaults are the templates that every plugin has which brings none of that name.
var Defaults = sync.OnceValue(func() map[string]plugin.OperationTemplate {
	defaults := map[string]plugin.OperationTemplate{}
	files, err := fs.Glob(templates, "templates/*.yaml")
	for _, file := range files {
		var text []byte
		var template plugin.OperationTemplate
		if text, err = templates.ReadFile(file); err == nil {
			template, err = plugin.ParseOperation(string(text))
		}
		if err != nil {
			break
		}
		defaults[template.Name] = template
	}
	if err != nil {
		// The templates are part of this package.
		panic(fmt.Sprintf("cannot read the templates of the engine: %v", err))
	}
	return defaults
})
