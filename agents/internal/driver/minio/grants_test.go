// SPDX-License-Identifier: Apache-2.0

package minio

import (
	"strings"
	"testing"

	"github.com/zeroinfra/agents/internal/driver"
)

func TestGrantsReadBackAsTheyWereSaid(t *testing.T) {
	const text = `[{"bucket":"custom","access":"Write"},{"bucket":"full","access":"Read","prefix":"<reports>/"},` +
		`{"bucket":"inbox","access":"Write","prefix":"mine/"},{"bucket":"plain","access":"ReadWrite"}]`
	grants, err := grantsOf(text)
	if err != nil {
		t.Fatal(err)
	}
	document := policyOfGrants(grants)
	if got := grantsIn(document); got != text {
		t.Errorf("got %s", got)
	}
	// In whatever order they were said.
	grants[0], grants[3] = grants[3], grants[0]
	if got := grantsIn(policyOfGrants(grants)); got != text {
		t.Errorf("in another order: got %s", got)
	}
	if err := s3Only(document); err != nil {
		t.Error(err)
	}
}

func TestPoliciesThatAreNoGrantsAreForeign(t *testing.T) {
	document := policyOfGrants([]grant{{Bucket: "abc", Access: grantRead, Prefix: "a/"}})
	for name, changed := range map[string]string{
		"another action": strings.Replace(document, "s3:GetObjectVersion", "s3:PutObject", 1),
		"another prefix": strings.Replace(document, `"a/*"`, `"*"`, 1),
		"a denial":       strings.Replace(document, "Allow", "Deny", 1),
		"more": strings.Replace(document, `"Statement":[`,
			`"Statement":[{"Action":["s3:GetObject"],"Effect":"Allow","Resource":["arn:aws:s3:::other/*"]},`, 1),
		"nothing": `{"Version":"2012-10-17","Statement":[]}`,
		"no JSON": "{",
	} {
		if got := grantsIn(changed); changed == document || got != foreignGrants {
			t.Errorf("%s: got %s of %s", name, got, changed)
		}
	}
}

func TestGrantsThatCannotBe(t *testing.T) {
	for text, want := range map[string]string{
		`{}`: "is no list of grants",
		`[{"bucket":"abc","access":"Read","path":"a"}]`:                        "unknown field",
		`[{"bucket":"*","access":"Read"}]`:                                     `a grant for the bucket "*"`,
		`[{"access":"Read"}]`:                                                  `a grant for the bucket ""`,
		`[{"bucket":"abc","access":"Read"},{"bucket":"abc","access":"Write"}]`: "the name of another bucket",
		`[{"bucket":"abc","access":"Admin"}]`:                                  "must be one of Read, Write, ReadWrite",
		`[{"bucket":"abc","access":"Read","prefix":"a*"}]`:                     `is "a*": it must be the beginning of names`,
		`[{"bucket":"abc","access":"Read","prefix":"${aws:username}/"}]`:       "it must be the beginning of names",
	} {
		p := map[string]string{parameterGrants: text}
		err := users{}.check(&session{}, driver.Change{Query: driver.Query{Name: "app"}, Parameters: p})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
	own := driver.Change{Query: driver.Query{Name: "app"}, Parameters: map[string]string{parameterPolicies: "app.grants"}}
	if err := (users{}).check(&session{}, own); err == nil || !strings.Contains(err.Error(), "the user's own grants") {
		t.Errorf("its own grants among the policies: %v", err)
	}
	taken := driver.Change{Query: driver.Query{Name: "app.grants"},
		Parameters: map[string]string{parameterDocument: `{"Statement":[{"Action":"s3:*"}]}`}}
	if err := (policies{}).check(nil, taken); err == nil || !strings.Contains(err.Error(), "take another name") {
		t.Errorf("a policy called like grants: %v", err)
	}
	if taken.Intent = driver.Delete; (policies{}).check(nil, taken) != nil {
		t.Error("one that is there cannot be removed")
	}
}
