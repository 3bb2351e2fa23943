// SPDX-License-Identifier: Apache-2.0

package edits

import (
	"fmt"
	"slices"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// keyOf is the name of an element of a list of objects.
func keyOf(element fieldpath.PathElement) string {
	for _, field := range *element.Key {
		if field.Name == "name" || len(*element.Key) == 1 {
			return fmt.Sprint(field.Value.Unstructured())
		}
	}
	return element.String()
}

// at returns what content has at a path; nil for nothing.
func at(content any, path fieldpath.Path) any {
	for _, element := range path {
		switch {
		case element.FieldName != nil:
			object, _ := content.(map[string]any)
			content = object[*element.FieldName]
		case element.Key != nil:
			list, _ := content.([]any)
			content = elementWith(list, *element.Key)
		case element.Value != nil:
			list, _ := content.([]any)
			content = memberOf(list, (*element.Value).Unstructured())
		default:
			return nil
		}
	}
	return content
}

// elementWith is the element of a list that has the fields of a key; nil for none.
func elementWith(list []any, key value.FieldList) any {
	i := slices.IndexFunc(list, func(one any) bool {
		object, ok := one.(map[string]any)
		return ok && !slices.ContainsFunc(key,
			func(f value.Field) bool { return fmt.Sprint(object[f.Name]) != fmt.Sprint(f.Value.Unstructured()) })
	})
	if i < 0 {
		return nil
	}
	return list[i]
}

// memberOf is the value itself where a list has it; nil where not.
func memberOf(list []any, member any) any {
	if slices.ContainsFunc(list, func(one any) bool { return fmt.Sprint(one) == fmt.Sprint(member) }) {
		return member
	}
	return nil
}

// named says whether all elements of a list are objects with a name.
func named(list []any) bool {
	return len(list) > 0 && !slices.ContainsFunc(list, func(one any) bool { return nameOf(one) == "" })
}

func nameOf(element any) string {
	object, _ := element.(map[string]any)
	name, _ := object["name"].(string)
	return name
}

// elementNamed is the element of a list with a name; nil for none.
func elementNamed(list []any, name string) any {
	i := slices.IndexFunc(list, func(one any) bool { return nameOf(one) == name })
	if i < 0 {
		return nil
	}
	return list[i]
}
