// SPDX-License-Identifier: Apache-2.0

package placeholder

import (
	"errors"
	"strings"
)

const (
	opening = "${"
	escaped = "$${"
)

// piece is a stretch of literal text, or the source of one expression.
type piece struct {
	text       string
	expression bool
}

// In says whether a text holds a placeholder or an escaped one.
func In(text string) bool { return strings.Contains(text, opening) }

// Refuse returns an error if a text that is taken as it is holds a placeholder.
func Refuse(text string) error {
	if In(text) {
		return errors.New("a placeholder is not allowed here")
	}
	return nil
}

// Escape returns a text that, compiled, gives the text itself.
func Escape(text string) string { return strings.ReplaceAll(text, opening, escaped) }

// Check says whether the placeholders of a text can be told from what is around them; not whether they are valid
// expressions.
func Check(text string) error {
	_, err := scan(text)
	return err
}

// Only returns the expression of a text that is just one placeholder.
func Only(text string) (expression string, ok bool) {
	pieces, err := scan(text)
	if err != nil || len(pieces) != 1 || !pieces[0].expression {
		return "", false
	}
	return pieces[0].text, true
}

// Substitute returns a text with those placeholders replaced whose expression replace knows. All else stays as it is
// written; so does a text that Check refuses, from there on.
func Substitute(text string, replace func(expression string) (with string, known bool)) string {
	var out strings.Builder
	for {
		at := strings.Index(text, opening)
		if at < 0 {
			break
		}
		begin := at + len(opening)
		if at > 0 && text[at-1] == '$' {
			out.WriteString(text[:begin])
			text = text[begin:]
			continue
		}
		length, err := expressionEnd(text[begin:])
		if err != nil {
			break
		}
		end := begin + length
		with, known := replace(strings.TrimSpace(text[begin:end]))
		if !known {
			with = text[at : end+1]
		}
		out.WriteString(text[:at] + with)
		text = text[end+1:]
	}
	return out.String() + text
}

// scan splits a text into literal and expression pieces.
func scan(text string) ([]piece, error) {
	var pieces []piece
	var literal strings.Builder
	flush := func() {
		if literal.Len() > 0 {
			pieces = append(pieces, piece{text: literal.String()})
			literal.Reset()
		}
	}
	for text != "" {
		at := strings.Index(text, opening)
		if at < 0 {
			literal.WriteString(text)
			break
		}
		if at > 0 && text[at-1] == '$' {
			literal.WriteString(text[:at-1] + opening)
			text = text[at+len(opening):]
			continue
		}
		literal.WriteString(text[:at])
		text = text[at+len(opening):]
		end, err := expressionEnd(text)
		if err != nil {
			return nil, err
		}
		source := strings.TrimSpace(text[:end])
		if source == "" {
			return nil, errors.New(`the placeholder "${}" is empty: write an expression, or "$${" for a literal "${"`)
		}
		flush()
		pieces = append(pieces, piece{text: source, expression: true})
		text = text[end+1:]
	}
	flush()
	return pieces, nil
}

// expressionEnd returns the index of the brace that closes an expression. Braces
// within the expression nest, and those within its quoted text do not count.
func expressionEnd(text string) (int, error) {
	depth := 0
	for i := 0; i < len(text); {
		switch c := text[i]; c {
		case '{':
			depth++
		case '}':
			if depth == 0 {
				return i, nil
			}
			depth--
		case '\'', '"':
			raw := i > 0 && (text[i-1] == 'r' || text[i-1] == 'R')
			length := quotedLength(text[i:], raw)
			if length == 0 {
				return 0, errors.New(`a placeholder holds text whose quote is not closed`)
			}
			i += length
			continue
		}
		i++
	}
	return 0, errors.New(`a placeholder is not closed: "}" is missing; write "$${" for a literal "${"`)
}

// quotedLength returns the length of the quoted text that a string begins with, or 0 when it does not end.
func quotedLength(text string, raw bool) int {
	quote := text[:1]
	if triple := strings.Repeat(quote, 3); strings.HasPrefix(text, triple) {
		quote = triple
	}
	for i := len(quote); i < len(text); {
		switch {
		case text[i] == '\\' && !raw:
			i += 2
		case strings.HasPrefix(text[i:], quote):
			return i + len(quote)
		default:
			i++
		}
	}
	return 0
}
