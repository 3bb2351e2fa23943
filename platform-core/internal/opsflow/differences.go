// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
)

// longestValue is how much of a value is shown.
const longestValue = 80

// Difference is one field that two specs have otherwise.
type Difference struct {
	// Field below spec, for example components[redis].replicas. Elements of lists go by their names, where all of them
	// have one, else by their place.
	Field string
	// Before and After are its values as of JSON; nil for none.
	Before, After any
}

// String says it in words, for example "components[redis].replicas: 3 → 5".
func (d Difference) String() string {
	return fmt.Sprintf("%s: %s → %s", d.Field, display(d.Before), display(d.After))
}

// Differences says in words what is different between two specs, one field each in the order of their names.
func Differences(before, after map[string]any) []string {
	var words []string
	for _, difference := range Compare(before, after) {
		words = append(words, difference.String())
	}
	return words
}

// Compare returns what is different between two specs, in the order of the names of fields.
func Compare(before, after map[string]any) []Difference {
	var found []Difference
	differ("", before, after, &found)
	return found
}

// Fields say how an object that declares an Application says what that does.
type Fields interface {
	// WriteThrough says which field of the object each field of the Application comes from; nil for none.
	WriteThrough() map[string]string
	// Convert returns the value that a field of the object has for one of the Application's.
	Convert(field string, value any) (any, error)
}

// DeclaredAs is a difference of an Application in the words of the object that declares it; false where that has no
// field for it.
func (d Difference) DeclaredAs(fields Fields) (Difference, bool) {
	name, ok := WriteThrough(d.Field, fields.WriteThrough())
	if !ok {
		return d, false
	}
	is := Difference{Field: name}
	for value, into := range map[*any]*any{&d.Before: &is.Before, &d.After: &is.After} {
		if *value == nil {
			continue
		}
		whole := *value
		if n, is := whole.(float64); is && n == float64(int64(n)) {
			whole = int64(n)
		}
		converted, err := fields.Convert(d.Field, whole)
		if err != nil {
			return d, false
		}
		*into = converted
	}
	return is, true
}

func differ(path string, before, after any, found *[]Difference) {
	if equal(before, after) {
		return
	}
	a, isMap := before.(map[string]any)
	b, isMapToo := after.(map[string]any)
	if (isMap || before == nil) && (isMapToo || after == nil) && len(a)+len(b) > 0 {
		for _, name := range slices.Sorted(maps.Keys(union(a, b))) {
			differ(below(path, name), a[name], b[name], found)
		}
		return
	}
	x, isList := before.([]any)
	y, isListToo := after.([]any)
	if (isList || before == nil) && (isListToo || after == nil) && len(x)+len(y) > 0 {
		was, is := elements(x, y), elements(y, x)
		for _, key := range slices.Compact(slices.Sorted(slices.Values(append(keys(was), keys(is)...)))) {
			differ(path+"["+key+"]", find(was, key), find(is, key), found)
		}
		return
	}
	*found = append(*found, Difference{path, before, after})
}

func below(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func union(a, b map[string]any) map[string]any {
	all := maps.Clone(a)
	if all == nil {
		all = map[string]any{}
	}
	maps.Copy(all, b)
	return all
}

// listed is one element of a list under its name or place.
type listed struct {
	key   string
	value any
}

// elements are those of a list by what tells them apart, in it and in the other list.
func elements(list, other []any) []listed {
	named := !slices.ContainsFunc(slices.Concat(list, other), func(one any) bool {
		object, ok := one.(map[string]any)
		name, isText := object["name"].(string)
		return !ok || !isText || name == ""
	})
	all := make([]listed, 0, len(list))
	for i, one := range list {
		key := strconv.Itoa(i)
		if named {
			key = one.(map[string]any)["name"].(string)
		}
		all = append(all, listed{key, one})
	}
	return all
}

func keys(list []listed) []string {
	all := make([]string, 0, len(list))
	for _, one := range list {
		all = append(all, one.key)
	}
	return all
}

func find(list []listed, key string) any {
	for _, one := range list {
		if one.key == key {
			return one.value
		}
	}
	return nil
}

// equal compares values of JSON: a whole number is an int64 or a float64.
func equal(a, b any) bool {
	if reflect.DeepEqual(a, b) {
		return true
	}
	x, isNumber := number(a)
	y, isNumberToo := number(b)
	return isNumber && isNumberToo && x == y
}

func number(value any) (float64, bool) {
	switch n := value.(type) {
	case int64:
		return float64(n), true
	case float64:
		return n, true
	}
	return 0, false
}

// display is a value on one line.
func display(value any) string {
	switch v := value.(type) {
	case nil:
		return "none"
	case string:
		value = v
	default:
		data, err := json.Marshal(value)
		if err != nil {
			return fmt.Sprint(value)
		}
		value = string(data)
	}
	text := []rune(value.(string))
	if len(text) > longestValue {
		return string(text[:longestValue]) + "…"
	}
	return string(text)
}
