// SPDX-License-Identifier: Apache-2.0

package configfile

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
)

// maxNginxWord is the longest word in bytes, as it is written, that fits into nginx's buffer wherever it begins.
const maxNginxWord = 4000

var nginxEscapes = strings.NewReplacer(`"`, `\"`, `\`, `\\`, "\n", `\n`, "\r", `\r`, "\t", `\t`)

// nginxValue refuses a dollar sign: in many directives nginx puts a variable in its place, whatever the quotes.
func nginxValue(value string) error {
	if strings.Contains(value, "$") {
		return errors.New("the value has a dollar sign, which nginx takes for the beginning of a variable and knows no " +
			"escape for; write it without")
	}
	return withoutNUL(value)
}

// writeNginx writes simple directives. Inside double quotes nginx knows \" \\ \n \r and \t, and every other byte is
// itself.
func writeNginx(settings []setting) ([]byte, error) {
	var b bytes.Buffer
	for _, s := range settings {
		b.WriteString(s.key)
		for _, arg := range s.args {
			word := arg
			if !plain(word, "_./:,@%+=-") {
				word = `"` + nginxEscapes.Replace(word) + `"`
			}
			if len(word) > maxNginxWord {
				return nil, fmt.Errorf("setting %q makes a word of %d bytes; nginx reads at most %d as one", s.key, len(word),
					maxNginxWord)
			}
			b.WriteString(" " + word)
		}
		b.WriteString(";\n")
	}
	return b.Bytes(), nil
}

// writeText writes each value as lines of its own; one that ends in a line break gets no other.
func writeText(settings []setting) ([]byte, error) {
	var b bytes.Buffer
	for _, s := range settings {
		for _, arg := range s.args {
			b.WriteString(strings.TrimSuffix(arg, "\n") + "\n")
		}
	}
	return b.Bytes(), nil
}
