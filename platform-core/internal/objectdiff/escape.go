// SPDX-License-Identifier: Apache-2.0

package objectdiff

import "strings"

// What looks like a marker in a tree, as where the tree is a difference itself, has one more of these in a difference.
const mark = "$"

// escaped is a tree as a difference has it.
func escaped(tree any) any {
	return walked(tree, escapedName)
}

func escapedName(name string) string {
	if strings.HasPrefix(name, mark) {
		return mark + name
	}
	return name
}

// unescaped is the tree that is escaped like this.
func unescaped(tree any) any {
	return walked(tree, func(text string) string { return strings.TrimPrefix(text, mark) })
}

// walked is a tree with other names of fields, and with other texts where they could be taken for a field that is gone.
func walked(tree any, change func(string) string) any {
	switch node := tree.(type) {
	case Object:
		all := Object{}
		for name, value := range node {
			all[change(name)] = walked(value, change)
		}
		return all
	case []any:
		all := make([]any, len(node))
		for i, value := range node {
			all[i] = walked(value, change)
		}
		return all
	case string:
		if strings.HasSuffix(node, removed) && strings.Trim(strings.TrimSuffix(node, removed), mark) == "" {
			return change(node)
		}
	}
	return tree
}
