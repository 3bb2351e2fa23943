// SPDX-License-Identifier: Apache-2.0

package objectstorage

import (
	"cmp"
	"encoding/json"
	"slices"
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
// granted.
func entities(o *storagev1.ObjectStorage, referents typed.Referents) []platformv1.EntitySpec {
	var specs []platformv1.EntitySpec
	for _, b := range o.Spec.Buckets {
		specs = append(specs, bucket(&b, &o.Spec))
		for _, r := range b.Replication {
			specs = append(specs, replication(b.Name, &r, referents))
		}
	}
	for _, p := range o.Spec.Policies {
		specs = append(specs, policy(p.Name, json.RawMessage(p.Document)))
	}
	for _, u := range o.Spec.Users {
		user := typed.EntityOf(userType, &u)
		if len(u.Grants) > 0 {
			specs = append(specs, policy(u.Name+ofGrants, grants(u.Grants)))
			user.Parameters["policies"] = typed.Words(append(slices.Clone(u.Policies), u.Name+ofGrants))
		}
		specs = append(specs, user)
	}
	return specs
}

// policy is adopted where it is there: its name is this object's to give, and a policy holds nothing.
func policy(name string, document any) platformv1.EntitySpec {
	return platformv1.EntitySpec{
		Type: policyType, Name: name, Parameters: platformv1.Parameters{"document": typed.JSON(document)},
		DeletionPolicy: platformv1.EntityDelete, Adopt: true,
	}
}

// bucket is a bucket in the words of the backend's plugin. One that a Backup has becomes what the object says: nobody
// else could have made it.
func bucket(b *storagev1.ObjectStorageBucket, spec *storagev1.ObjectStorageSpec) platformv1.EntitySpec {
	entity := typed.EntityOf(bucketType, b)
	entity.Adopt = b.Adopt || spec.RestoreFrom != nil
	p := entity.Parameters
	p["versioning"] = typed.Lower(cmp.Or(b.Versioning, storagev1.VersioningOff))
	p["policy"] = typed.Lower(cmp.Or(b.Access, storagev1.AccessNone))
	if b.Policy != "" {
		p["policy"] = typed.JSON(json.RawMessage(b.Policy))
	}
	retention := cmp.Or(b.Retention, &storagev1.ObjectStorageRetention{})
	p["retention-mode"], p["retention-days"] = typed.Lower(retention.Mode), typed.Number(retention.Days)
	p["lifecycle"] = lifecycle(b.Lifecycle)
	if spec.Backend != storagev1.BackendExternal {
		p["quota"] = bytes(b.Quota)
	}
	return entity
}

// bytes of a quantity; 0 for none. The CRD lets nothing else through than a quantity.
func bytes(text string) platformv1.ParameterValue {
	parsed, err := resource.ParseQuantity(text)
	if err != nil {
		return typed.Number(0)
	}
	return typed.Number(parsed.Value())
}

// lifecycle is rules as the driver reads them back, in the order of their names; empty for none.
func lifecycle(rules []storagev1.ObjectStorageRule) platformv1.ParameterValue {
	type rule struct {
		Name           string `json:"id"`
		Prefix         string `json:"prefix,omitempty"`
		ExpireDays     int32  `json:"expireDays,omitempty"`
		NoncurrentDays int32  `json:"noncurrentDays,omitempty"`
	}
	if len(rules) == 0 {
		return ""
	}
	var all []rule
	for _, r := range rules {
		all = append(all, rule(r))
	}
	slices.SortFunc(all, func(a, b rule) int { return strings.Compare(a.Name, b.Name) })
	return typed.JSON(all)
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
func grants(all []storagev1.ObjectStorageGrant) map[string]any {
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
	return map[string]any{"Version": "2012-10-17", "Statement": statements}
}
