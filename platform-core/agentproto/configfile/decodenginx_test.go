// SPDX-License-Identifier: Apache-2.0

package configfile_test

import (
	"errors"
	"fmt"
	"strings"
)

// decodeNginx reads as nginx reads its configuration, simple directives only: whatever would be a block, a comment
// between directives, or a variable is an error here.
func decodeNginx(text string) ([]pair, error) {
	var pairs []pair
	var words []string
	for i := 0; ; {
		for i < len(text) && isNginxBlank(text[i]) {
			i++
		}
		if i == len(text) {
			if len(words) > 0 {
				return nil, errors.New("unexpected end of file")
			}
			return pairs, nil
		}
		switch c := text[i]; c {
		case ';':
			if len(words) == 0 {
				return nil, errors.New("unexpected ;")
			}
			pairs = append(pairs, pair{words[0], words[1:]})
			words = nil
			i++
		case '{', '}', '#':
			return nil, fmt.Errorf("unexpected %q", c)
		case '"', '\'':
			end, err := endOfNginxQuotes(text, i)
			if err != nil {
				return nil, err
			}
			word, err := unescapeNginx(text[i+1 : end])
			if err != nil {
				return nil, err
			}
			words = append(words, word)
			i = end + 1
			if i < len(text) && !isNginxBlank(text[i]) && strings.IndexByte(";{)", text[i]) < 0 {
				return nil, fmt.Errorf("unexpected %q after quotes", text[i])
			}
		default:
			end := i
			for end < len(text) && !isNginxBlank(text[end]) && text[end] != ';' && text[end] != '{' {
				if text[end] == '\\' {
					end++
				}
				end++
			}
			word, err := unescapeNginx(text[i:min(end, len(text))])
			if err != nil {
				return nil, err
			}
			words = append(words, word)
			i = end
		}
	}
}

func isNginxBlank(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

func endOfNginxQuotes(text string, begin int) (int, error) {
	for i := begin + 1; i < len(text); i++ {
		if text[i] == '\\' {
			i++
		} else if text[i] == text[begin] {
			return i, nil
		}
	}
	return 0, errors.New("unterminated quotes")
}

func unescapeNginx(text string) (string, error) {
	var word []byte
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c == '$' || c == 0 {
			return "", fmt.Errorf("nginx would act on %q", c)
		}
		if c == '\\' && i+1 < len(text) {
			if at := strings.IndexByte(`"'\trn`, text[i+1]); at >= 0 {
				c = "\"'\\\t\r\n"[at]
				i++
			}
		}
		word = append(word, c)
	}
	return string(word), nil
}
