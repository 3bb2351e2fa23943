// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// setCount is what the field ends with that stands for the number of sets of a component, for example
// components[node].sets.count. A kind whose objects have a field for that number says so; in an Application it is the
// length of a list, see SetsOf.
const setCount = ".sets.count"

// scaled are the fields that another number of pods, or of sets, of a component sets.
func (f Facts) scaled(at, component string, values map[string]string) ([]FieldEdit, error) {
	var fields []FieldEdit
	if text := values["sets"]; text != "" {
		count, err := strconv.ParseInt(text, 10, 32)
		switch {
		case err != nil || count < 1:
			return nil, fmt.Errorf("sets is %q: it must be a whole number of at least 1", text)
		case values["set"] != "" || f.Set != "":
			return nil,
				fmt.Errorf("sets is the number of sets of component %q, and one of them is named: leave out %q, or run the "+
					"Operation on the whole component", component, "set")
		}
		fields = append(fields, FieldEdit{at + setCount, count})
	}
	if values["replicas"] == "" {
		if len(fields) == 0 {
			return nil,
				fmt.Errorf("no number is given: set replicas for another number of pods, or sets for another number of sets")
		}
		return fields, nil
	}
	pods, err := f.scale(at, component, values)
	return append(fields, pods...), err
}

func (f Facts) scale(at, component string, values map[string]string) ([]FieldEdit, error) {
	replicas, err := strconv.ParseInt(values["replicas"], 10, 32)
	if err != nil {
		return nil, fmt.Errorf("replicas is %q: it must be a whole number", values["replicas"])
	}
	if set := values["set"]; set != "" || f.Set != "" {
		if f.Set != "" && set != "" && set != f.Set {
			return nil, fmt.Errorf("%s is set %q, and parameter \"set\" names %q: leave it out", f.Target, f.Set, set)
		}
		if set == "" {
			set = f.Set
		}
		if set != platformv1.DefaultSet {
			return []FieldEdit{{at + ".sets[" + set + "].replicas", replicas}}, nil
		}
	}
	fields := []FieldEdit{{at + ".replicas", replicas}}
	if f.Application == nil {
		return fields, nil
	}
	// A set that has a number of its own does not follow its component.
	for _, c := range f.Application.Spec.Components {
		for _, set := range c.Sets {
			if c.Name == component && set.Replicas != nil {
				fields = append(fields, FieldEdit{at + ".sets[" + set.Name + "].replicas", replicas})
			}
		}
	}
	return fields, nil
}

// SetCountOf returns the component whose number of sets a field stands for; empty for another field.
func SetCountOf(field string) string {
	path, ok := strings.CutSuffix(field, setCount)
	if elements := elementsOf(path); ok && len(elements) == 1 && elements[0].name == "components" {
		return elements[0].key
	}
	return ""
}

// SetsOf are as many sets of a component as are wanted, beside those that the spec of an Application, as it is in JSON,
// declares: more have the next numbers as names, and the last ones go. Sets with names of their own do not come and go
// by their number.
func SetsOf(spec map[string]any, component string, count int64) ([]any, error) {
	var declared []any
	components, _ := spec["components"].([]any)
	for _, c := range components {
		if c, ok := c.(map[string]any); ok && c["name"] == component {
			declared, _ = c["sets"].([]any)
		}
	}
	byName := map[string]any{}
	for _, set := range declared {
		if set, ok := set.(map[string]any); ok {
			byName[fmt.Sprint(set["name"])] = set
		}
	}
	list := make([]any, 0, count)
	for i := range max(count, int64(len(byName))) {
		name := strconv.FormatInt(i, 10)
		set, ok := byName[name]
		delete(byName, name)
		if !ok {
			set = map[string]any{"name": name}
		}
		if i < count {
			list = append(list, set)
		}
	}
	if len(byName) > 0 {
		return nil,
			fmt.Errorf("sets of component %q have names of their own, such as %q, and no number: add or remove one in "+
				"spec.components[%s].sets",
				component, slices.Min(slices.Collect(maps.Keys(byName))), component)
	}
	return list, nil
}

// declaredSets is how many sets of a component an Application declares.
func declaredSets(spec *platformv1.ApplicationSpec, component string) int64 {
	for _, c := range spec.Components {
		if c.Name == component {
			return int64(len(c.Sets))
		}
	}
	return 0
}
