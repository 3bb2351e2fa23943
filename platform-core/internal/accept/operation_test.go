// SPDX-License-Identifier: Apache-2.0

package accept

import (
	"strings"
	"testing"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// An Operation that brings its template along is refused for what it says, with the place. Of a template of a plugin
// nothing is said.
func TestOperationIsJudgedByItsOwnTemplate(t *testing.T) {
	const ask = "name: A\nsteps:\n  - {name: a, approval: {message: go on}}\n"
	const write = "name: A\nsteps:\n  - {name: a, delete: {apiVersion: v1, kind: ConfigMap, name: a}}\n"
	const takes = "name: A\nparameters: {day: {schema: '=~\"^[0-9]+$\"'}}\n" +
		"steps:\n  - {name: a, approval: {message: '${parameters.day}'}}\n"
	day := func(value platformv1.ParameterValue) platformv1.Parameters {
		return platformv1.Parameters{"day": value}
	}
	for title, c := range map[string]struct {
		spec platformv1.OperationSpec
		want string
	}{
		"good":        {platformv1.OperationSpec{Template: ask}, ""},
		"of a plugin": {platformv1.OperationSpec{TemplateRef: "Nothing"}, ""},
		"a cycle": {platformv1.OperationSpec{Template: "name: A\nsteps:\n" +
			"  - {name: a, needs: [b], approval: {message: x}}\n" +
			"  - {name: b, needs: [a], http: {url: 'http://x'}}\n"},
			"template is not valid: line 3: steps[0].needs waits for itself"},
		"an output of another type": {platformv1.OperationSpec{Template: "name: A\nsteps:\n" +
			"  - {name: a, http: {url: 'http://x', outputs: {n: response.status}}}\n" +
			"  - {name: b, when: 'steps.a.outputs.n == \"200\"', http: {url: 'http://x'}}\n"},
			"line 4: steps[1].when is not a valid expression"},
		"no account": {platformv1.OperationSpec{Template: write},
			`step "a" of the inline template needs rights in the namespace: set serviceAccountName`},
		"an account":                 {platformv1.OperationSpec{Template: write, ServiceAccountName: "worker"}, ""},
		"a parameter":                {platformv1.OperationSpec{Template: takes, Parameters: day("31")}, ""},
		"a parameter out of range":   {platformv1.OperationSpec{Template: takes, Parameters: day("x")}, `parameter "day"`},
		"no parameter":               {platformv1.OperationSpec{Template: takes}, `"day"`},
		"a parameter of another one": {platformv1.OperationSpec{Template: ask, Parameters: day("31")}, `"day"`},
	} {
		t.Run(title, func(t *testing.T) {
			verdict := JudgeOperation(&platformv1.Operation{Spec: c.spec})
			var said []string
			for _, refusal := range verdict.Refused {
				said = append(said, refusal.Message)
			}
			if got := strings.Join(said, "; "); !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
				t.Errorf("refused for %q, want %q", got, c.want)
			}
			if len(verdict.Warnings) > 0 {
				t.Errorf("warned of %q", verdict.Warnings)
			}
		})
	}
}
