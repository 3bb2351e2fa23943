// SPDX-License-Identifier: Apache-2.0

package unit

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

const (
	// longest is how long a duration or a quantity may be.
	longest = 64
	// each sample has so many variations.
	each = 2000

	durationLetters = "0123456789.+-hmsnuµμ dwe"
	timeLetters     = "0123456789.,+-:TtZz "
	quantityLetters = "0123456789.+-numkKMGTPEeiB "
)

var (
	// documentedQuantity is the grammar that the documentation of resource.Quantity gives, with exponents of two
	// digits.
	documentedQuantity = regexp.MustCompile(`^[+-]?(\d+|\d+\.\d*|\.\d+)` +
		`(Ki|Mi|Gi|Ti|Pi|Ei|n|u|m|k|M|G|T|P|E|[eE][+-]?\d{1,2})?$`)
	// endless is the exponent of a quantity that takes memory in proportion to it.
	endless = regexp.MustCompile(`[eE][+-]?\d{3,}$`)
	rfc3339 = regexp.MustCompile(`^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?` +
		`(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$`)
)

// admission is what an API server looks at in a text: the length, the pattern and the format, and those rules in CEL
// that say whether it decodes. Other rules say which of the values that decode are good ones.
type admission struct {
	most     *int64
	pattern  *regexp.Regexp
	dateTime bool
	rules    []func(string) bool
}

// durationRule is the rule of durations; its first group is the expression that it has.
var durationRule = regexp.MustCompile(`^self\.matches\('([^']*)'\) && duration\(self\)\.getHours\(\) <= 2562047$`)

// admissionOf reads what a schema says of a text; an error when it says nothing that its type calls for.
func admissionOf(s *apiextensionsv1.JSONSchemaProps) (admission, error) {
	a := admission{most: s.MaxLength, dateTime: s.Format == "date-time"}
	if s.Pattern != "" {
		a.pattern = regexp.MustCompile(s.Pattern)
	}
	for _, rule := range s.XValidations {
		match := durationRule.FindStringSubmatch(rule.Rule)
		switch {
		case match != nil:
			expression := regexp.MustCompile(match[1])
			a.rules = append(a.rules, func(value string) bool {
				// The conversion of CEL is time.ParseDuration.
				_, err := time.ParseDuration(value)
				return expression.MatchString(value) && err == nil
			})
		case rule.Rule == "isQuantity(string(self))":
			a.rules = append(a.rules, func(value string) bool {
				_, err := resource.ParseQuantity(value)
				return err == nil
			})
		default:
			continue
		}
		if rule.Message == "" {
			return a, fmt.Errorf("the rule %q has no message", rule.Rule)
		}
	}
	if a.pattern == nil && len(a.rules) == 0 {
		return a, errors.New("the schema has no rule about what decodes: see hack/generate/internal/crds/decodable.go")
	}
	return a, nil
}

func (a admission) admits(value string) bool {
	switch {
	case a.most != nil && int64(utf8.RuneCountInString(value)) > *a.most,
		a.pattern != nil && !a.pattern.MatchString(value),
		a.dateTime && !isDateTime(value):
		return false
	}
	for _, rule := range a.rules {
		if !rule(value) {
			return false
		}
	}
	return true
}

var clock = regexp.MustCompile(`^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$`)

// isDateTime is the format date-time as the API server knows it (k8s.io/kube-openapi/pkg/validation/strfmt).
func isDateTime(value string) bool {
	date, rest, _ := strings.Cut(strings.ToLower(value), "t")
	if _, err := time.Parse("2006-01-02", date); err != nil {
		return false
	}
	of, _, _ := strings.Cut(rest, "t")
	match := clock.FindStringSubmatch(of)
	return match != nil && match[1] <= "23" && match[2] <= "59" && match[3] <= "59"
}

// variations are texts and what comes of each when up to three of its letters are replaced, removed or added; the same
// ones in every run.
func variations(letters string, texts ...string) []string {
	random := rand.New(rand.NewPCG(1, 2))
	alphabet := []rune(letters)
	all := texts
	for _, text := range texts {
		for range each {
			varied := []rune(text)
			for range 1 + random.IntN(3) {
				at := random.IntN(len(varied) + 1)
				letter := alphabet[random.IntN(len(alphabet))]
				switch change := random.IntN(3); {
				case change == 0 || at == len(varied):
					varied = append(varied[:at], append([]rune{letter}, varied[at:]...)...)
				case change == 1:
					varied[at] = letter
				default:
					varied = append(varied[:at], varied[at+1:]...)
				}
			}
			all = append(all, string(varied))
		}
	}
	return all
}
