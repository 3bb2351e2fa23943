// SPDX-License-Identifier: Apache-2.0

package minio

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/minio/minio-go/v7/pkg/replication"

	"github.com/zeroinfra/agents/internal/driver"
)

// replications are rules by which what is written to a bucket goes to another one, each with the target that it names.
// An object is called "<bucket>/<rule>". Rules that others made are left alone.
type replications struct{}

func (replications) check(_ *session, change driver.Change) error {
	bucket, rule, ok := strings.Cut(change.Name, "/")
	if !ok || bucket == "" || rule == "" || strings.Contains(rule, "/") || len(rule) > maxRuleName {
		return problemf("a replication is called %q: it must be the name of a bucket, a slash, and the name of a rule",
			change.Name)
	}
	if change.Intent == driver.Delete {
		return nil
	}
	p := change.Parameters
	if err := known(p, replicationParameters...); err != nil {
		return err
	}
	for _, name := range []string{parameterDeleteMarkers, parameterDeletes, parameterExisting, parameterSynchronous} {
		if err := oneOf(name, p[name], yes, no); err != nil {
			return err
		}
	}
	bandwidth, err := numberOf(p, parameterBandwidth)
	switch {
	case err != nil:
		return err
	case bandwidth > 0 && bandwidth < minBandwidth:
		return problemf("parameter %q is %d bytes in a second: MinIO takes no less than %d, or 0 for any", parameterBandwidth,
			bandwidth, minBandwidth)
	case p[parameterEndpoint] == "":
		return problemf("the address of the target is not known: the ObjectStorage that is named as the target is not " +
			"there, or has no endpoint yet")
	case p[parameterAccessKey] == "" || change.Password == "":
		return problemf("the target needs an account: set its access key and its secret key")
	}
	_, err = remoteOf(bucket, change.Password, p)
	return err
}

// ruleAt is a rule and its target, the other rules, and the targets of the bucket. The rule is nil where it is not
// there.
type ruleAt struct {
	bucket, name string
	rule         *replication.Rule
	target       remote
	config       replication.Config
	targets      []remote
	// existing is how far what was there before is, in MinIO's words; empty where it was never asked for.
	existing string
}

