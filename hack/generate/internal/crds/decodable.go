// SPDX-License-Identifier: Apache-2.0

package crds

import (
	"math"
	"slices"
)

const (
	metaPackage     = "k8s.io/apimachinery/pkg/apis/meta/v1"
	quantityPackage = "k8s.io/apimachinery/pkg/api/resource"

	// longestText bounds a duration and a quantity. What Go writes has half of it at most; without a bound the API
	// server takes the rules of a definition for too expensive.
	longestText = 64

	// durationRule admits what time.ParseDuration takes: the conversion of CEL is that function. The expression before
	// it tells of a wrong unit with the value; the conversion alone would name its type instead.
	durationRule = `self.matches('^[-+]?(0|(([0-9]+[.]?[0-9]*|[.][0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$')` +
		` && duration(self).getHours() <= 2562047`
	// durationMessage follows the value.
	durationMessage = "must be a duration such as 90s, 15m or 1h30m, at most 2562047h: " +
		"the units are h, m, s, ms, us and ns, and a day is 24h"

	// quantityPattern is the grammar of resource.ParseQuantity. That of controller-gen takes fractions as exponents,
	// which do not decode. An exponent has two digits at most: the arithmetic of quantities takes memory in proportion
	// to a larger one.
	quantityPattern = `^[-+]?([0-9]+([.][0-9]*)?|[.][0-9]+)([numkMGTPE]|[KMGTPE]i|[eE][-+]?[0-9]{1,2})?$`
	quantityRule    = `isQuantity(string(self))`
	quantityMessage = "must be a quantity such as 500m, 2Gi or 1.5G: " +
		"a number and one of the suffixes n, u, m, k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi and Ei, or none"
	// looseQuantityPattern is that of controller-gen.
	looseQuantityPattern = `^(\+|-)?` + looseNumber + `(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?` + looseNumber + `))?$`
	looseNumber          = `(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))`

	// timePattern and the format date-time together admit what time.Parse takes of RFC 3339. The format alone takes
	// lower case, and offsets of 99 hours. Of CEL a field of that format is no text that a rule could look at.
	timePattern      = `^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]+)?` + zonePattern
	microTimePattern = `^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}[.][0-9]{6}` + zonePattern
	zonePattern      = `(Z|[-+]([01][0-9]|2[0-3]):[0-5][0-9])$`

	dateTime = "date-time"
)

// admitDecodable has the schema of a field refuse what its type does not decode, where the schema alone does not tell
// the type.
func admitDecodable(schema map[string]any, path, name string) {
	if len(schema) == 0 {
		return
	}
	switch path + "." + name {
	case metaPackage + ".Duration":
		schema["maxLength"] = longestText
		addRule(schema, durationRule, durationMessage)
	case metaPackage + ".MicroTime":
		schema["pattern"] = microTimePattern
	case quantityPackage + ".Quantity":
		schema["maxLength"] = longestText
		addRule(schema, quantityRule, quantityMessage)
	}
}

// addRule puts a rule before those that the field has, which say what the value must be once it is one.
func addRule(schema map[string]any, rule, message string) {
	others, _ := schema["x-kubernetes-validations"].([]any)
	schema["x-kubernetes-validations"] = append([]any{map[string]any{"rule": rule, "message": message}}, others...)
}

// admitStoredTypes does the same for a schema and all within it where the schema tells the type, whoever declares it:
// quantities, of which those of a map cannot have a rule in CEL for what it would cost, times, and numbers of 32 bits.
// The API server does not check the format of a number.
func admitStoredTypes(schema map[string]any) {
	pattern, _ := schema["pattern"].(string)
	format, _ := schema["format"].(string)
	switch {
	case pattern == looseQuantityPattern:
		schema["pattern"] = quantityPattern
	case format == dateTime && pattern == "":
		schema["pattern"] = timePattern
	case format == "int32", schema["x-kubernetes-int-or-string"] == true && pattern == "":
		bound(schema, "minimum", math.MinInt32)
		bound(schema, "maximum", math.MaxInt32)
	}
	each(schema, admitStoredTypes)
}

// dropMessages takes the rule about quantities out of a status, where it would cost too much in lists without a bound:
// nobody writes one by hand, and the pattern says the same.
func dropMessages(schema map[string]any) {
	rules, _ := schema["x-kubernetes-validations"].([]any)
	rules = slices.DeleteFunc(rules, func(rule any) bool { return rule.(map[string]any)["rule"] == quantityRule })
	if len(rules) == 0 {
		delete(schema, "x-kubernetes-validations")
	} else {
		schema["x-kubernetes-validations"] = rules
	}
	each(schema, dropMessages)
}

// each calls a function with the schema of each field, and of the elements, right below.
func each(schema map[string]any, visit func(map[string]any)) {
	for _, property := range child(schema, "properties") {
		if within, ok := property.(map[string]any); ok {
			visit(within)
		}
	}
	for _, key := range []string{"items", "additionalProperties"} {
		if within := child(schema, key); within != nil {
			visit(within)
		}
	}
}

// bound sets a limit that the field does not have.
func bound(schema map[string]any, key string, limit int) {
	if _, set := schema[key]; !set {
		schema[key] = limit
	}
}
