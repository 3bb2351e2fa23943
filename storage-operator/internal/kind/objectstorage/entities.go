// SPDX-License-Identifier: Apache-2.0

package objectstorage

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/typed"

	storagev1 "github.com/zeroinfra/storage-operator/api/v1"
)

// What the plugins call what is inside a storage; of an external one there are buckets alone.
const (
	bucketType = "bucket"
	policyType = "policy"
	userType   = "user"
)

// ofGrants ends the name of the policy that a user's grants become.
const ofGrants = ".grants"

// entities are what is inside the storage: buckets and their replications, policies, and users with what they are
// granted. Buckets that a Backup has become what the object says: nobody else could have made them.
func entities(o *storagev1.ObjectStorage, referents typed.Referents) []platformv1.EntitySpec {
	var specs []platformv1.EntitySpec
	for _, b := range o.Spec.Buckets {
		specs = append(specs, platformv1.EntitySpec{
			Type: bucketType, Name: b.Name, Parameters: bucket(&b, o.Spec.Backend),
			DeletionPolicy: cmp.Or(b.DeletionPolicy, platformv1.EntityRetain), Adopt: b.Adopt || o.Spec.RestoreFrom != nil,
		})
		for _, r := range b.Replication {
			specs = append(specs, replication(b.Name, &r, referents))
		}
	}
	for _, p := range o.Spec.Policies {
		specs = append(specs, policy(p.Name, compact(p.Document)))
	}
	for _, u := range o.Spec.Users {
		policies := slices.Clone(u.Policies)
		if len(u.Grants) > 0 {
			specs = append(specs, policy(u.Name+ofGrants, grants(u.Grants)))
			policies = append(policies, u.Name+ofGrants)
		}
		slices.Sort(policies)
		specs = append(specs, platformv1.EntitySpec{
			Type: userType, Name: u.Name, DeletionPolicy: platformv1.EntityDelete, Adopt: u.Adopt,
			Parameters: platformv1.Parameters{"enabled": yesUnless(u.Enabled),
				"policies": platformv1.ParameterValue(strings.Join(policies, " "))},
			PasswordFrom: typed.PasswordFrom(&u.SecretKeyFrom),
		})
	}
	return specs
}

// policy is adopted where it is there: its name is this object's to give, and a policy holds nothing.
func policy(name, document string) platformv1.EntitySpec {
	return platformv1.EntitySpec{
		Type: policyType, Name: name, Parameters: platformv1.Parameters{"document": platformv1.ParameterValue(document)},
		DeletionPolicy: platformv1.EntityDelete, Adopt: true,
	}
}

// bucket is a bucket in the words of the backend's plugin. What is left out is said too, so that it is taken away.
func bucket(b *storagev1.ObjectStorageBucket, backend storagev1.Backend) platformv1.Parameters {
	lock, mode, days := "no", "", int32(0)
	if b.ObjectLock {
		lock = "yes"
	}
	if b.Retention != nil {
		mode, days = strings.ToLower(b.Retention.Mode), b.Retention.Days
	}
	access := strings.ToLower(string(cmp.Or(b.Access, storagev1.AccessNone)))
	if b.Policy != "" {
		access = compact(b.Policy)
	}
	parameters := platformv1.Parameters{
		"versioning":     platformv1.ParameterValue(strings.ToLower(string(cmp.Or(b.Versioning, storagev1.VersioningOff)))),
		"object-lock":    platformv1.ParameterValue(lock),
		"retention-mode": platformv1.ParameterValue(mode),
		"retention-days": platformv1.ParameterValue(strconv.Itoa(int(days))),
		"policy":         platformv1.ParameterValue(access),
		"lifecycle":      platformv1.ParameterValue(lifecycle(b.Lifecycle)),
	}
	if backend != storagev1.BackendExternal {
		parameters["quota"] = platformv1.ParameterValue(strconv.FormatInt(quantity(b.Quota), 10))
	}
	return parameters
}

