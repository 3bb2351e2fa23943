// SPDX-License-Identifier: Apache-2.0

package minio

import (
	"cmp"
	"context"
	"strconv"

	miniogo "github.com/minio/minio-go/v7"

	"github.com/zeroinfra/agents/internal/driver"
)

// Parameters of a bucket.
const (
	// parameterVersioning: one of the values below. Once enabled it can only be suspended.
	parameterVersioning = "versioning"
	// parameterLock: "yes" for a bucket with object lock, which is decided when it is made, and needs versioning.
	parameterLock = "object-lock"
	// parameterMode and parameterDays: how long, and how strictly, objects are kept for which nobody says so. Empty and 0
	// for not at all.
	parameterMode = "retention-mode"
	parameterDays = "retention-days"
	// parameterAccess: what anybody may do without logging in, as one of the words of access.
	parameterAccess = "access"
	// parameterPolicy: the same as a policy in JSON, in place of a word; empty for none.
	parameterPolicy = "policy"
	// parameterLifecycle: rules as JSON; empty for none.
	parameterLifecycle = "lifecycle"
	// parameterQuota: bytes that all objects and their versions may take; 0 for any number.
	parameterQuota = "quota"
)

// Values of parameterVersioning.
const (
	versioningOff       = "off"
	versioningEnabled   = "enabled"
	versioningSuspended = "suspended"
)

const (
	yes = "yes"
	no  = "no"
)

// daysOfYear are how long a year is where somebody has said a retention in years.
const daysOfYear = 365

// buckets are those of a storage.
type buckets struct {
	// beyondS3 is what can be said of them that S3 has no word for.
	beyondS3 []aspect
}

// aspect is what one parameter says.
type aspect struct {
	parameter string
	read      reader
	write     writer
}

type (
	// reader puts what a bucket has among its parameters, and before it asks what one has of which nothing was ever said.
	reader func(ctx context.Context, s *session, name string, p map[string]string) error
	// writer has a bucket that has some parameters have others.
	writer func(ctx context.Context, s *session, name string, has, p map[string]string) error
)

func (b buckets) check(_ *session, change driver.Change) error {
	p := change.Parameters
	if change.Intent == driver.Delete {
		return nil
	}
	names := []string{parameterVersioning, parameterLock, parameterMode, parameterDays, parameterAccess, parameterPolicy,
		parameterLifecycle}
	for _, more := range b.beyondS3 {
		names = append(names, more.parameter)
	}
	if err := known(p, names...); err != nil {
		return err
	}
	if err := oneOf(parameterVersioning, versioningOf(p), versioningOff, versioningEnabled,
		versioningSuspended); err != nil {
		return err
	}
	if err := oneOf(parameterLock, lockOf(p), yes, no); err != nil {
		return err
	}
	if err := oneOf(parameterMode, p[parameterMode], "", "governance", "compliance"); err != nil {
		return err
	}
	days, err := numberOf(p, parameterDays)
	if err != nil {
		return err
	}
	switch {
	case lockOf(p) == yes && versioningOf(p) != versioningEnabled:
		return problemf("object lock needs versioning: set versioning to enabled")
	case p[parameterMode] != "" && lockOf(p) != yes:
		return problemf("a retention needs object lock: set object-lock to yes, or take the retention out")
	case (p[parameterMode] != "") != (days > 0):
		return problemf("a retention has a mode and a number of days: set both, or none")
	}
	if _, err := numberOf(p, parameterQuota); err != nil {
		return err
	}
	if _, err := bucketPolicy(change.Name, p); err != nil {
		return err
	}
	_, err = rulesOf(p[parameterLifecycle])
	return err
}

func versioningOf(p map[string]string) string { return cmp.Or(p[parameterVersioning], versioningOff) }

func lockOf(p map[string]string) string { return cmp.Or(p[parameterLock], no) }

func numberOf(p map[string]string, name string) (uint64, error) {
	n, err := strconv.ParseUint(cmp.Or(p[name], "0"), 10, 63)
	if err != nil {
		return 0, problemf("parameter %q is %q: it must be a whole number", name, p[name])
	}
	return n, nil
}

