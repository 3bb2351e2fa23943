// SPDX-License-Identifier: Apache-2.0

package minio

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"

	miniogo "github.com/minio/minio-go/v7"

	"github.com/zeroinfra/agents/internal/driver"
	"github.com/zeroinfra/agents/internal/store"
)

// neededRights are what the account of a target has to be allowed, as a person reads them.
const neededRights = "on the bucket s3:GetBucketLocation, s3:ListBucket, s3:GetBucketVersioning, " +
	"s3:GetBucketObjectLockConfiguration and s3:GetEncryptionConfiguration, " +
	"on its objects s3:GetObject, s3:GetObjectVersion, s3:PutObject, s3:DeleteObject, s3:ReplicateObject, " +
	"s3:ReplicateDelete and s3:ReplicateTags"

// preflight says what is in the way of a replication before anything is set: a problem in words that are the same each
// time.
func preflight(ctx context.Context, s *session, bucket string, target remote, endpoint string) error {
	here := map[string]string{}
	if err := errors.Join(readVersioning(ctx, s, bucket, here), readLock(ctx, s, bucket, here)); err != nil {
		return err
	}
	if here[parameterVersioning] != versioningEnabled {
		return problemf("versioning of bucket %q is %s, and only versions are replicated: set versioning to enabled", bucket,
			here[parameterVersioning])
	}
	there, err := s.reach(target, endpoint)
	if err != nil {
		return problem(err.Error())
	}
	defer there.close()
	if err := there.alive(ctx); err != nil {
		return err
	}
	for _, ask := range []func() error{
		func() error { return there.versioned(ctx) },
		func() error { return there.locked(ctx, here[parameterLock]) },
		func() error { return there.encrypted(ctx, s, bucket) },
		func() error { return there.another(ctx, s, bucket) },
	} {
		if err := ask(); err != nil {
			return err
		}
	}
	return nil
}

// away is a target as it is asked before anything goes there.
type away struct {
	*session
	of     store.S3Options
	target remote
}

// reach a target, with the authorities that the servers know: those that everybody knows, that of their own
// certificate, and those that a user supplies.
func (s *session) reach(target remote, endpoint string) (*away, error) {
	a := &away{target: target, of: store.S3Options{
		Endpoint: endpoint, Bucket: target.TargetBucket, Addressing: store.AddressingPath,
		AccessKey: target.Credentials.AccessKey, SecretKey: target.Credentials.SecretKey,
		Bound: driver.Bound,
	}}
	if s.secure() {
		ca, err := os.ReadFile(s.options.CAFile)
		if err != nil {
			return nil, err
		}
		a.of.MoreCA = append(ca, '\n')
	}
	if s.options.TargetCA != nil {
		ca, err := s.options.TargetCA()
		if err != nil {
			return nil, err
		}
		a.of.MoreCA = append(a.of.MoreCA, ca...)
	}
	client, end, err := store.NewClient(a.of)
	if err != nil {
		return nil, err
	}
	a.session = &session{region: region, s3: client, close: end}
	return a, nil
}

// alive says that a MinIO is there: it replicates to no other storage, whose health it could not ask for.
func (a *away) alive(ctx context.Context) error {
	client, end, err := store.NewHTTP(a.of)
	if err != nil {
		return problem(err.Error())
	}
	defer end()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, a.of.Endpoint+"/minio/health/live", nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return problemf("the target is not there: %v", a.of.Said(err))
	}
	response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return problemf("%s is no MinIO that serves, and MinIO replicates to nothing else: its health answers with the "+
			"status %d", a.of.Endpoint, response.StatusCode)
	}
	return nil
}

