// SPDX-License-Identifier: Apache-2.0

package configfile_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"

	yaml "go.yaml.in/yaml/v2"

	"github.com/zeroinfra/platform-core/agentproto/configfile"
)

// The decoders here follow the readers of the formats, not the encoders: each is
// written from the description of what the middleware does.

// pair is one setting as a reader sees it.
type pair struct {
	key  string
	args []string
}

// decodeRedis reads as redis-server does: lines are trimmed, comments skipped, the rest is split by sdssplitargs.
func decodeRedis(text string) ([]pair, error) {
	var pairs []pair
	for _, line := range strings.Split(text, "\n") {
		line = strings.Trim(line, " \t\r\n")
		if line == "" || line[0] == '#' {
			continue
		}
		words, err := sdssplitargs(line)
		if err != nil {
			return nil, err
		}
		pairs = append(pairs, pair{words[0], words[1:]})
	}
	return pairs, nil
}

func sdssplitargs(line string) ([]string, error) {
	var words []string
	for i := 0; ; {
		for i < len(line) && isSpace(line[i]) {
			i++
		}
		if i == len(line) {
			return words, nil
		}
		var word []byte
		var quote byte
	scan:
		for {
			if i == len(line) {
				if quote != 0 {
					return nil, errors.New("unterminated quotes")
				}
				break
			}
			c := line[i]
			switch {
			case quote == '"' && c == '\\' && i+3 < len(line) && line[i+1] == 'x' && isHex(line[i+2]) && isHex(line[i+3]):
				n, _ := strconv.ParseUint(line[i+2:i+4], 16, 8)
				word = append(word, byte(n))
				i += 4
			case quote == '"' && c == '\\' && i+1 < len(line):
				escaped := line[i+1]
				if at := strings.IndexByte("nrtba", escaped); at >= 0 {
					escaped = "\n\r\t\b\a"[at]
				}
				word = append(word, escaped)
				i += 2
			case quote == '\'' && strings.HasPrefix(line[i:], `\'`):
				word = append(word, '\'')
				i += 2
			case quote != 0 && c == quote:
				i++
				if i < len(line) && !isSpace(line[i]) {
					return nil, errors.New("closing quote must be followed by a space")
				}
				break scan
			case quote != 0:
				word = append(word, c)
				i++
			case isSpace(c):
				break scan
			case c == '"' || c == '\'':
				quote = c
				i++
			default:
				word = append(word, c)
				i++
			}
		}
		words = append(words, string(word))
	}
}

func isSpace(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }

func isHex(c byte) bool { return strings.IndexByte("0123456789abcdefABCDEF", c) >= 0 }

// decodeProperties reads as java.util.Properties.load does.
func decodeProperties(text string) ([]pair, error) {
	var pairs []pair
	for _, line := range strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' }) {
		line = strings.TrimLeft(line, " \t\f")
		if line == "" || line[0] == '#' || line[0] == '!' {
			continue
		}
		end := 0
		for ; end < len(line) && strings.IndexByte("=: \t\f", line[end]) < 0; end++ {
			if line[end] == '\\' {
				end++
			}
		}
		if end > len(line) {
			return nil, errors.New("a line continues")
		}
		rest := strings.TrimLeft(line[end:], " \t\f")
		if rest != "" && (rest[0] == '=' || rest[0] == ':') {
			rest = strings.TrimLeft(rest[1:], " \t\f")
		}
		key, err := unescapeProperties(line[:end])
		if err != nil {
			return nil, err
		}
		value, err := unescapeProperties(rest)
		if err != nil {
			return nil, err
		}
		pairs = append(pairs, pair{key, []string{value}})
	}
	return pairs, nil
}

func unescapeProperties(text string) (string, error) {
	var units []uint16
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c != '\\' {
			if c >= 0x80 {
				return "", errors.New("not ASCII")
			}
			units = append(units, uint16(c))
			continue
		}
		i++
		if i == len(text) {
			return "", errors.New("a line continues")
		}
		switch text[i] {
		case 'u':
			n, err := strconv.ParseUint(text[i+1:i+5], 16, 16)
			if err != nil {
				return "", err
			}
			units = append(units, uint16(n))
			i += 4
		case 'n':
			units = append(units, '\n')
		case 'r':
			units = append(units, '\r')
		case 't':
			units = append(units, '\t')
		case 'f':
			units = append(units, '\f')
		default:
			units = append(units, uint16(text[i]))
		}
	}
	return string(utf16.Decode(units)), nil
}

