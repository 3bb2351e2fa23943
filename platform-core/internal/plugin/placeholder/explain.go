// SPDX-License-Identifier: Apache-2.0

package placeholder

import (
	"strings"

	"github.com/google/cel-go/cel"
)

// hints by what CEL says of a mistake that its words do not lead to.
var hints = []struct{ said, hint string }{
	{"undeclared reference to 'parameters'", `: ${parameters.NAME} stands for a parameter of an action, as a whole word ` +
		`of its command or a whole value of its env, ` +
		"and NAME has a small letter, then letters and digits; a parameter of the set is ${params['name']}"},
	{"token recognition error at: '= '", ": to compare, write =="},
	{"token recognition error at: '& '", ": for both, write &&"},
	{"token recognition error at: '| '", ": for either, write ||"},
	{"applied to '(int, string)'", ": a number is compared with a number, without quotes"},
	{"applied to '(string, int)'", ": a text is compared with a text, in quotes; int(text) makes a number of it"},
}

// Explain says in one sentence why an expression does not compile: the first thing that CEL finds, and how to mend it
// where its words do not tell.
func Explain(issues *cel.Issues) string {
	said := strings.TrimSuffix(strings.TrimSpace(issues.Errors()[0].Message), " (in container '')")
	for _, h := range hints {
		if strings.Contains(said, h.said) {
			return said + h.hint
		}
	}
	return said
}
