// SPDX-License-Identifier: Apache-2.0

// Package deb822 reads the "Field: value" paragraphs that Debian uses for apt
// sources, package indexes and control files.
package deb822

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// Stanza is one paragraph. Use Get: names of fields have no case.
type Stanza map[string]string

// Get returns the value of a field, or "". Continuation lines keep their
// leading space and are separated by newlines.
func (s Stanza) Get(field string) string { return s[strings.ToLower(field)] }

// Words returns the value of a field split at white space.
func (s Stanza) Words(field string) []string { return strings.Fields(s.Get(field)) }

// Parse reads all paragraphs of r. Lines that start with # are comments.
func Parse(r io.Reader) ([]Stanza, error) {
	var all []Stanza
	var now Stanza
	var last string
	scanner := bufio.NewScanner(r)
	scanner.Buffer(make([]byte, 64<<10), 16<<20)
	for n := 1; scanner.Scan(); n++ {
		line := strings.TrimRight(scanner.Text(), " \t\r")
		switch {
		case line == "":
			now, last = nil, ""
		case line[0] == '#':
		case line[0] == ' ' || line[0] == '\t':
			if last == "" {
				return nil, fmt.Errorf("line %d: continuation line without a field", n)
			}
			now[last] += "\n" + line
		default:
			name, value, found := strings.Cut(line, ":")
			if !found {
				return nil, fmt.Errorf("line %d: expected \"Field: value\", got %q", n, line)
			}
			if now == nil {
				now = Stanza{}
				all = append(all, now)
			}
			last = strings.ToLower(name)
			now[last] = strings.TrimSpace(value)
		}
	}
	return all, scanner.Err()
}