// quantity in bytes; 0 for none. The CRD lets nothing else through than a quantity.
func quantity(text string) int64 {
	parsed, err := resource.ParseQuantity(text)
	if err != nil {
		return 0
	}
	return parsed.Value()
}

// lifecycle is rules as the driver reads them back, in the order of their names; empty for none.
func lifecycle(rules []storagev1.ObjectStorageRule) string {
	type rule struct {
		ID             string `json:"id"`
		Prefix         string `json:"prefix,omitempty"`
		ExpireDays     int32  `json:"expireDays,omitempty"`
		NoncurrentDays int32  `json:"noncurrentDays,omitempty"`
	}
	var all []rule
	for _, r := range rules {
		all = append(all, rule{r.Name, r.Prefix, r.ExpireDays, r.NoncurrentDays})
	}
	if len(all) == 0 {
		return ""
	}
	slices.SortFunc(all, func(a, b rule) int { return strings.Compare(a.ID, b.ID) })
	return encoded(all)
}

// What grants allow, of the bucket, where it is first, and of the objects in it.
var (
	ofBucket = map[storagev1.GrantAccess][]string{
		storagev1.GrantRead:  {"s3:GetBucketLocation", "s3:ListBucket", "s3:ListBucketVersions"},
		storagev1.GrantWrite: {"s3:GetBucketLocation", "s3:ListBucketMultipartUploads"},
		storagev1.GrantReadWrite: {"s3:GetBucketLocation", "s3:ListBucket", "s3:ListBucketMultipartUploads",
			"s3:ListBucketVersions"},
	}
	ofObjects = map[storagev1.GrantAccess][]string{
		storagev1.GrantRead:  {"s3:GetObject", "s3:GetObjectVersion"},
		storagev1.GrantWrite: {"s3:AbortMultipartUpload", "s3:ListMultipartUploadParts", "s3:PutObject"},
		storagev1.GrantReadWrite: {"s3:AbortMultipartUpload", "s3:DeleteObject", "s3:DeleteObjectVersion", "s3:GetObject",
			"s3:GetObjectVersion",
			"s3:ListMultipartUploadParts", "s3:PutObject"},
	}
)

// grants are a policy.
func grants(all []storagev1.ObjectStorageGrant) string {
	type statement struct {
		Action    []string                       `json:"Action"`
		Condition map[string]map[string][]string `json:"Condition,omitempty"`
		Effect    string                         `json:"Effect"`
		Resource  []string                       `json:"Resource"`
	}
	const resource = "arn:aws:s3:::"
	var statements []statement
	for _, g := range all {
		within := statement{Effect: "Allow", Action: ofBucket[g.Access], Resource: []string{resource + g.Bucket}}
		if g.Prefix != "" {
			// Who asks where a bucket is names no prefix.
			statements = append(statements, statement{Effect: "Allow", Action: ofBucket[g.Access][:1],
				Resource: within.Resource})
			within.Action, within.Condition = ofBucket[g.Access][1:],
				map[string]map[string][]string{"StringLike": {"s3:prefix": {g.Prefix + "*"}}}
		}
		statements = append(statements, within,
			statement{Effect: "Allow", Action: ofObjects[g.Access],
				Resource: []string{resource + g.Bucket + "/" + g.Prefix + "*"}})
	}
	return encoded(map[string]any{"Version": "2012-10-17", "Statement": statements})
}

// compact is a document on one line. What is no JSON, Compile has refused.
func compact(document string) string {
	var out bytes.Buffer
	if err := json.Compact(&out, []byte(document)); err != nil {
		return "{}"
	}
	return out.String()
}

// encoded is a value as JSON, without the escapes that only HTML needs.
func encoded(value any) string {
	var out strings.Builder
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	// Texts, numbers, lists and maps of them.
	if err := encoder.Encode(value); err != nil {
		panic(err)
	}
	return strings.TrimSuffix(out.String(), "\n")
}

func yesUnless(set *bool) platformv1.ParameterValue {
	if set != nil && !*set {
		return "no"
	}
	return "yes"
}
