// SPDX-License-Identifier: Apache-2.0

//go:build integration

package v1_test

import (
	"testing"

	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// Once stored, none of these could be decoded, and a client would get no object of that kind at all. What is refused
// says what to write.
func TestValuesThatCannotBeDecodedAreRefused(t *testing.T) {
	namespace := env.Namespace(t)
	schedule := func(timeout string) string {
		return `schedules: [{name: nightly, schedule: "0 2 * * *", timeZone: UTC,
  operation: {templateRef: Restart, timeout: ` + timeout + `}}]`
	}
	const aDuration = "must be a duration such as 90s, 15m or 1h30m"
	for title, c := range map[string]struct{ name, spec, want string }{
		"hours":                        {"a", schedule("36h"), ""},
		"hours and minutes":            {"b", schedule("1.5h30m"), ""},
		"microseconds":                 {"c", schedule(`"10000000µs"`), ""},
		"days":                         {"x", schedule("1d"), aDuration},
		"a duration of ISO 8601":       {"x", schedule("P1D"), aDuration},
		"a number without a unit":      {"x", schedule(`"60"`), aDuration},
		"more hours than there can be": {"x", schedule("9999999999h"), aDuration},
		"a quantity":                   {"d", `maxmemory: 1e9`, ""},
		"a quantity as a number":       {"e", `maxmemory: 1073741824`, ""},
		"a fraction as an exponent":    {"x", `maxmemory: 1e1.5`, "must be a quantity such as 500m, 2Gi or 1.5G"},
		"bytes":                        {"x", `storage: {size: 10GB}`, "must be a quantity such as 500m, 2Gi or 1.5G"},
		"a limit":                      {"x", `resources: {limits: {memory: 1e1.5}}`, "spec.resources.limits.memory"},
		"a number of 33 bits": {"x", `podDisruptionBudget: {maxUnavailable: 4294967296}`,
			"podDisruptionBudget.maxUnavailable"},
	} {
		t.Run(title, func(t *testing.T) {
			err := env.Client.Create(t.Context(), redis(t, namespace, c.name, c.spec), testkit.Strict)
			testkit.Refused(t, err, c.want)
		})
	}
	for title, c := range map[string]struct{ name, until, want string }{
		"in capitals":        {"e", "2027-01-31T00:00:00Z", ""},
		"with an offset":     {"f", "2027-01-31T00:00:00.5+02:00", ""},
		"in lower case":      {"x", "2027-01-31t00:00:00z", "spec.roles[0].validUntil"},
		"without a zone":     {"x", "2027-01-31T00:00:00", "spec.roles[0].validUntil"},
		"29 February":        {"x", "2027-02-29T00:00:00Z", "spec.roles[0].validUntil"},
		"an offset too far":  {"x", "2027-01-31T00:00:00+99:00", "spec.roles[0].validUntil"},
		"a fraction of none": {"x", "2027-01-31T00:00:00x5Z", "spec.roles[0].validUntil"},
	} {
		t.Run("time "+title, func(t *testing.T) {
			pg := postgresql(t, namespace, c.name, `roles: [{name: a, login: false, validUntil: "`+c.until+`"}]`)
			testkit.Refused(t, env.Client.Create(t.Context(), pg, testkit.Strict), c.want)
		})
	}
}
