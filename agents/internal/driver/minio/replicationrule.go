// SPDX-License-Identifier: Apache-2.0

package minio

import (
	"cmp"
	"net/url"
	"strconv"
	"strings"

	"github.com/minio/minio-go/v7/pkg/replication"
)

// Parameters of a replication.
const (
	// parameterEndpoint is the URL of the target. Empty where it is not known yet, which is refused.
	parameterEndpoint = "endpoint"
	// parameterTargetBucket is the bucket there. It never changes.
	parameterTargetBucket = "target-bucket"
	// parameterAccessKey is the account there; the password of the object is its secret key.
	parameterAccessKey = "access-key"
	// parameterPrefix of the objects that go there; all of them when empty.
	parameterPrefix = "prefix"
	// parameterDeleteMarkers and parameterDeletes: "yes" to have delete markers go there, and versions that are removed
	// removed there.
	parameterDeleteMarkers = "delete-markers"
	parameterDeletes       = "deletes"
	// parameterExisting: "yes" to have what was there before the rule go there too.
	parameterExisting = "existing-objects"
	// parameterBandwidth in bytes for each second, of all servers together; 0 for any.
	parameterBandwidth = "bandwidth"
	// parameterSynchronous: "yes" to have who writes wait for the target.
	parameterSynchronous = "synchronous"
)

var replicationParameters = []string{parameterEndpoint, parameterTargetBucket, parameterAccessKey, parameterPrefix,
	parameterDeleteMarkers, parameterDeletes,
	parameterExisting, parameterBandwidth, parameterSynchronous}

const (
	// minBandwidth is the least that MinIO takes.
	minBandwidth = 100_000_000
	// foreignRule is the prefix of a rule that says more or other than can be said here, which somebody made by hand.
	foreignRule = "?"
	// maxRuleName is the longest name of a rule that MinIO takes.
	maxRuleName = 255
)

// remote is a target as MinIO has it for a bucket.
type remote struct {
	SourceBucket string     `json:"sourcebucket"`
	Endpoint     string     `json:"endpoint"`
	Credentials  remoteKeys `json:"credentials"`
	TargetBucket string     `json:"targetbucket"`
	Secure       bool       `json:"secure"`
	// Path: "on" for the name of the bucket in the path.
	Path           string `json:"path,omitempty"`
	API            string `json:"api,omitempty"`
	ARN            string `json:"arn,omitempty"`
	Type           string `json:"type"`
	BandwidthLimit int64  `json:"bandwidthlimit,omitempty"`
	Synchronous    bool   `json:"replicationSync"`
	// DisableProxy has a bucket answer by itself: without it, MinIO gives what it does not have out of the target.
	DisableProxy bool `json:"disableProxy"`
	// Online is what the server says of the target.
	Online bool `json:"isOnline,omitempty"`
}

// remoteKeys are keys of an account at a target. MinIO tells no secret keys, but where it exports all that a bucket is.
type remoteKeys struct {
	AccessKey string `json:"accessKey,omitempty"`
	SecretKey string `json:"secretKey,omitempty"`
}

const remoteType = "replication"

// remoteOf is the target that parameters ask for.
func remoteOf(bucket, secretKey string, p map[string]string) (remote, error) {
	at, err := url.Parse(p[parameterEndpoint])
	if err != nil || at.Host == "" || at.Scheme != "https" && at.Scheme != "http" || strings.Trim(at.Path, "/") != "" {
		return remote{}, problemf("parameter %q is %q: it must be a URL such as https://s3.example.com:9000",
			parameterEndpoint, p[parameterEndpoint])
	}
	bandwidth, err := numberOf(p, parameterBandwidth)
	return remote{
		SourceBucket: bucket, Endpoint: at.Host, Secure: at.Scheme == "https", TargetBucket: p[parameterTargetBucket],
		Credentials: remoteKeys{AccessKey: p[parameterAccessKey], SecretKey: secretKey}, Path: "on", API: "s3v4",
		Type:           remoteType,
		BandwidthLimit: int64(bandwidth), Synchronous: p[parameterSynchronous] == yes, DisableProxy: true,
	}, err
}

// url of a target.
func (r remote) url() string {
	if r.Secure {
		return "https://" + r.Endpoint
	}
	return "http://" + r.Endpoint
}

var (
	statusOf = map[bool]replication.Status{true: replication.Enabled, false: replication.Disabled}
	wordOf   = map[bool]string{true: yes, false: no}
)

// ruleOf is the rule that parameters ask for.
func ruleOf(name, arn string, priority int, p map[string]string) replication.Rule {
	return replication.Rule{
		ID: name, Status: replication.Enabled, Priority: priority,
		DeleteMarkerReplication: replication.DeleteMarkerReplication{Status: statusOf[p[parameterDeleteMarkers] == yes]},
		DeleteReplication:       replication.DeleteReplication{Status: statusOf[p[parameterDeletes] == yes]},
		Destination:             replication.Destination{Bucket: arn},
		Filter:                  replication.Filter{Prefix: p[parameterPrefix]},
		// What somebody changes of a replica at the target of another rule goes back, as two buckets need that are each
		// other's target.
		SourceSelectionCriteria: replication.SourceSelectionCriteria{
			ReplicaModifications: replication.ReplicaModifications{Status: replication.Enabled}},
		ExistingObjectReplication: replication.ExistingObjectReplication{Status: statusOf[p[parameterExisting] == yes]},
	}
}

// parametersOf is what a rule and its target say. The target is empty where it is gone.
func parametersOf(rule replication.Rule, target remote) map[string]string {
	p := map[string]string{
		parameterEndpoint: "", parameterTargetBucket: target.TargetBucket, parameterAccessKey: target.Credentials.AccessKey,
		parameterPrefix:        cmp.Or(rule.Filter.Prefix, rule.Filter.And.Prefix),
		parameterDeleteMarkers: wordOf[rule.DeleteMarkerReplication.Status == replication.Enabled],
		parameterDeletes:       wordOf[rule.DeleteReplication.Status == replication.Enabled],
		parameterExisting:      wordOf[rule.ExistingObjectReplication.Status == replication.Enabled],
		parameterBandwidth:     strconv.FormatInt(target.BandwidthLimit, 10),
		parameterSynchronous:   wordOf[target.Synchronous],
	}
	if target.Endpoint != "" {
		p[parameterEndpoint] = target.url()
	}
	if !same(rule, ruleOf(rule.ID, rule.Destination.Bucket, rule.Priority, p)) || target.Endpoint != "" &&
		!target.DisableProxy {
		p[parameterPrefix] = foreignRule
	}
	return p
}

// withRule puts a rule among those of a bucket, in place of one of its name.
func withRule(rules []replication.Rule, rule replication.Rule) []replication.Rule {
	all := withoutRule(rules, rule.ID)
	return append(all, rule)
}

func withoutRule(rules []replication.Rule, name string) []replication.Rule {
	var others []replication.Rule
	for _, other := range rules {
		if other.ID != name {
			others = append(others, other)
		}
	}
	return others
}

// priorityFor is that of the rule of a name, or one that no other rule has.
func priorityFor(rules []replication.Rule, name string) int {
	highest := 0
	for _, other := range rules {
		if other.ID == name {
			return other.Priority
		}
		highest = max(highest, other.Priority)
	}
	return highest + 1
}
