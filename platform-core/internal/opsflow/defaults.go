// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"embed"
	"fmt"
	"io/fs"
	"sync"

	"github.com/zeroinfra/platform-core/internal/plugin/optemplate"
)

//go:embed templates/*.yaml
var templates embed.FS

// Defaults are the templates that every plugin has which brings none of that name.
var Defaults = sync.OnceValue(func() map[string]optemplate.Template {
	defaults := map[string]optemplate.Template{}
	files, err := fs.Glob(templates, "templates/*.yaml")
	for _, file := range files {
		var text []byte
		var template optemplate.Template
		if text, err = templates.ReadFile(file); err == nil {
			template, err = optemplate.Parse(string(text))
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
