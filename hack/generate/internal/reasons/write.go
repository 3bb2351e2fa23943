// SPDX-License-Identifier: Apache-2.0

package reasons

import (
	"bytes"
	_ "embed"
	"os"
	"path/filepath"
	"strings"
	"text/template"
)

// Page that is written.
const Page = "docs/conditions.md"

//go:embed page.md.tmpl
var text string

// A "|" would end a cell.
var page = template.Must(template.New("").Funcs(template.FuncMap{
	"cell": func(s string) string { return strings.ReplaceAll(s, "|", `\|`) },
}).Parse(text))

// Write writes the page of the repository at root.
func Write(root string) error {
	content, err := render(root)
	if err != nil {
		return err
	}
	path := filepath.Join(root, Page)
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, content) {
		return nil
	}
	return os.WriteFile(path, content, 0o644)
}

func render(root string) ([]byte, error) {
	sections, err := read(root)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = page.Execute(&out, sections)
	return out.Bytes(), err
}
