// SPDX-License-Identifier: Apache-2.0

package configfile

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// writeRedis writes what Redis splits with sdssplitargs: inside double quotes it
// knows \" \\ \n \r \t \a \b and \xHH, and every other byte is itself.
func writeRedis(settings []setting) ([]byte, error) {
	var b bytes.Buffer
	for _, s := range settings {
		b.WriteString(s.key)
		for _, arg := range s.args {
			b.WriteByte(' ')
			writeRedisArg(&b, arg)
		}
		b.WriteByte('\n')
	}
	return b.Bytes(), nil
}

func writeRedisArg(b *bytes.Buffer, arg string) {
	if plain(arg, "_./:,@%+=-") {
		b.WriteString(arg)
		return
	}
	readable := utf8.ValidString(arg)
	b.WriteByte('"')
	for i := range len(arg) {
		switch c := arg[i]; {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\r':
			b.WriteString(`\r`)
		case c == '\t':
			b.WriteString(`\t`)
		case c < ' ' || c == 0x7f || c > 0x7f && !readable:
			fmt.Fprintf(b, `\x%02x`, c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
}

// writeProperties writes what java.util.Properties reads. It is all ASCII, so
// that the reader's character set does not matter.
func writeProperties(settings []setting) ([]byte, error) {
	var b bytes.Buffer
	for _, s := range settings {
		writePropertiesText(&b, s.key, ` :=#!`)
		b.WriteByte('=')
		value := strings.TrimLeft(s.args[0], " ")
		// The reader skips blanks before a value unless they are escaped.
		b.WriteString(strings.Repeat(`\ `, len(s.args[0])-len(value)))
		writePropertiesText(&b, value, "")
		b.WriteByte('\n')
	}
	return b.Bytes(), nil
}

func writePropertiesText(b *bytes.Buffer, text, escaped string) {
	for _, r := range text {
		switch {
		case r == '\\' || strings.ContainsRune(escaped, r):
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case r >= ' ' && r < 0x7f:
			b.WriteRune(r)
		default:
			for _, unit := range utf16.Encode([]rune{r}) {
				fmt.Fprintf(b, `\u%04x`, unit)
			}
		}
	}
}

// writeEnv writes assignments of a POSIX shell. Inside single quotes every
// character is itself; the single quote is written between two quoted parts.
func writeEnv(settings []setting) ([]byte, error) {
	var b bytes.Buffer
	for _, s := range settings {
		value := s.args[0]
		if !plain(value, "_./:,@%+=-") {
			value = "'" + strings.ReplaceAll(value, "'", `'\''`) + "'"
		}
		fmt.Fprintf(&b, "%s=%s\n", s.key, value)
	}
	return b.Bytes(), nil
}

var postgresqlEscapes = strings.NewReplacer(
	`'`, `''`, `\`, `\\`, "\n", `\n`, "\r", `\r`, "\t", `\t`, "\b", `\b`, "\f", `\f`)

// writePostgreSQL writes what PostgreSQL reads from postgresql.conf: the value
// in single quotes, a quote doubled, a line break as \n.
func writePostgreSQL(settings []setting) ([]byte, error) {
	var b bytes.Buffer
	seen := map[string]string{}
	for _, s := range settings {
		// Names are case-insensitive there, and the last one would win in silence.
		lower := strings.ToLower(s.key)
		if before, twice := seen[lower]; twice {
			return nil, fmt.Errorf("keys %q and %q are the same setting", before, s.key)
		}
		seen[lower] = s.key
		fmt.Fprintf(&b, "%s = '%s'\n", s.key, postgresqlEscapes.Replace(s.args[0]))
	}
	return b.Bytes(), nil
}
