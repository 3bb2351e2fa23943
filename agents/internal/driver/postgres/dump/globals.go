// SPDX-License-Identifier: Apache-2.0

package dump

import (
	"crypto/sha256"
	"errors"
	"regexp"
	"strings"
)

// statementsOf cuts what pg_dumpall writes into statements, without the semicolons. Comments and commands of psql are
// left out.
func statementsOf(text string) ([]string, error) {
	var statements []string
	begin := -1
	for i := 0; i < len(text); {
		rest := text[i:]
		switch c := text[i]; {
		case begin < 0 && (c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == ';'):
			i++
		case strings.HasPrefix(rest, "--"), begin < 0 && c == '\\':
			line, _, _ := strings.Cut(rest, "\n")
			i += len(line)
		case c == ';':
			statements = append(statements, text[begin:i])
			begin = -1
			i++
		default:
			if begin < 0 {
				begin = i
			}
			n := tokenOf(text, i)
			if n == 0 {
				return nil, errors.New("a quotation in the globals has no end")
			}
			i += n
		}
	}
	if begin >= 0 {
		return nil, errors.New("the last statement of the globals has no end")
	}
	return statements, nil
}

// tokenOf is how long a quotation is that begins there, or 1 for anything else; 0 where it has no end.
func tokenOf(text string, at int) int {
	quote := text[at]
	if quote != '\'' && quote != '"' {
		return 1
	}
	escapes := quote == '\'' && at > 0 && (text[at-1] == 'E' || text[at-1] == 'e')
	for i := at + 1; i < len(text); i++ {
		switch {
		case escapes && text[i] == '\\':
			i++
		case text[i] == quote && i+1 < len(text) && text[i+1] == quote:
			i++
		case text[i] == quote:
			return i + 1 - at
		}
	}
	return 0
}

var ofPsql = regexp.MustCompile(`(?m)^\\(?:un)?restrict .*$`)

// sumOf stands for what pg_dumpall has written. Each time that has a word of its own, which psql is kept in with.
func sumOf(text []byte) (sum [sha256.Size]byte) {
	all, last := sha256.New(), 0
	for _, at := range append(ofPsql.FindAllIndex(text, -1), []int{len(text), len(text)}) {
		all.Write(text[last:at[0]])
		last = at[1]
	}
	all.Sum(sum[:0])
	return sum
}

// grantorForm is the end of what gives a role to a role: by whom that was given.
var grantorForm = regexp.MustCompile(`(?s)^(GRANT .+) GRANTED BY (?:"(?:[^"]|"")+"|[a-z_0-9$]+)$`)

// grantorsSince is the major version from which on it matters who gave a role to a role.
const grantorsSince = 16

// fitting is a statement of a server of one major version as one of another takes it. Before version 16 whoever gave a
// role needed no right to by now, and nothing followed from who it was.
func fitting(statement string, from, to int) string {
	if from < grantorsSince && to >= grantorsSince {
		return grantorForm.ReplaceAllString(statement, "$1")
	}
	return statement
}

// makesRole says whether a statement makes a role. It may be there: the superuser always is, and others were in the
// globals before. What it is like follows in statements of its own.
func makesRole(statement string) bool { return strings.HasPrefix(statement, "CREATE ROLE ") }