func (b buckets) observe(ctx context.Context, s *session, query driver.Query) (*driver.State, error) {
	name := query.Name
	there, err := s.s3.BucketExists(ctx, name)
	if code, _ := answer(err); err == nil && !there || err != nil && code == "" {
		return nil, err
	}
	// What is in the way of a HEAD its answer has no room for: the next question tells.
	state := &driver.State{Name: name, Password: driver.SamePassword, Parameters: map[string]string{}}
	reads := []reader{readVersioning, readLock, readPolicy, readLifecycle}
	for _, more := range b.beyondS3 {
		reads = append(reads, more.read)
	}
	for _, read := range reads {
		err := read(ctx, s, name, state.Parameters)
		switch {
		case err == nil, is(err, notThere...):
		case is(err, "NoSuchBucket"):
			// It went while it was looked at.
			return nil, nil
		case is(err, others...):
			state.Parameters = nil
			return state, nil
		default:
			return nil, err
		}
	}
	return state, nil
}

var (
	// others are answers to who asks for a bucket that is another's, or lies in another region: it is there, and nobody
	// here may say more of it.
	others = []string{"AccessDenied", "AllAccessDisabled", "PermanentRedirect", "AuthorizationHeaderMalformed"}
	// notThere are answers of a storage that has no such thing as is asked for: its buckets are as if nothing was ever
	// said of it.
	notThere = []string{"NotImplemented", "MethodNotAllowed"}
)

func readVersioning(ctx context.Context, s *session, name string, p map[string]string) error {
	p[parameterVersioning] = versioningOff
	versioning, err := s.s3.GetBucketVersioning(ctx, name)
	switch {
	case err != nil:
		return err
	case versioning.Enabled():
		p[parameterVersioning] = versioningEnabled
	case versioning.Suspended():
		p[parameterVersioning] = versioningSuspended
	}
	return nil
}

func readLock(ctx context.Context, s *session, name string, p map[string]string) error {
	p[parameterLock], p[parameterMode], p[parameterDays] = no, "", "0"
	_, mode, validity, unit, err := s.s3.GetObjectLockConfig(ctx, name)
	if is(err, "ObjectLockConfigurationNotFoundError") {
		return nil
	}
	if err != nil {
		return err
	}
	p[parameterLock] = yes
	if mode == nil || validity == nil || unit == nil {
		return nil
	}
	days := uint64(*validity)
	if *unit == miniogo.Years {
		days *= daysOfYear
	}
	p[parameterMode], p[parameterDays] = modes[*mode], strconv.FormatUint(days, 10)
	return nil
}

var modes = map[miniogo.RetentionMode]string{miniogo.Governance: "governance", miniogo.Compliance: "compliance"}

func readPolicy(ctx context.Context, s *session, name string, p map[string]string) error {
	p[parameterAccess], p[parameterPolicy] = accessNone, ""
	document, err := s.s3.GetBucketPolicy(ctx, name)
	if err != nil {
		return err
	}
	p[parameterAccess], p[parameterPolicy] = accessOf(name, document)
	return nil
}

func readLifecycle(ctx context.Context, s *session, name string, p map[string]string) error {
	p[parameterLifecycle] = ""
	configuration, err := s.s3.GetBucketLifecycle(ctx, name)
	if is(err, "NoSuchLifecycleConfiguration") {
		return nil
	}
	if err != nil {
		return err
	}
	p[parameterLifecycle] = textOf(configuration)
	return nil
}

func readQuota(ctx context.Context, s *session, name string, p map[string]string) error {
	p[parameterQuota] = "0"
	quota, err := s.admin.quota(ctx, name)
	if is(err, "XMinioAdminNoSuchQuotaConfiguration") {
		return nil
	}
	if err != nil {
		return err
	}
	p[parameterQuota] = strconv.FormatUint(quota, 10)
	return nil
}