// refused says in words what a target answers.
func (a *away) refused(err error) error {
	account := a.target.Credentials.AccessKey
	switch {
	case err == nil:
		return nil
	case is(err, "NoSuchBucket"):
		return problemf("the target %s has no bucket %q: make it there, with versioning", a.of.Endpoint,
			a.target.TargetBucket)
	case is(err, "InvalidAccessKeyId"):
		return problemf("the target %s knows no account %q: mend the access key, or make the account there", a.of.Endpoint,
			account)
	case is(err, "SignatureDoesNotMatch"):
		return problemf("the target %s does not take the secret key of the account %q: mend it in its Secret", a.of.Endpoint,
			account)
	case is(err, "AccessDenied"):
		return problemf("the account %q of the target %s may do too little: it needs %s", account, a.of.Endpoint,
			neededRights)
	}
	return problemf("the target cannot be asked: %v", a.of.Said(err))
}

func (a *away) versioned(ctx context.Context) error {
	has := map[string]string{}
	if err := readVersioning(ctx, a.session, a.target.TargetBucket, has); err != nil {
		return a.refused(err)
	}
	if is := has[parameterVersioning]; is != versioningEnabled {
		return problemf("versioning of the bucket %q at the target %s is %s: set it to enabled there", a.target.TargetBucket,
			a.of.Endpoint, is)
	}
	return nil
}

var lockInWords = map[string]string{yes: "has object lock", no: "has no object lock"}

func (a *away) locked(ctx context.Context, here string) error {
	has := map[string]string{}
	if err := readLock(ctx, a.session, a.target.TargetBucket, has); err != nil {
		return a.refused(err)
	}
	if is := has[parameterLock]; is != here {
		return problemf("the bucket %s, and the bucket %q at the target %s %s: both must be the same, which is decided "+
			"when a bucket is made",
			lockInWords[here], a.target.TargetBucket, a.of.Endpoint, lockInWords[is])
	}
	return nil
}

// encrypted refuses a target that encrypts otherwise: an object goes there as the source has it, and is refused there,
// or lies there in the clear.
func (a *away) encrypted(ctx context.Context, s *session, bucket string) error {
	here, err := encryption(ctx, s, bucket)
	if err != nil {
		return err
	}
	there, err := encryption(ctx, a.session, a.target.TargetBucket)
	if err != nil {
		return a.refused(err)
	}
	if here != there {
		return problemf("by default the bucket is encrypted with %s, and the bucket %q at the target %s with %s: set both "+
			"to the same", here, a.target.TargetBucket, a.of.Endpoint, there)
	}
	return nil
}

// encryption of a bucket by default, in words.
func encryption(ctx context.Context, s *session, bucket string) (string, error) {
	configuration, err := s.s3.GetBucketEncryption(ctx, bucket)
	switch {
	case is(err, "ServerSideEncryptionConfigurationNotFoundError"), err == nil && len(configuration.Rules) == 0:
		return "nothing", nil
	case err != nil:
		return "", err
	}
	by := configuration.Rules[0].Apply
	if by.KmsMasterKeyID != "" {
		return fmt.Sprintf("%s and the key %q", by.SSEAlgorithm, by.KmsMasterKeyID), nil
	}
	return by.SSEAlgorithm, nil
}

// another refuses the bucket itself as its target, under whatever address: a bucket of the same name that was made in
// the same millisecond.
func (a *away) another(ctx context.Context, s *session, bucket string) error {
	if a.target.TargetBucket != bucket {
		return nil
	}
	here, err := made(ctx, s, bucket)
	if err != nil {
		return err
	}
	there, err := made(ctx, a.session, bucket)
	if err != nil {
		return a.refused(err)
	}
	if there != nil && here != nil && here.CreationDate.Equal(there.CreationDate) {
		return problemf("the target %s is the bucket %q itself: name another storage, or another bucket", a.of.Endpoint,
			bucket)
	}
	return nil
}

// made tells when a bucket was made; nil where the account is not told.
func made(ctx context.Context, s *session, bucket string) (*miniogo.BucketInfo, error) {
	all, err := s.s3.ListBuckets(ctx)
	if err != nil {
		return nil, err
	}
	for i := range all {
		if all[i].Name == bucket {
			return &all[i], nil
		}
	}
	return nil, nil
}
