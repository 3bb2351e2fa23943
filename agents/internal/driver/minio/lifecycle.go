// SPDX-License-Identifier: Apache-2.0

package minio

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/minio/minio-go/v7/pkg/lifecycle"
)

// rule of a bucket's lifecycle, as it is in parameterLifecycle.
type rule struct {
	// Name of it within the bucket.
	Name string `json:"name"`
	// Prefix of the objects that it is for; all of them when empty.
	Prefix string `json:"prefix,omitempty"`
	// ExpireDays after which an object goes; 0 for never.
	ExpireDays int `json:"expireDays,omitempty"`
	// NoncurrentDays after which a version goes that is no longer the latest; 0 for never.
	NoncurrentDays int `json:"noncurrentDays,omitempty"`
	// Foreign is true of a rule that says more than the above, which somebody made by hand.
	Foreign bool `json:"foreign,omitempty"`
}

// rulesOf reads parameterLifecycle.
func rulesOf(text string) ([]rule, error) {
	if text == "" {
		return nil, nil
	}
	var rules []rule
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&rules); err != nil {
		return nil, problemf("parameter %q is no list of rules: %v", parameterLifecycle, err)
	}
	seen := map[string]bool{}
	for _, r := range rules {
		switch {
		case r.Name == "" || seen[r.Name]:
			return nil, problemf("parameter %q has a rule with the name %q: each needs one of its own", parameterLifecycle,
				r.Name)
		case r.Foreign || r.ExpireDays < 0 || r.NoncurrentDays < 0 || r.ExpireDays+r.NoncurrentDays == 0:
			return nil, problemf("rule %q of parameter %q must have expireDays or noncurrentDays, each at least 1", r.Name,
				parameterLifecycle)
		}
		seen[r.Name] = true
	}
	return rules, nil
}

// configurationOf are rules as S3 has them.
func configurationOf(rules []rule) *lifecycle.Configuration {
	configuration := lifecycle.NewConfiguration()
	for _, r := range rules {
		configuration.Rules = append(configuration.Rules, s3Rule(r))
	}
	return configuration
}

const ruleEnabled = "Enabled"

func s3Rule(r rule) lifecycle.Rule {
	return lifecycle.Rule{
		ID: r.Name, Status: ruleEnabled, RuleFilter: lifecycle.Filter{Prefix: r.Prefix},
		Expiration: lifecycle.Expiration{Days: lifecycle.ExpirationDays(r.ExpireDays)},
		NoncurrentVersionExpiration: lifecycle.NoncurrentVersionExpiration{
			NoncurrentDays: lifecycle.ExpirationDays(r.NoncurrentDays)},
	}
}

// textOf are rules of S3 as parameterLifecycle has them, in the order of their names; empty for none.
func textOf(configuration *lifecycle.Configuration) string {
	var rules []rule
	for _, there := range configuration.Rules {
		r := rule{Name: there.ID, Prefix: there.RuleFilter.Prefix, ExpireDays: int(there.Expiration.Days),
			NoncurrentDays: int(there.NoncurrentVersionExpiration.NoncurrentDays)}
		r.Foreign = !same(there, s3Rule(r))
		rules = append(rules, r)
	}
	if len(rules) == 0 {
		return ""
	}
	slices.SortFunc(rules, func(a, b rule) int { return strings.Compare(a.Name, b.Name) })
	return encoded(rules)
}

// same says whether two rules say the same.
func same[R any](a, b R) bool {
	first, err := json.Marshal(a)
	second, other := json.Marshal(b)
	return err == nil && other == nil && bytes.Equal(first, second)
}

// encoded is a value as JSON, without the escapes that only HTML needs.
func encoded(value any) string {
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	// Texts, numbers, lists and maps of them.
	if err := encoder.Encode(value); err != nil {
		panic(err)
	}
	return strings.TrimSuffix(text.String(), "\n")
}
