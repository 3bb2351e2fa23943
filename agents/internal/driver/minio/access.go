// SPDX-License-Identifier: Apache-2.0

package minio

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
)

// What anybody may do in a bucket without logging in, in one word.
const (
	// accessNone: nothing.
	accessNone = "none"
	// accessDownload: list and read objects.
	accessDownload = "download"
	// accessUpload: put objects there.
	accessUpload = "upload"
	// accessPublic: both, and remove objects.
	accessPublic = "public"
)

const (
	policyVersion = "2012-10-17"
	resource      = "arn:aws:s3:::"
	allow         = "Allow"
)

var (
	bucketActions = map[string][]string{
		accessDownload: {"s3:GetBucketLocation", "s3:ListBucket"},
		accessUpload:   {"s3:GetBucketLocation", "s3:ListBucketMultipartUploads"},
		accessPublic:   {"s3:GetBucketLocation", "s3:ListBucket", "s3:ListBucketMultipartUploads"},
	}
	objectActions = map[string][]string{
		accessDownload: {"s3:GetObject"},
		accessUpload:   {"s3:AbortMultipartUpload", "s3:ListMultipartUploadParts", "s3:PutObject"},
		accessPublic: {"s3:AbortMultipartUpload", "s3:DeleteObject", "s3:GetObject", "s3:ListMultipartUploadParts",
			"s3:PutObject"},
	}
)

// bucketPolicy is the policy of a bucket that its parameters ask for; empty for none.
func bucketPolicy(bucket string, p map[string]string) (string, error) {
	access := cmp.Or(p[parameterAccess], accessNone)
	if err := oneOf(parameterAccess, access, accessNone, accessDownload, accessUpload, accessPublic); err != nil {
		return "", err
	}
	switch {
	case p[parameterPolicy] == "" && access == accessNone:
		return "", nil
	case p[parameterPolicy] == "":
		anybody := func(actions []string, of string) map[string]any {
			return map[string]any{"Effect": allow, "Principal": map[string]any{"AWS": []string{"*"}}, "Action": actions,
				"Resource": []string{resource + of}}
		}
		return encoded(map[string]any{"Version": policyVersion, "Statement": []any{
			anybody(bucketActions[access], bucket), anybody(objectActions[access], bucket+"/*"),
		}}), nil
	case access != accessNone:
		return "", problemf("parameters %q and %q both say what anybody may do: set one of them", parameterAccess,
			parameterPolicy)
	}
	document, err := canonical(p[parameterPolicy])
	if err != nil {
		return "", problemf("parameter %q is no policy as JSON: %v", parameterPolicy, err)
	}
	return document, nil
}

// accessOf is what a policy allows in one word, where there is one, and else the policy.
func accessOf(bucket, document string) (access, policy string) {
	if document == "" {
		return accessNone, ""
	}
	has, err := canonical(document)
	if err != nil {
		// It is there, and not as anybody here would put it.
		return accessNone, document
	}
	for _, word := range []string{accessDownload, accessUpload, accessPublic} {
		of, err := bucketPolicy(bucket, map[string]string{parameterAccess: word})
		if err != nil {
			continue
		}
		if same, err := canonical(of); err == nil && same == has {
			return word, ""
		}
	}
	return accessNone, has
}

// canonical puts a policy so that two that say the same are the same text: keys and words in order, single words as
// lists.
func canonical(document string) (string, error) {
	var policy map[string]any
	if err := json.Unmarshal([]byte(document), &policy); err != nil {
		return "", err
	}
	if policy["ID"] == "" {
		delete(policy, "ID")
	}
	for _, statement := range statementsOf(policy) {
		for _, key := range []string{"Action", "NotAction", "Resource", "NotResource"} {
			if words := wordsOf(statement[key]); len(words) > 0 {
				statement[key] = words
			} else {
				delete(statement, key)
			}
		}
		switch principal := statement["Principal"].(type) {
		case string:
			statement["Principal"] = map[string]any{"AWS": []string{principal}}
		case map[string]any:
			for key, value := range principal {
				principal[key] = wordsOf(value)
			}
		}
		if statement["Sid"] == "" {
			delete(statement, "Sid")
		}
	}
	return encoded(policy), nil
}

func statementsOf(policy map[string]any) []map[string]any {
	list, ok := policy["Statement"].([]any)
	if !ok {
		// A single one needs no list.
		list = []any{policy["Statement"]}
	}
	var statements []map[string]any
	for _, one := range list {
		if statement, ok := one.(map[string]any); ok {
			statements = append(statements, statement)
		}
	}
	return statements
}

// wordsOf are the words of what is one of them or a list, in order.
func wordsOf(value any) []string {
	var words []string
	switch value := value.(type) {
	case string:
		words = append(words, value)
	case []any:
		for _, one := range value {
			if word, ok := one.(string); ok {
				words = append(words, word)
			}
		}
	}
	slices.Sort(words)
	return words
}

// misspelt is a key of an object that is one of these words but for its case, and would pass for it; empty for none.
func misspelt(object map[string]any, words ...string) string {
	for key := range object {
		if slices.Contains(words, key) {
			continue
		}
		if slices.ContainsFunc(words, func(word string) bool { return strings.EqualFold(word, key) }) {
			return key
		}
	}
	return ""
}

// s3Only refuses a policy that allows more than S3: with MinIO's own actions a user would be past the engine.
func s3Only(document string) error {
	var policy map[string]any
	if err := json.Unmarshal([]byte(document), &policy); err != nil {
		return problemf("parameter %q is no policy as JSON: %v", parameterDocument, err)
	}
	statements := statementsOf(policy)
	if len(statements) == 0 {
		return problemf("parameter %q has no Statement: it would allow nothing", parameterDocument)
	}
	if key := misspelt(policy, "Version", "Id", "ID", "Statement"); key != "" {
		return problemf("parameter %q has %q: MinIO takes words in any case, and they have to be spelled as S3 has them",
			parameterDocument, key)
	}
	for _, statement := range statements {
		if key := misspelt(statement, "Sid", "Effect", "Principal", "Action", "NotAction", "Resource", "NotResource",
			"Condition"); key != "" {
			return problemf("parameter %q has %q in a statement: MinIO takes words in any case, and they have to be spelled "+
				"as S3 has them", parameterDocument, key)
		}
		if statement["NotAction"] != nil {
			return problemf("parameter %q has NotAction: say in Action what is allowed, each beginning with s3:",
				parameterDocument)
		}
		for _, action := range wordsOf(statement["Action"]) {
			if !strings.HasPrefix(action, "s3:") {
				return problemf("parameter %q has the action %q: each must begin with s3:, the others are the engine's",
					parameterDocument, action)
			}
		}
	}
	return nil
}
