// SPDX-License-Identifier: Apache-2.0

package unit

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"unicode/utf8"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// judge compares values with the schema of a definition, as an API server does that validates strictly: unknown fields,
// types, enums, patterns, lengths and ranges. Rules in CEL are left to the API server.
type judge struct {
	// whole says that required fields have to be there: the value is an object, and no part of one.
	whole bool
	wrong []string
}

func (j *judge) say(path, format string, args ...any) {
	j.wrong = append(j.wrong, path+": "+fmt.Sprintf(format, args...))
}

func (j *judge) value(path string, value any, schema *apiextensionsv1.JSONSchemaProps) {
	if schema.XPreserveUnknownFields != nil && *schema.XPreserveUnknownFields {
		return
	}
	switch v := value.(type) {
	case map[string]any:
		j.object(path, v, schema)
	case []any:
		j.list(path, v, schema)
	case string:
		j.text(path, v, schema)
	case int64:
		j.number(path, float64(v), schema, "integer", "number")
	case float64:
		j.number(path, v, schema, "number")
	case bool:
		if schema.Type != "boolean" {
			j.say(path, "is %v: it must be of type %s", v, schema.Type)
		}
	default:
		j.say(path, "has no value")
	}
}

func (j *judge) object(path string, value map[string]any, schema *apiextensionsv1.JSONSchemaProps) {
	if schema.Type != "object" {
		j.say(path, "is a map: it must be of type %s", schema.Type)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(value)) {
		field, known := schema.Properties[name]
		if !known && schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil {
			field, known = *schema.AdditionalProperties.Schema, true
		}
		if !known {
			j.say(path, "has no field %q", name)
			continue
		}
		j.value(path+"."+name, value[name], &field)
	}
	for _, name := range schema.Required {
		if _, there := value[name]; !there && j.whole {
			j.say(path, "lacks the field %q", name)
		}
	}
}

func (j *judge) list(path string, value []any, schema *apiextensionsv1.JSONSchemaProps) {
	if schema.Type != "array" || schema.Items == nil {
		j.say(path, "is a list: it must be of type %s", schema.Type)
		return
	}
	if schema.MinItems != nil && int64(len(value)) < *schema.MinItems || schema.MaxItems != nil &&
		int64(len(value)) > *schema.MaxItems {
		j.say(path, "has %d elements", len(value))
	}
	for i, element := range value {
		j.value(fmt.Sprintf("%s[%d]", path, i), element, schema.Items.Schema)
	}
}

func (j *judge) text(path, value string, schema *apiextensionsv1.JSONSchemaProps) {
	if schema.Type != "string" && !schema.XIntOrString {
		j.say(path, "is the text %q: it must be of type %s", value, schema.Type)
		return
	}
	if schema.Pattern != "" && !regexp.MustCompile(schema.Pattern).MatchString(value) {
		j.say(path, "is %q: it must match %s", value, schema.Pattern)
	}
	length := int64(utf8.RuneCountInString(value))
	if schema.MinLength != nil && length < *schema.MinLength || schema.MaxLength != nil && length > *schema.MaxLength {
		j.say(path, "has %d characters", length)
	}
	allowed := func(one apiextensionsv1.JSON) bool { return string(one.Raw) == fmt.Sprintf("%q", value) }
	if len(schema.Enum) > 0 && !slices.ContainsFunc(schema.Enum, allowed) {
		j.say(path, "is %q, which is none of the values that there can be", value)
	}
}

func (j *judge) number(path string, value float64, schema *apiextensionsv1.JSONSchemaProps, types ...string) {
	if !slices.Contains(types, schema.Type) && (!schema.XIntOrString || types[0] != "integer") {
		j.say(path, "is %v: it must be of type %s", value, schema.Type)
		return
	}
	if schema.Minimum != nil && value < *schema.Minimum || schema.Maximum != nil && value > *schema.Maximum {
		j.say(path, "is %v, which is out of range", value)
	}
}
