// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/zeroinfra/platform-core/internal/plugin/lineform"
)

// FileParameters says which parameters a file takes in: All, those of a list, or those that are not in a list.
// The zero value takes none.
type FileParameters struct {
	// Match takes the parameters of these names.
	Match []string `json:"match,omitempty"`
	// Except takes all others.
	Except []string `json:"except,omitempty"`
	// After is the key of the entry that they come after, of several the last; the last of all when empty.
	After string `json:"after,omitempty"`
	// Form is what each value has to be, which is written as a line of its own: for a file of format text, whose lines
	// nobody else escapes. Empty for values that the format of the file escapes.
	Form lineform.Form `json:"form,omitempty"`
}

// allParameters is how a file says that it takes in every parameter.
const allParameters = "All"

// UnmarshalJSON reads "All", {"match": [...]} or {"except": [...]}.
func (f *FileParameters) UnmarshalJSON(data []byte) error {
	var word string
	if json.Unmarshal(data, &word) == nil {
		if word != allParameters {
			return errors.New("it must be All, {match: [names]} or {except: [names]}")
		}
		*f = FileParameters{Match: []string{"*"}}
		return nil
	}
	// A type without this method, or it would be called again.
	type plain FileParameters
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	var read plain
	if err := decoder.Decode(&read); err != nil || (len(read.Match) > 0) == (len(read.Except) > 0) {
		return errors.New("it must be All, {match: [names]} or {except: [names]}")
	}
	*f = FileParameters(read)
	return nil
}

// None says that the file takes in no parameters.
func (f FileParameters) None() bool { return len(f.Match)+len(f.Except) == 0 }

// Takes says whether the file takes in the parameter of this name.
func (f FileParameters) Takes(name string) bool {
	if len(f.Except) > 0 {
		return !MatchesAny(f.Except, name)
	}
	return MatchesAny(f.Match, name)
}

// Matches compares a name with a pattern: the name itself, or its beginning and *.
func Matches(pattern, name string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(name, prefix)
	}
	return pattern == name
}

// MatchesAny says whether a name matches one of the patterns.
func MatchesAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return Matches(p, name) })
}
