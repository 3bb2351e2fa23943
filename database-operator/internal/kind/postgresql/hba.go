// SPDX-License-Identifier: Apache-2.0

package postgresql

import (
	"cmp"
	"fmt"
	"strings"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
)

// every is how the plugin writes that a rule is for all.
const every = "all"

// hbaParameters are the rules in the plugin's words: a parameter for each, whose names are in the order of the rules.
func hbaParameters(rules []databasev1.PostgreSQLHBARule) platformv1.Parameters {
	out := platformv1.Parameters{}
	for i, rule := range rules {
		words := []string{
			string(cmp.Or(rule.Type, databasev1.HBATypeHost)), listed(rule.Databases), listed(rule.Users),
			cmp.Or(rule.Address, every), string(rule.Method),
		}
		out[fmt.Sprintf("hba.%02d", i+1)] = platformv1.ParameterValue(strings.Join(words, " "))
	}
	return out
}

func listed(names []string) string { return cmp.Or(strings.Join(names, ","), every) }
