// SPDX-License-Identifier: Apache-2.0

package kindlines

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/zeroinfra/hack/generate/internal/repo"
)

// Page that the table is in.
const Page = "docs/kinds/authoring.md"

// Marks around the table.
const (
	begins = "<!-- lines of kinds: written by make generate -->\n"
	ends   = "<!-- end of lines of kinds -->\n"
)

// Write writes the table into the page of the repository at root.
func Write(root string) error {
	path := filepath.Join(root, Page)
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	kinds, shared, err := count(root, operators())
	if err != nil {
		return err
	}
	page, err := replace(string(old), table(kinds, shared))
	if err != nil || page == string(old) {
		return err
	}
	return os.WriteFile(path, []byte(page), 0o644)
}

// operators are the folders of the operators of the suite.
func operators() []string {
	var names []string
	for _, operator := range repo.Operators {
		names = append(names, operator.Name())
	}
	return names
}

// replace puts a text between the marks of a page.
func replace(page, text string) (string, error) {
	before, rest, begun := strings.Cut(page, begins)
	_, after, ended := strings.Cut(rest, ends)
	if !begun || !ended {
		return "", fmt.Errorf("%s lacks the lines %q and %q, between which the table of lines is", Page, begins, ends)
	}
	return before + begins + text + ends + after, nil
}

// table is the table of kinds, and that of what they share.
func table(kinds []Kind, shared []Shared) string {
	var out strings.Builder
	out.WriteString("\n| kind | folder | types | folder's code | together |\n|---|---|---|---|---|\n")
	for _, k := range kinds {
		fmt.Fprintf(&out, "| %s | `%s` | %d | %d | %d |\n", k.Name, k.Folder, k.Types, k.Code, k.Sum())
	}
	out.WriteString("\n| operator | shared by its kinds | lines |\n|---|---|---|\n")
	for _, s := range shared {
		fmt.Fprintf(&out, "| %s | `%s` | %d |\n", s.Operator, strings.Join(s.Names, "`, `"), s.Lines)
	}
	out.WriteString("\n")
	return out.String()
}