// decodeEnv reads assignments as a shell does, and refuses everything that would be more than an assignment.
func decodeEnv(text string) ([]pair, error) {
	var pairs []pair
	for text != "" {
		key, rest, found := strings.Cut(text, "=")
		if !found {
			return nil, fmt.Errorf("no assignment in %q", text)
		}
		var value strings.Builder
		for rest != "" && rest[0] != '\n' {
			switch c := rest[0]; {
			case c == '\'':
				quoted, after, closed := strings.Cut(rest[1:], "'")
				if !closed {
					return nil, errors.New("unterminated quote")
				}
				value.WriteString(quoted)
				rest = after
			case c == '\\':
				value.WriteByte(rest[1])
				rest = rest[2:]
			case strings.IndexByte(" \t;&|<>()$`\"*?[#~!{}", c) >= 0:
				return nil, fmt.Errorf("the shell would act on %q", c)
			default:
				value.WriteByte(c)
				rest = rest[1:]
			}
		}
		pairs = append(pairs, pair{key, []string{value.String()}})
		text = strings.TrimPrefix(rest, "\n")
	}
	return pairs, nil
}

// decodeJSON reads one object of strings or lists of strings, in order.
func decodeJSON(text string) ([]pair, error) {
	decoder := json.NewDecoder(strings.NewReader(text))
	if _, err := decoder.Token(); err != nil {
		return nil, err
	}
	var pairs []pair
	for decoder.More() {
		key, err := decoder.Token()
		if err != nil {
			return nil, err
		}
		var value any
		if err := decoder.Decode(&value); err != nil {
			return nil, err
		}
		pairs = append(pairs, pair{key.(string), texts(value)})
	}
	return pairs, nil
}

// decodeYAML reads nested mappings with a YAML library; keys are joined by dots.
func decodeYAML(text string) ([]pair, error) {
	var root yaml.MapSlice
	if err := yaml.UnmarshalStrict([]byte(text), &root); err != nil {
		return nil, err
	}
	return flatten("", root), nil
}

func flatten(prefix string, mapping yaml.MapSlice) []pair {
	var pairs []pair
	for _, item := range mapping {
		key := prefix + item.Key.(string)
		if below, ok := item.Value.(yaml.MapSlice); ok {
			pairs = append(pairs, flatten(key+".", below)...)
			continue
		}
		pairs = append(pairs, pair{key, texts(item.Value)})
	}
	return pairs
}

// texts panics on anything but strings: another type would be a changed shape.
func texts(value any) []string {
	list, ok := value.([]any)
	if !ok {
		return []string{value.(string)}
	}
	var all []string
	for _, one := range list {
		all = append(all, one.(string))
	}
	return all
}

// decodeINI reads as MySQL reads its option files.
func decodeINI(text string) ([]pair, error) {
	var pairs []pair
	section := ""
	for _, line := range strings.Split(text, "\n") {
		line = strings.TrimLeftFunc(line, func(r rune) bool { return r < 0x80 && isSpace(byte(r)) })
		if line == "" || line[0] == '#' || line[0] == ';' {
			continue
		}
		if line[0] == '!' {
			return nil, errors.New("an include")
		}
		if line[0] == '[' {
			section = strings.TrimSuffix(line[1:], "]") + "."
			continue
		}
		line = line[:endOfINI(line)]
		key, value, found := strings.Cut(line, "=")
		one := pair{key: section + strings.TrimSpace(key)}
		if found {
			one.args = []string{unquoteINI(strings.Trim(value, " \t\n\v\f\r"))}
		}
		pairs = append(pairs, one)
	}
	return pairs, nil
}

// decodeMySQL reads as the server reads its section, and as ReadMySQL does, which must be the same.
func decodeMySQL(text string) ([]pair, error) {
	pairs, err := decodeINI(text)
	if err != nil {
		return nil, err
	}
	options, err := configfile.ReadMySQL(text)
	if err != nil {
		return nil, err
	}
	for i := range pairs {
		key, found := strings.CutPrefix(pairs[i].key, "mysqld.")
		if !found || len(pairs[i].args) != 1 || options[key] != pairs[i].args[0] {
			return nil, fmt.Errorf("%q is read as %q", pairs[i], options)
		}
		pairs[i].key = key
	}
	return pairs, nil
}

