// SPDX-License-Identifier: Apache-2.0

package configfile

import (
	"fmt"
	"strings"
)

// sectionMySQL has the options of the server.
const sectionMySQL = "mysqld"

// writeMySQL writes an option file of MySQL with one section, that of the server. Dots are part of names: variables of
// components have some.
func writeMySQL(settings []setting) ([]byte, error) {
	body := []byte("[" + sectionMySQL + "]\n")
	for _, s := range settings {
		line, err := iniLine(s.key, s)
		if err != nil {
			return nil, err
		}
		body = append(body, line...)
	}
	return body, nil
}

// ReadMySQL returns the options of the server in a file that Encode has written in the format mysql, the last of each
// name. Names have underscores for dashes, as variables have.
func ReadMySQL(text string) (map[string]string, error) {
	options := map[string]string{}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" || strings.HasPrefix(line, "[") {
			continue
		}
		key, value, _ := strings.Cut(line, " = ")
		if quoted, found := strings.CutPrefix(value, `"`); found {
			inner, found := strings.CutSuffix(quoted, `"`)
			if !found {
				return nil, fmt.Errorf("option %q has no end of its quotes", key)
			}
			value = iniUnescapes.Replace(inner)
		}
		options[strings.ReplaceAll(key, "-", "_")] = value
	}
	return options, nil
}

var iniUnescapes = strings.NewReplacer(`\"`, `"`, `\\`, `\`, `\n`, "\n", `\r`, "\r", `\t`, "\t", `\b`, "\b")
