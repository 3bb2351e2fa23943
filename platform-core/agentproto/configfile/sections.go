// SPDX-License-Identifier: Apache-2.0

package configfile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// maxINILine is the longest line that MySQL reads in one piece, less its own overhead.
const maxINILine = 4000

var iniEscapes = strings.NewReplacer(
	`"`, `\"`, `\`, `\\`, "\n", `\n`, "\r", `\r`, "\t", `\t`, "\b", `\b`)

// writeINI writes MySQL's option file: settings without a section first, then
// the sections in the order in which they first appear.
func writeINI(settings []setting) ([]byte, error) {
	var order []string
	bodies := map[string]*bytes.Buffer{"": {}}
	for _, s := range settings {
		section, key, found := strings.Cut(s.key, ".")
		if !found {
			section, key = "", s.key
		}
		if bodies[section] == nil {
			order = append(order, section)
			bodies[section] = &bytes.Buffer{}
		}
		line, err := iniLine(key, s)
		if err != nil {
			return nil, err
		}
		bodies[section].WriteString(line)
	}
	b := bodies[""]
	for _, section := range order {
		fmt.Fprintf(b, "[%s]\n%s", section, bodies[section])
	}
	return b.Bytes(), nil
}

// iniLine is the line of a setting.
func iniLine(key string, s setting) (string, error) {
	line := key
	if len(s.args) == 1 {
		value := s.args[0]
		if !plain(value, "_./:,@%+-") {
			value = `"` + iniEscapes.Replace(value) + `"`
		}
		line += " = " + value
	}
	if len(line) > maxINILine {
		return "", fmt.Errorf("setting %q makes a line of %d bytes; at most %d are read as one", s.key, len(line), maxINILine)
	}
	return line + "\n", nil
}

// writeJSON writes one object with the keys in their order.
func writeJSON(settings []setting) ([]byte, error) {
	if len(settings) == 0 {
		return []byte("{}\n"), nil
	}
	var b bytes.Buffer
	for i, s := range settings {
		separator := ",\n"
		if i == 0 {
			separator = "{\n"
		}
		var value any = s.args
		if len(s.args) == 1 {
			value = s.args[0]
		}
		text, err := jsonText(value)
		if err != nil {
			return nil, err
		}
		key, err := jsonText(s.key)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "%s  %s: %s", separator, key, text)
	}
	b.WriteString("\n}\n")
	return b.Bytes(), nil
}

func jsonText(value any) (string, error) {
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return "", err
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}

// node is a mapping in YAML: either a value or children.
type node struct {
	args     []string
	order    []string
	children map[string]*node
}

// writeYAML writes nested mappings; "a.b.c" is c below b below a.
func writeYAML(settings []setting) ([]byte, error) {
	root := &node{children: map[string]*node{}}
	for _, s := range settings {
		if err := root.insert(strings.Split(s.key, "."), s); err != nil {
			return nil, err
		}
	}
	if len(settings) == 0 {
		return []byte("{}\n"), nil
	}
	var b bytes.Buffer
	root.write(&b, "")
	return b.Bytes(), nil
}

func (n *node) insert(path []string, s setting) error {
	for i, name := range path {
		if n.args != nil {
			return fmt.Errorf("setting %q lies below %q, which has a value", s.key, strings.Join(path[:i], "."))
		}
		child := n.children[name]
		if child == nil {
			child = &node{children: map[string]*node{}}
			n.children[name] = child
			n.order = append(n.order, name)
		}
		n = child
	}
	if len(n.order) > 0 {
		return fmt.Errorf("setting %q has a value and settings below it", s.key)
	}
	n.args = s.args
	return nil
}

func (n *node) write(b *bytes.Buffer, indent string) {
	for _, name := range n.order {
		child := n.children[name]
		b.WriteString(indent + yamlKey(name) + ":")
		switch {
		case child.args == nil:
			b.WriteByte('\n')
			child.write(b, indent+"  ")
		case len(child.args) == 1:
			b.WriteString(" " + yamlText(child.args[0]) + "\n")
		default:
			b.WriteByte('\n')
			for _, arg := range child.args {
				b.WriteString(indent + "  - " + yamlText(arg) + "\n")
			}
		}
	}
}

var (
	yamlPlainKey = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_/-]*$`)
	// yamlWords are read as something else than a string by one YAML version or another.
	yamlWords = regexp.MustCompile(`(?i)^(y|n|yes|no|on|off|true|false|null)$`)
)

func yamlKey(key string) string {
	if yamlPlainKey.MatchString(key) && !yamlWords.MatchString(key) {
		return key
	}
	return yamlText(key)
}

// yamlText is the double-quoted style, in which everything that is not
// printable is escaped.
func yamlText(text string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range text {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case r >= ' ' && r < 0x7f, r >= 0xa0 && r < 0xd800 && r != 0x2028 && r != 0x2029, r >= 0xe000 && r < 0xfffe &&
			r != 0xfeff:
			b.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
