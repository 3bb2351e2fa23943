// SPDX-License-Identifier: Apache-2.0

package minio

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7/pkg/lifecycle"
)

func TestPoliciesThatSayTheSameAreTheSame(t *testing.T) {
	const document = `{"Statement":[{"Action":["s3:GetObject","s3:ListBucket"],"Effect":"Allow",` +
		`"Principal":{"AWS":["*"]},"Resource":["arn:aws:s3:::a/*"]}],"Version":"2012-10-17"}`
	for _, other := range []string{
		document,
		`{"Version": "2012-10-17", "ID": "", "Statement": [{"Sid": "", "Effect": "Allow", "Principal": "*", "Action": ` +
			`["s3:ListBucket", "s3:GetObject"], "Resource": "arn:aws:s3:::a/*"}]}`,
		`{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": ["s3:GetObject", ` +
			`"s3:ListBucket"], "NotAction": [], "Resource": ["arn:aws:s3:::a/*"]}]}`,
	} {
		if got, err := canonical(other); err != nil || got != document {
			t.Errorf("got %s, %v", got, err)
		}
	}
	if _, err := canonical("everybody"); err == nil {
		t.Error("it is no JSON")
	}
}

func TestAccessIsSaidInOneWord(t *testing.T) {
	for _, word := range []string{accessNone, accessDownload, accessUpload, accessPublic} {
		document, err := bucketPolicy("a", map[string]string{parameterAccess: word})
		if err != nil {
			t.Fatal(err)
		}
		if got, policy := accessOf("a", document); got != word || policy != "" {
			t.Errorf("%s reads back as %s %s", word, got, policy)
		}
		// That of another bucket is no word for this one.
		if got, policy := accessOf("b", document); got != accessNone ||
			word != accessNone && !strings.HasPrefix(policy, "{") {
			t.Errorf("%s of another bucket reads back as %s %s", word, got, policy)
		}
	}
}

func TestPoliciesOfAdministratorsAreRefused(t *testing.T) {
	for document, want := range map[string]string{
		`{"Statement":{"Effect":"Allow","Action":"s3:*"}}`:            "",
		`{"Statement":[{"Effect":"Deny","Action":["s3:PutObject"]}]}`: "",

		`{"Statement":[{"Effect":"Allow","Action":["s3:GetObject","admin:ServerInfo"]}]}`: `the action "admin:ServerInfo"`,

		`{"Statement":[{"Effect":"Allow","action":["admin:*"]}]}`:                   `has "action" in a statement`,
		`{"Statement":[{"Effect":"Allow","Action":["s3:*"],"ACTION":["admin:*"]}]}`: `has "ACTION" in a statement`,
		`{"statement":[{"Effect":"Allow","Action":["admin:*"]}],` +
			`"Statement":[{"Effect":"Allow","Action":["s3:*"]}]}`: `has "statement"`,
		`{"Statement":[{"Effect":"Allow","Action":"*"}]}`:                                    `the action "*"`,
		`{"Statement":[{"Effect":"Allow","NotAction":["s3:PutObject"]}]}`:                    "has NotAction",
		`{"Statement":[{"Effect":"Allow","Action":"s3:*"},{"Effect":"Allow","Action":"a"}]}`: `the action "a"`,
		`{}`: "has no Statement",
		`[]`: "is no policy as JSON",
	} {
		err := s3Only(document)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", document, err, want)
		}
	}
}

func TestRulesReadBackAsTheyWereSaid(t *testing.T) {
	const text = `[{"name":"a","prefix":"<logs>/","expireDays":30},{"name":"b","noncurrentDays":7}]`
	rules, err := rulesOf(text)
	if err != nil {
		t.Fatal(err)
	}
	configuration := configurationOf(rules)
	if got := textOf(configuration); got != text {
		t.Errorf("got %s", got)
	}
	// In whatever order the server has them, and what it has beside is seen.
	configuration.Rules[0], configuration.Rules[1] = configuration.Rules[1], configuration.Rules[0]
	if got := textOf(configuration); got != text {
		t.Errorf("in another order: got %s", got)
	}
	configuration.Rules[0].Status = "Disabled"
	configuration.Rules[1].Transition = lifecycle.Transition{Days: 3, StorageClass: "COLD"}
	if got := textOf(configuration); strings.Count(got, `"foreign":true`) != 2 {
		t.Errorf("with more than there are words for: got %s", got)
	}
	for wrong, want := range map[string]string{
		`{}`:                             "is no list of rules",
		`[{"name":"a","days":1}]`:        "unknown field",
		`[{"name":"a"}]`:                 "must have expireDays or noncurrentDays",
		`[{"name":"a","expireDays":-1}]`: "must have expireDays or noncurrentDays",
		`[{"expireDays":1}]`:             "each needs one of its own",
		`[{"name":"a","expireDays":1,"foreign":true}]`:              "must have",
		`[{"name":"a","expireDays":1},{"name":"a","expireDays":1}]`: "each needs one of its own",
	} {
		if _, err := rulesOf(wrong); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", wrong, err, want)
		}
	}
}

func TestWhatPassesIsNoRefusal(t *testing.T) {
	for err, want := range map[error]string{
		problemf("no"): "no",
		fmt.Errorf("wrapped: %w", adminError{Code: "XMinioAdminNoSuchPolicy",
			Message: "There is none."}): "MinIO refuses it: There is none",
		adminError{Code: "XMinioServerNotInitialized", Message: "Wait."}: "",
		adminError{Code: "XMinioIAMNotInitialized", Message: "Wait."}:    "",
		errors.New("connection refused"):                                 "",
	} {
		if said, refused := refusal("MinIO", err); said != want || refused != (want != "") {
			t.Errorf("%v: got %q, %v", err, said, refused)
		}
	}
}
