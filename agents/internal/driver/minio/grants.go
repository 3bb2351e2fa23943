// SPDX-License-Identifier: Apache-2.0

package minio

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

// grant is what a user may do in one bucket, as it is in parameterGrants.
type grant struct {
	// Bucket that it is for.
	Bucket string `json:"bucket"`
	// Access is one of grantRead, grantWrite and grantReadWrite.
	Access string `json:"access"`
	// Prefix of the names of the objects; all of them when empty.
	Prefix string `json:"prefix,omitempty"`
}

const (
	// grantRead: list and read objects.
	grantRead = "Read"
	// grantWrite: put objects there.
	grantWrite = "Write"
	// grantReadWrite: both, and remove objects.
	grantReadWrite = "ReadWrite"
)

const (
	// ofGrants ends the name of the policy that the grants of a user are.
	ofGrants = ".grants"
	// foreignGrants stand for a policy that says more or other than grants can, which somebody made by hand, and for one
	// that the user does not have.
	foreignGrants = "?"
)

// listUploads is to list the uploads of a bucket that are not finished.
const listUploads = "s3:ListBucketMultipartUploads"

// What grants allow, in alphabetical order: of the bucket, where s3:GetBucketLocation is first, and of the objects in
// it.
var (
	grantedOfBucket = map[string][]string{
		grantRead:  {"s3:GetBucketLocation", "s3:ListBucket", "s3:ListBucketVersions"},
		grantWrite: {"s3:GetBucketLocation", listUploads},
		grantReadWrite: {"s3:GetBucketLocation", "s3:ListBucket", listUploads,
			"s3:ListBucketVersions"},
	}
	grantedOfObjects = map[string][]string{
		grantRead:  {"s3:GetObject", "s3:GetObjectVersion"},
		grantWrite: {"s3:AbortMultipartUpload", "s3:ListMultipartUploadParts", "s3:PutObject"},
		grantReadWrite: {"s3:AbortMultipartUpload", "s3:DeleteObject", "s3:DeleteObjectVersion", "s3:GetObject",
			"s3:GetObjectVersion", "s3:ListMultipartUploadParts", "s3:PutObject"},
	}
)

var (
	bucketName = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`)
	// plainPrefix has nothing that is a pattern or a variable in a policy.
	plainPrefix = regexp.MustCompile(`^[^*?$\\"\x00-\x1f]*$`)
)

// grantsOf reads parameterGrants.
func grantsOf(text string) ([]grant, error) {
	if text == "" {
		return nil, nil
	}
	var grants []grant
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&grants); err != nil {
		return nil, problemf("parameter %q is no list of grants: %v", parameterGrants, err)
	}
	seen := map[string]bool{}
	for _, g := range grants {
		switch {
		case !bucketName.MatchString(g.Bucket) || seen[g.Bucket]:
			return nil, problemf("parameter %q has a grant for the bucket %q: each needs the name of another bucket",
				parameterGrants, g.Bucket)
		case grantedOfObjects[g.Access] == nil:
			return nil, problemf("the access of the grant for bucket %q is %q: it must be one of %s, %s, %s", g.Bucket, g.Access,
				grantRead, grantWrite, grantReadWrite)
		case !plainPrefix.MatchString(g.Prefix):
			return nil, problemf("the prefix of the grant for bucket %q is %q: it must be the beginning of names, "+
				"without * ? $ \\ and quotes", g.Bucket, g.Prefix)
		}
		seen[g.Bucket] = true
	}
	return grants, nil
}

// textOfGrants are grants as parameterGrants has them, in the order of their buckets; empty for none.
func textOfGrants(grants []grant) string {
	if len(grants) == 0 {
		return ""
	}
	return encoded(slices.SortedFunc(slices.Values(grants),
		func(a, b grant) int { return strings.Compare(a.Bucket, b.Bucket) }))
}

// policyOfGrants is the policy that grants are.
func policyOfGrants(grants []grant) string {
	type statement struct {
		Action    []string                       `json:"Action"`
		Condition map[string]map[string][]string `json:"Condition,omitempty"`
		Effect    string                         `json:"Effect"`
		Resource  []string                       `json:"Resource"`
	}
	var statements []statement
	for _, g := range grants {
		bucket, always := []string{resource + g.Bucket}, grantedOfBucket[g.Access]
		var listed []string
		if g.Prefix != "" {
			// Who asks where a bucket is names no prefix. Who lists unfinished uploads may, and MinIO has no condition for
			// that: none are listed.
			always, listed = always[:1], slices.DeleteFunc(slices.Clone(always[1:]), func(action string) bool {
				return action == listUploads
			})
		}
		statements = append(statements, statement{Effect: allow, Action: always, Resource: bucket})
		if len(listed) > 0 {
			statements = append(statements, statement{Effect: allow, Action: listed, Resource: bucket,
				Condition: map[string]map[string][]string{"StringLike": {"s3:prefix": {g.Prefix + "*"}}}})
		}
		statements = append(statements, statement{Effect: allow, Action: grantedOfObjects[g.Access],
			Resource: []string{resource + g.Bucket + "/" + g.Prefix + "*"}})
	}
	return encoded(map[string]any{"Version": policyVersion, "Statement": statements})
}

// grantsIn are the grants that a policy is, as parameterGrants has them; foreignGrants where it says more or other than
// these.
func grantsIn(document string) string {
	var policy map[string]any
	if err := json.Unmarshal([]byte(document), &policy); err != nil {
		return foreignGrants
	}
	var grants []grant
	for _, statement := range statementsOf(policy) {
		// The statement about objects names all that a grant has.
		on := strings.TrimSuffix(strings.TrimPrefix(strings.Join(wordsOf(statement["Resource"]), " "), resource), "*")
		bucket, prefix, objects := strings.Cut(on, "/")
		for access, actions := range grantedOfObjects {
			if objects && slices.Equal(wordsOf(statement["Action"]), actions) {
				grants = append(grants, grant{Bucket: bucket, Access: access, Prefix: prefix})
			}
		}
	}
	has, err := canonical(document)
	wanted, other := canonical(policyOfGrants(grants))
	if err != nil || other != nil || has != wanted || len(grants) == 0 {
		return foreignGrants
	}
	return textOfGrants(grants)
}