// endOfINI finds the comment at the end of a line, which does not begin inside quotes.
func endOfINI(line string) int {
	var quote byte
	escaped := false
	for i := range len(line) {
		c := line[i]
		if (c == '\'' || c == '"') && !escaped {
			if quote == 0 {
				quote = c
			} else if quote == c {
				quote = 0
			}
		}
		if quote == 0 && c == '#' {
			return i
		}
		escaped = quote != 0 && c == '\\' && !escaped
	}
	return len(line)
}

func unquoteINI(value string) string {
	if n := len(value); n >= 2 && (value[0] == '"' || value[0] == '\'') && value[n-1] == value[0] {
		value = value[1 : n-1]
	}
	var out []byte
	for i := 0; i < len(value); i++ {
		if value[i] != '\\' || i == len(value)-1 {
			out = append(out, value[i])
			continue
		}
		i++
		if at := strings.IndexByte(`ntrbs"'\`, value[i]); at >= 0 {
			out = append(out, "\n\t\r\b \"'\\"[at])
		} else {
			out = append(out, '\\', value[i])
		}
	}
	return string(out)
}

// decodePostgreSQL reads as the lexer of postgresql.conf does.
func decodePostgreSQL(text string) ([]pair, error) {
	var pairs []pair
	for text != "" {
		key, rest, found := strings.Cut(text, " = '")
		if !found {
			return nil, fmt.Errorf("no setting in %q", text)
		}
		var value []byte
		closed := false
		for i := 0; i < len(rest); i++ {
			c := rest[i]
			switch {
			case c == '\n':
				return nil, errors.New("line break inside a string")
			case strings.HasPrefix(rest[i:], "''"):
				value = append(value, '\'')
				i++
			case c == '\\':
				i++
				escaped := rest[i]
				if at := strings.IndexByte("bfnrt", escaped); at >= 0 {
					escaped = "\b\f\n\r\t"[at]
				} else if escaped >= '0' && escaped <= '7' {
					return nil, errors.New("octal")
				}
				value = append(value, escaped)
			case c == '\'':
				closed = true
				rest = rest[i+1:]
			default:
				value = append(value, c)
			}
			if closed {
				break
			}
		}
		if !closed || !strings.HasPrefix(rest, "\n") {
			return nil, fmt.Errorf("setting %q does not end its line", key)
		}
		text = rest[1:]
		pairs = append(pairs, pair{key, []string{string(value)}})
	}
	return pairs, nil
}

// decodePgBouncer reads as PgBouncer does: a key, an equals sign, and the rest of the line without the blanks around
// it.
func decodePgBouncer(text string) ([]pair, error) {
	var pairs []pair
	section := ""
	for _, line := range strings.Split(text, "\n") {
		line = strings.TrimLeftFunc(line, func(r rune) bool { return r < 0x80 && isSpace(byte(r)) })
		switch {
		case line == "" || line[0] == '#' || line[0] == ';':
			continue
		case line[0] == '%':
			return nil, errors.New("an include")
		case line[0] == '[':
			section = strings.TrimSuffix(line[1:], "]") + "."
			continue
		}
		key, value, found := strings.Cut(line, "=")
		if !found {
			return nil, errors.New("a line without a value")
		}
		pairs = append(pairs, pair{strings.TrimPrefix(section+strings.TrimSpace(key), "pgbouncer."),
			[]string{strings.Trim(value, " \t\n\v\f\r")}})
	}
	return pairs, nil
}

// decodeUserList reads as PgBouncer does: two texts in double quotes on each line.
func decodeUserList(text string) ([]pair, error) {
	var pairs []pair
	for _, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		name, rest, err := quotedTwice(line)
		if err != nil {
			return nil, err
		}
		password, rest, err := quotedTwice(strings.TrimPrefix(rest, " "))
		if err != nil || rest != "" {
			return nil, fmt.Errorf("line %q: %q, %w", line, rest, err)
		}
		pairs = append(pairs, pair{name, []string{password}})
	}
	return pairs, nil
}

// quotedTwice reads a text in double quotes, in which a quote is there twice.
func quotedTwice(text string) (value, rest string, err error) {
	if !strings.HasPrefix(text, `"`) {
		return "", "", errors.New("no quote")
	}
	for i := 1; i < len(text); i++ {
		if text[i] != '"' {
			value += text[i : i+1]
			continue
		}
		if i+1 == len(text) || text[i+1] != '"' {
			return value, text[i+1:], nil
		}
		value += `"`
		i++
	}
	return "", "", errors.New("unterminated quotes")
}