func (b buckets) put(ctx context.Context, s *session, change driver.Change, there *driver.State) error {
	name, p := change.Name, change.Parameters
	if there == nil {
		err := s.s3.MakeBucket(ctx, name, miniogo.MakeBucketOptions{Region: s.region, ObjectLocking: lockOf(p) == yes})
		if err != nil && !is(err, "BucketAlreadyOwnedByYou") {
			return err
		}
		if there, err = b.observe(ctx, s, change.Query); err != nil || there == nil {
			return cmp.Or(err, problemf("it was removed while it was made"))
		}
	}
	has := there.Parameters
	if has == nil {
		return problemf("a bucket of this name is there, and the account may not read what it is: take another name, or " +
			"give the account the rights")
	}
	if has[parameterLock] != lockOf(p) {
		return problemf("parameter %q is %q and the bucket has %q, which is decided when it is made: set it back, or make "+
			"another bucket", parameterLock, lockOf(p), has[parameterLock])
	}
	writes := []writer{writeVersioning, writeRetention, writePolicy, writeLifecycle}
	for _, more := range b.beyondS3 {
		writes = append(writes, more.write)
	}
	for _, write := range writes {
		if err := write(ctx, s, name, has, p); err != nil {
			return err
		}
	}
	return nil
}

func writeVersioning(ctx context.Context, s *session, name string, has, p map[string]string) error {
	wanted := versioningOf(p)
	switch {
	case has[parameterVersioning] == wanted:
		return nil
	case wanted == versioningEnabled:
		return s.s3.EnableVersioning(ctx, name)
	case wanted == versioningSuspended:
		return s.s3.SuspendVersioning(ctx, name)
	}
	return problemf("versioning is %s, and cannot be off again once it was enabled: set it to suspended, which keeps "+
		"the versions that there are", has[parameterVersioning])
}

func writeRetention(ctx context.Context, s *session, name string, has, p map[string]string) error {
	days, err := numberOf(p, parameterDays)
	if err != nil {
		return err
	}
	if lockOf(p) != yes || has[parameterMode] == p[parameterMode] && has[parameterDays] == strconv.FormatUint(days, 10) {
		return nil
	}
	if days == 0 {
		return s.s3.SetObjectLockConfig(ctx, name, nil, nil, nil)
	}
	mode := miniogo.Governance
	if p[parameterMode] == modes[miniogo.Compliance] {
		mode = miniogo.Compliance
	}
	return s.s3.SetObjectLockConfig(ctx, name, &mode, new(uint(days)), new(miniogo.Days))
}

func writePolicy(ctx context.Context, s *session, name string, has, p map[string]string) error {
	document, err := bucketPolicy(name, p)
	if err != nil {
		return err
	}
	if access, policy := accessOf(name, document); access == has[parameterAccess] && policy == has[parameterPolicy] {
		return nil
	}
	return s.s3.SetBucketPolicy(ctx, name, document)
}

func writeLifecycle(ctx context.Context, s *session, name string, has, p map[string]string) error {
	rules, err := rulesOf(p[parameterLifecycle])
	if err != nil {
		return err
	}
	configuration := configurationOf(rules)
	if textOf(configuration) == has[parameterLifecycle] {
		return nil
	}
	return s.s3.SetBucketLifecycle(ctx, name, configuration)
}

func writeQuota(ctx context.Context, s *session, name string, has, p map[string]string) error {
	quota, err := numberOf(p, parameterQuota)
	if err != nil || has[parameterQuota] == strconv.FormatUint(quota, 10) {
		return err
	}
	return s.admin.setQuota(ctx, name, quota)
}

// remove removes a bucket that nothing is in. Nothing is ever removed from one.
func (buckets) remove(ctx context.Context, s *session, name string) error {
	p := map[string]string{}
	if err := readLock(ctx, s, name, p); err != nil && !is(err, notThere...) {
		return err
	}
	if p[parameterLock] == yes {
		return problemf("it has object lock, and is kept: set the deletion policy to Retain, and remove it by hand when " +
			"nothing in it has to be kept any more")
	}
	// What lists goes on until it is told that nobody reads on.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for object := range s.s3.ListObjects(ctx, name,
		miniogo.ListObjectsOptions{Recursive: true, WithVersions: true, MaxKeys: 1}) {
		if object.Err != nil {
			return object.Err
		}
		return problemf("it is not empty: remove its objects and their versions first, or set the deletion policy to Retain")
	}
	err := s.s3.RemoveBucket(ctx, name)
	if is(err, "NoSuchBucket") {
		return nil
	}
	return err
}
