// SPDX-License-Identifier: Apache-2.0

//go:build processes

package minio_test

import (
	"context"
	"crypto/x509"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zeroinfra/agents/internal/driver"
	"github.com/zeroinfra/agents/internal/driver/minio"
	"github.com/zeroinfra/agents/internal/testpki"
	"github.com/zeroinfra/agents/internal/teststorage"
	"github.com/zeroinfra/platform-core/agentproto/plan"
)

// elsewhere is a storage as a pod knows one that is not its own: by an address, an account and an authority.
type elsewhere struct {
	endpoint, region, account, key string
	ca                             []byte
}

func (e elsewhere) external() minio.External {
	texts := map[string]string{"account": e.account, "key": e.key + "\n", "ca": string(e.ca)}
	ref := func(name string) *plan.SecretRef { return &plan.SecretRef{Credential: name, Key: "password"} }
	return minio.External{
		Settings: map[string]string{plan.SettingEndpoint: e.endpoint, plan.SettingRegion: e.region,
			plan.SettingAddressing: "path"},
		Account: ref("account"), Key: ref("key"), CA: ref("ca"),
		Secret: func(ref plan.SecretRef) (string, error) { return texts[ref.Credential], nil },
	}
}

// externalMinIO is a MinIO that is not in the pod, and the way of its own administrator to it.
func externalMinIO(t *testing.T) (elsewhere, *storage) {
	t.Helper()
	s := newStorage(t)
	ca, err := os.ReadFile(filepath.Join(s.Dir, "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	at := elsewhere{endpoint: "https://" + s.Address, region: "us-east-1", account: root, key: rootKey, ca: ca}
	s.Driver = minio.NewExternal(at.external())
	return at, s
}

// s3Bucket is a bucket in the words of the driver for a storage elsewhere.
func s3Bucket(with ...string) map[string]string {
	p := bucket(with...)
	delete(p, "quota")
	return p
}

func TestBucketsOfAnExternalMinIOAreKept(t *testing.T) {
	_, s := externalMinIO(t)
	const lifecycle = `[{"name":"old","prefix":"logs/","expireDays":30},{"name":"versions","noncurrentDays":7}]`
	plain := s3Bucket()
	s.done(minio.KindBucket, "first", "", driver.Create, plain)
	s.has(minio.KindBucket, "first", "", plain)
	full := s3Bucket("versioning", "enabled", "access", "download", "lifecycle", lifecycle)
	s.done(minio.KindBucket, "first", "", driver.Update, full)
	s.has(minio.KindBucket, "first", "", full)

	t.Log("what somebody else changes is seen, and put right")
	by := s.as(root, rootKey)
	err := errors.Join(by.SetBucketPolicy(t.Context(), "first", ""), by.SuspendVersioning(t.Context(), "first"))
	if err != nil {
		t.Fatal(err)
	}
	s.has(minio.KindBucket, "first", "", map[string]string{"access": "none", "versioning": "suspended"})
	s.done(minio.KindBucket, "first", "", driver.Update, full)
	s.has(minio.KindBucket, "first", "", full)

	t.Log("what is not S3's is not known")
	if problem := s.change(minio.KindBucket, "first", "", driver.Update,
		bucket("versioning", "enabled")); !strings.Contains(problem, `parameter "quota" is not known`) {
		t.Errorf("a quota gives %q", problem)
	}
	if got := s.Kinds(); !slices.Equal(got, []string{minio.KindBucket}) {
		t.Errorf("it keeps %v", got)
	}

	t.Log("a bucket goes once it is empty")
	if err := s.put(by, "first", "a", "text"); err != nil {
		t.Fatal(err)
	}
	problem := s.change(minio.KindBucket, "first", "", driver.Delete, nil)
	if !strings.Contains(problem, "it is not empty") {
		t.Errorf("one with an object gives %q", problem)
	}
	s.done(minio.KindBucket, "locked", "", driver.Create,
		s3Bucket("versioning", "enabled", "object-lock", "yes", "retention-mode", "governance", "retention-days", "1"))
	if problem := s.change(minio.KindBucket, "locked", "", driver.Delete, nil); !strings.Contains(problem,
		"it has object lock") {
		t.Errorf("one with object lock gives %q", problem)
	}
	s.done(minio.KindBucket, "second", "", driver.Create, plain)
	s.done(minio.KindBucket, "second", "", driver.Delete, nil)
	if s.read(minio.KindBucket, "second", "") != nil {
		t.Error("an empty one is there still")
	}
}

// TestBucketsThatTheAccountMayNotRead are there, and are left alone; those beside them are kept.
func TestBucketsThatTheAccountMayNotRead(t *testing.T) {
	at, s := externalMinIO(t)
	for _, name := range []string{"mine", "theirs"} {
		s.done(minio.KindBucket, name, "", driver.Create, s3Bucket())
	}
	own := minio.New(minio.Options{Address: s.Address, CAFile: filepath.Join(s.Dir, "ca.crt"), Username: root,
		Password: func() (string, error) { return rootKey, nil }})
	for kind, change := range map[string]driver.Change{
		minio.KindPolicy: {Query: driver.Query{Name: "mine"}, Intent: driver.Create, Parameters: map[string]string{
			"document": `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":["s3:*"],` +
				`"Resource":["arn:aws:s3:::mine","arn:aws:s3:::mine/*"]}]}`}},
		minio.KindUser: {Query: driver.Query{Name: "limited", Password: "limited-secret"}, Intent: driver.Create,
			Parameters: map[string]string{"enabled": "yes", "policies": ""}},
	} {
		if problems, err := own.Change(t.Context(), kind, []driver.Change{change}); err != nil || len(problems) > 0 {
			t.Fatal(problems, err)
		}
	}
	if problems, err := own.Change(t.Context(), minio.KindUser,
		[]driver.Change{{Query: driver.Query{Name: "limited", Password: "limited-secret"}, Intent: driver.Update,
			Parameters: map[string]string{"enabled": "yes", "policies": "mine"}}}); err != nil || len(problems) > 0 {
		t.Fatal(problems, err)
	}
	at.account, at.key = "limited", "limited-secret"
	if err := at.external().Check(t.Context()); err != nil {
		t.Errorf("an account that may do little: %v", err)
	}
	limited := minio.NewExternal(at.external())
	states, err := limited.Observe(t.Context(), minio.KindBucket, []driver.Query{{Name: "theirs"}, {Name: "mine"}})
	if err != nil || len(states) != 2 || states[0].Parameters != nil || states[1].Parameters["versioning"] != "off" {
		t.Fatalf("got %+v, %v", states, err)
	}
	problems, err := limited.Change(t.Context(), minio.KindBucket, []driver.Change{
		{Query: driver.Query{Name: "theirs"}, Intent: driver.Update, Parameters: s3Bucket("versioning", "enabled")},
		{Query: driver.Query{Name: "mine"}, Intent: driver.Update, Parameters: s3Bucket("versioning", "enabled")},
	})
	if err != nil || len(problems) != 1 || !strings.Contains(problems["theirs"], "the account may not read what it is") {
		t.Errorf("got %v, %v", problems, err)
	}
	s.has(minio.KindBucket, "theirs", "", map[string]string{"versioning": "off"})
	s.has(minio.KindBucket, "mine", "", map[string]string{"versioning": "enabled"})
}

// TestBucketsOfAStorageThatKnowsLess: versitygw has no lifecycle rules. What it has is kept, and what it has not is
// refused in its words.
func TestBucketsOfAStorageThatKnowsLess(t *testing.T) {
	server := teststorage.NewVersioned(t)
	at := elsewhere{endpoint: server.Endpoint(), region: teststorage.Region, account: teststorage.Account,
		key: teststorage.SecretKey, ca: server.CA.PEM()}
	s := &storage{T: t, Driver: minio.NewExternal(at.external())}
	full := s3Bucket("versioning", "enabled", "access", "download")
	s.done(minio.KindBucket, "first", "", driver.Create, full)
	s.has(minio.KindBucket, "first", "", full)
	if problem := s.change(minio.KindBucket, "first", "", driver.Update,
		s3Bucket("versioning", "enabled", "access", "download", "lifecycle",
			`[{"name":"a","expireDays":1}]`)); !strings.Contains(problem, "the storage refuses it") {
		t.Errorf("a lifecycle rule gives %q", problem)
	}
	s.done(minio.KindBucket, "first", "", driver.Update, s3Bucket("versioning", "suspended"))
	s.has(minio.KindBucket, "first", "", s3Bucket("versioning", "suspended"))
	locked := s3Bucket("versioning", "enabled", "object-lock", "yes", "retention-mode", "compliance", "retention-days",
		"2")
	s.done(minio.KindBucket, "locked", "", driver.Create, locked)
	s.has(minio.KindBucket, "locked", "", locked)
	s.done(minio.KindBucket, "first", "", driver.Delete, nil)
	if s.read(minio.KindBucket, "first", "") != nil {
		t.Error("it is there still")
	}
}

// TestAnExternalStorageIsChecked: what is wrong is told, each in words that are the same at every attempt.
func TestAnExternalStorageIsChecked(t *testing.T) {
	_, s := externalMinIO(t)
	ca, err := os.ReadFile(filepath.Join(s.Dir, "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	good := elsewhere{endpoint: "https://" + s.Address, region: "us-east-1", account: root, key: rootKey, ca: ca}
	versity := teststorage.New(t)
	gateway := elsewhere{endpoint: versity.Endpoint(), region: teststorage.Region, account: teststorage.Account,
		key: teststorage.SecretKey, ca: versity.CA.PEM()}
	other := testpki.New(t)
	other.Issue(t, testpki.Leaf{Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	with := func(e elsewhere, change func(*elsewhere)) elsewhere {
		change(&e)
		return e
	}
	for title, c := range map[string]struct {
		at   elsewhere
		want string
		keys bool
	}{
		"MinIO":     {at: good},
		"versitygw": {at: gateway},
		"another key": {at: with(good, func(e *elsewhere) { e.key = "another-key" }), want: "SignatureDoesNotMatch",
			keys: true},
		"nobody's account": {at: with(good, func(e *elsewhere) { e.account = "nobody" }), want: "InvalidAccessKeyId",
			keys: true},
		"versitygw, other key": {at: with(gateway, func(e *elsewhere) { e.key = "another-key" }),
			want: "SignatureDoesNotMatch", keys: true},
		"another region": {at: with(gateway, func(e *elsewhere) { e.region = "us-west-7" }),
			want: "AuthorizationHeaderMalformed", keys: true},
		"nobody there": {at: with(good, func(e *elsewhere) { e.endpoint = "https://127.0.0.1:1" }),
			want: "cannot be reached"},
		"another authority": {at: with(good, func(e *elsewhere) { e.ca = other.PEM() }), want: "certificate"},
		"no authority": {at: with(good, func(e *elsewhere) { e.ca = []byte("none") }),
			want: "no certificate in PEM"},
		"plain HTTP": {at: with(good, func(e *elsewhere) { e.endpoint = "http://" + s.Address }), want: "http://"},
		"no URL of a host only": {at: with(good, func(e *elsewhere) { e.endpoint = "https://" + s.Address + "/path" }),
			want: "is no URL such as"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		err := c.at.external().Check(ctx)
		cancel()
		if c.want == "" {
			if err != nil {
				t.Errorf("%s: %v", title, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), c.at.key) {
			t.Errorf("%s: got %v, want %q", title, err, c.want)
		}
		if errors.Is(err, minio.ErrKeys) != c.keys {
			t.Errorf("%s: the account is to blame: %v", title, !c.keys)
		}
		if again := c.at.external().Check(t.Context()); again == nil || again.Error() != err.Error() {
			t.Errorf("%s: told at first %q, and then %v", title, err, again)
		}
	}
}