// find returns nil where the bucket is not there.
func find(ctx context.Context, s *session, name string) (*ruleAt, error) {
	at := &ruleAt{}
	at.bucket, at.name, _ = strings.Cut(name, "/")
	var err error
	at.config, err = s.s3.GetBucketReplication(ctx, at.bucket)
	if is(err, "NoSuchBucket") {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if at.targets, err = s.admin.targets(ctx, at.bucket); err != nil {
		return nil, err
	}
	for i, rule := range at.config.Rules {
		if rule.ID == at.name {
			at.rule = &at.config.Rules[i]
		}
	}
	if at.rule == nil {
		return at, nil
	}
	for _, target := range at.targets {
		if target.ARN == at.rule.Destination.Bucket {
			at.target = target
		}
	}
	sync, err := s.s3.GetBucketReplicationResyncStatus(ctx, at.bucket, at.rule.Destination.Bucket)
	if err != nil {
		return nil, err
	}
	for _, one := range sync.Targets {
		at.existing = one.ResyncStatus
	}
	return at, nil
}

func (replications) observe(ctx context.Context, s *session, query driver.Query) (*driver.State, error) {
	at, err := find(ctx, s, query.Name)
	if err != nil || at == nil || at.rule == nil {
		return nil, err
	}
	state := &driver.State{Name: query.Name, Password: driver.SamePassword, Parameters: parametersOf(*at.rule, at.target)}
	if at.existing == "" {
		// Without being asked, MinIO would come to what was there before when it next looks through all buckets.
		state.Parameters[parameterExisting] = no
	}
	if query.Password != "" {
		key, err := s.admin.targetKey(ctx, at.bucket, at.target.ARN)
		if err != nil {
			return nil, err
		}
		if key != query.Password {
			state.Password = driver.OtherPassword
		}
	}
	state.Facts, err = at.facts(ctx, s)
	return state, err
}

// Facts of a replication. Counts are of all servers since each was started.
const (
	factOnline          = "online"
	factQueued          = "queued-objects"
	factQueuedBytes     = "queued-bytes"
	factReplicated      = "replicated-objects"
	factReplicatedBytes = "replicated-bytes"
	factFailed          = "failed-attempts"
	factFailedBytes     = "failed-bytes"
	factFailedHour      = "failed-last-hour"
	factExisting        = "existing-objects"
)

// facts are how far a replication is. Those of the queue are of the bucket, with all of its rules.
func (at *ruleAt) facts(ctx context.Context, s *session) (map[string]string, error) {
	metrics, err := s.s3.GetBucketReplicationMetricsV2(ctx, at.bucket)
	if err != nil {
		return nil, err
	}
	target, queued := metrics.CurrentStats.Stats[at.target.ARN], metrics.CurrentStats.QStats.Curr
	facts := map[string]string{
		factOnline: wordOf[at.target.Online],
		factQueued: whole(queued.Count), factQueuedBytes: whole(queued.Bytes),
		factReplicated:      strconv.FormatUint(target.ReplicatedCount, 10),
		factReplicatedBytes: strconv.FormatUint(target.ReplicatedSize, 10),
		factFailed:          whole(target.Failed.Totals.Count), factFailedBytes: whole(float64(target.Failed.Totals.Bytes)),
		factFailedHour: whole(target.Failed.LastHour.Count),
	}
	if at.existing != "" && at.rule.ExistingObjectReplication.Status == replication.Enabled {
		facts[factExisting] = at.existing
	}
	return facts, nil
}

func whole(number float64) string { return strconv.FormatInt(int64(number), 10) }

func (replications) put(ctx context.Context, s *session, change driver.Change, _ *driver.State) error {
	p := change.Parameters
	at, err := find(ctx, s, change.Name)
	if err != nil {
		return err
	}
	bucket, _, _ := strings.Cut(change.Name, "/")
	if at == nil {
		return problemf("there is no bucket %q here to replicate: make it first", bucket)
	}
	wanted, err := remoteOf(bucket, change.Password, p)
	if err != nil {
		return err
	}
	if at.target.ARN != "" && at.target.TargetBucket != wanted.TargetBucket {
		return problemf("its target is the bucket %q, and cannot become %q: take the replication out, and add another one",
			at.target.TargetBucket, wanted.TargetBucket)
	}
	if err := preflight(ctx, s, bucket, wanted, p[parameterEndpoint]); err != nil {
		return err
	}
	copies := p[parameterExisting] == yes && at.copiesAnew(wanted, p[parameterPrefix])
	if wanted.ARN, err = at.setTarget(ctx, s, wanted); err != nil {
		return err
	}
	config := at.config
	config.Role = ""
	config.Rules = withRule(config.Rules, ruleOf(at.name, wanted.ARN, priorityFor(config.Rules, at.name), p))
	if err := s.s3.SetBucketReplication(ctx, bucket, config); err != nil {
		return err
	}
	if !copies {
		return nil
	}
	_, err = s.s3.ResetBucketReplicationOnTarget(ctx, bucket, 0, wanted.ARN)
	return err
}

// copiesAnew says whether there is more to copy than the rule that is there has begun with. What is under way goes on,
// and what it does not come to MinIO finds when it next looks through the bucket.
func (at *ruleAt) copiesAnew(wanted remote, prefix string) bool {
	switch {
	case at.rule == nil, at.existing == "":
		return true
	case slices.Contains(underWay, at.existing):
		return false
	}
	return at.rule.ExistingObjectReplication.Status != replication.Enabled || at.target.url() != wanted.url() ||
		at.rule.Filter.Prefix != prefix
}

// underWay are words of MinIO for a copy of what was there before that has not ended.
var underWay = []string{"Pending", "Ongoing"}

// setTarget has the bucket have a target, and returns its ARN. One that was left when its rule was removed is used
// again.
func (at *ruleAt) setTarget(ctx context.Context, s *session, wanted remote) (string, error) {
	wanted.ARN = at.target.ARN
	for _, target := range at.targets {
		if target.ARN == at.target.ARN || target.Endpoint != wanted.Endpoint {
			continue
		}
		if used := slices.ContainsFunc(at.config.Rules,
			func(rule replication.Rule) bool { return rule.Destination.Bucket == target.ARN }); used {
			return "", problemf("another rule of bucket %q goes to %s, and MinIO has one target of a bucket for each address: "+
				"take one of the two out", at.bucket, wanted.url())
		}
		if target.TargetBucket == wanted.TargetBucket && wanted.ARN == "" {
			wanted.ARN = target.ARN
			continue
		}
		// Nothing goes there, and it would be in the way.
		if err := s.admin.removeTarget(ctx, at.bucket, target.ARN); err != nil {
			return "", err
		}
	}
	if wanted.ARN == "" {
		return s.admin.addTarget(ctx, at.bucket, wanted)
	}
	return wanted.ARN, s.admin.changeTarget(ctx, at.bucket, wanted)
}

func (replications) remove(ctx context.Context, s *session, name string) error {
	at, err := find(ctx, s, name)
	if err != nil || at == nil || at.rule == nil {
		return err
	}
	config := at.config
	if config.Rules = withoutRule(config.Rules, at.name); len(config.Rules) == 0 {
		// All targets of the bucket go with it.
		return s.s3.RemoveBucketReplication(ctx, at.bucket)
	}
	if err := s.s3.SetBucketReplication(ctx, at.bucket, config); err != nil {
		return err
	}
	return at.removeUnused(ctx, s, config.Rules)
}

// removeUnused removes the targets to which no rule goes, with the keys that they have: that of this rule, and those of
// rules that somebody has removed by hand.
func (at *ruleAt) removeUnused(ctx context.Context, s *session, rules []replication.Rule) error {
	for _, target := range at.targets {
		if slices.ContainsFunc(rules, func(rule replication.Rule) bool { return rule.Destination.Bucket == target.ARN }) {
			continue
		}
		if err := s.admin.removeTarget(ctx, at.bucket, target.ARN); err != nil {
			return err
		}
	}
	return nil
}
