// SPDX-License-Identifier: Apache-2.0

//go:build processes

package minio_test

import (
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	miniogo "github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/replication"
	"github.com/minio/minio-go/v7/pkg/sse"

	"github.com/zeroinfra/agents/internal/driver"
	"github.com/zeroinfra/agents/internal/driver/minio"
	"github.com/zeroinfra/agents/internal/testpki"
	"github.com/zeroinfra/agents/internal/testpod"
	"github.com/zeroinfra/agents/internal/teststorage"
)

// pair is two storages that know each other's authority, with a versioned bucket in each.
type pair struct {
	*testing.T
	here, there *storage
}

const (
	sourceBucket = "source"
	copyBucket   = "copy"
	ruleName     = sourceBucket + "/offsite"
)

func newPair(t *testing.T) pair {
	t.Helper()
	ca := testpki.New(t)
	p := pair{T: t, here: newStorageBy(t, ca), there: newStorageBy(t, ca)}
	p.here.done(minio.KindBucket, sourceBucket, "", driver.Create, bucket("versioning", "enabled"))
	p.there.done(minio.KindBucket, copyBucket, "", driver.Create, bucket("versioning", "enabled"))
	return p
}

// rule is a replication to the other storage in the words of the driver.
func (p pair) rule(with ...string) map[string]string {
	all := map[string]string{"endpoint": "https://" + p.there.Address, "target-bucket": copyBucket, "access-key": root,
		"prefix": "", "delete-markers": "no", "deletes": "no",
		"existing-objects": "no", "bandwidth": "0", "synchronous": "no"}
	for i := 0; i < len(with); i += 2 {
		all[with[i]] = with[i+1]
	}
	return all
}

// copied waits until the target has an object with this text.
func (p pair) copied(name, text string) {
	p.Helper()
	client := p.there.as(root, rootKey)
	testpod.Eventually(p.T, func() error {
		object, err := client.GetObject(p.Context(), copyBucket, name, miniogo.GetObjectOptions{})
		if err != nil {
			return err
		}
		defer object.Close()
		has, err := io.ReadAll(object)
		if err == nil && string(has) != text {
			err = fmt.Errorf("the copy of %q is %q", name, has)
		}
		return err
	})
}

// absent says that the target does not have an object.
func (p pair) absent(name string) error {
	_, err := p.there.as(root, rootKey).StatObject(p.Context(), copyBucket, name, miniogo.StatObjectOptions{})
	switch {
	case err == nil:
		return fmt.Errorf("%q is there", name)
	case miniogo.ToErrorResponse(err).StatusCode == 404:
		return nil
	}
	return err
}

func (p pair) write(name, text string) {
	p.Helper()
	if err := p.here.put(p.here.as(root, rootKey), sourceBucket, name, text); err != nil {
		p.Fatal(err)
	}
}

// counts waits until a fact is at least so much.
func (p pair) counts(fact string, atLeast int) {
	p.Helper()
	testpod.Eventually(p.T, func() error {
		has := p.here.read(minio.KindReplication, ruleName, rootKey).Facts
		if n, err := strconv.Atoi(has[fact]); err != nil || n < atLeast {
			return fmt.Errorf("%s of %v: want %d, %v", fact, has, atLeast, err)
		}
		return nil
	})
}

func TestBucketsAreReplicated(t *testing.T) {
	p := newPair(t)
	p.write("before", "1")
	p.write("logs/before", "2")
	all := p.rule()
	p.here.done(minio.KindReplication, ruleName, rootKey, driver.Create, all)
	p.here.has(minio.KindReplication, ruleName, rootKey, all)
	p.write("after", "3")
	p.copied("after", "3")
	p.counts("replicated-objects", 1)
	if err := p.absent("before"); err != nil {
		t.Errorf("what was there before went without being asked for: %v", err)
	}

	t.Log("what was there before, and all that can be said")
	full := p.rule("prefix", "logs/", "delete-markers", "yes", "deletes", "yes", "existing-objects", "yes", "bandwidth",
		"200000000", "synchronous", "yes")
	p.here.done(minio.KindReplication, ruleName, rootKey, driver.Update, full)
	p.here.has(minio.KindReplication, ruleName, rootKey, full)
	p.copied("logs/before", "2")
	testpod.Eventually(t, func() error {
		if state := p.here.read(minio.KindReplication, ruleName, rootKey).Facts["existing-objects"]; state != "Completed" {
			return fmt.Errorf("what was there before is %q", state)
		}
		return nil
	})
	p.write("logs/after", "4")
	// Who writes waits for the target.
	if _, err := p.there.as(root, rootKey).StatObject(t.Context(), copyBucket, "logs/after",
		miniogo.StatObjectOptions{}); err != nil {
		t.Errorf("it was written, and is not there: %v", err)
	}
	p.write("other", "5")
	by := p.here.as(root, rootKey)
	if err := by.RemoveObject(t.Context(), sourceBucket, "logs/before", miniogo.RemoveObjectOptions{}); err != nil {
		t.Fatal(err)
	}
	testpod.Eventually(t, func() error { return p.absent("logs/before") })
	object, err := by.StatObject(t.Context(), sourceBucket, "logs/after", miniogo.StatObjectOptions{})
	if err == nil {
		err = by.RemoveObject(t.Context(), sourceBucket, "logs/after",
			miniogo.RemoveObjectOptions{VersionID: object.VersionID})
	}
	if err != nil {
		t.Fatal(err)
	}
	testpod.Eventually(t, func() error {
		_, err := p.there.as(root, rootKey).StatObject(t.Context(), copyBucket, "logs/after",
			miniogo.StatObjectOptions{VersionID: object.VersionID})
		if miniogo.ToErrorResponse(err).StatusCode == 404 {
			return nil
		}
		return fmt.Errorf("the version is there: %v", err)
	})
	if err := p.absent("other"); err != nil {
		t.Errorf("it has another prefix: %v", err)
	}
	p.here.done(minio.KindReplication, ruleName, rootKey, driver.Update, p.rule("existing-objects", "yes"))
	p.here.has(minio.KindReplication, ruleName, rootKey, p.rule("existing-objects", "yes"))
	p.copied("other", "5")

	t.Log("taken out, the rule and its target go")
	p.here.done(minio.KindReplication, ruleName, "", driver.Delete, nil)
	if state := p.here.read(minio.KindReplication, ruleName, rootKey); state != nil {
		t.Errorf("it is there: %v", state)
	}
	p.targets(0)
	p.here.done(minio.KindReplication, ruleName, rootKey, driver.Create, p.rule())
	p.targets(1)
}

// targets fails the test where the source has another number of targets, or of rules.
func (p pair) targets(want int) {
	p.Helper()
	config, err := p.here.as(root, rootKey).GetBucketReplication(p.Context(), sourceBucket)
	if err != nil {
		p.Fatal(err)
	}
	n, err := p.here.Targets(p.Context(), sourceBucket)
	if err != nil {
		p.Fatal(err)
	}
	if n != want || len(config.Rules) != want {
		p.Errorf("the bucket has %d rules and %d targets, want %d", len(config.Rules), n, want)
	}
}

func TestBucketsThatAreEachOthersTarget(t *testing.T) {
	p := newPair(t)
	back := pair{T: t, here: p.there, there: p.here}
	p.here.done(minio.KindReplication, ruleName, rootKey, driver.Create, p.rule("delete-markers", "yes"))
	const backRule = copyBucket + "/back"
	p.there.done(minio.KindReplication, backRule, rootKey, driver.Create,
		back.rule("target-bucket", sourceBucket, "delete-markers", "yes"))
	p.write("here", "1")
	p.copied("here", "1")
	if err := p.there.put(p.there.as(root, rootKey), copyBucket, "there", "2"); err != nil {
		t.Fatal(err)
	}
	testpod.Eventually(t, func() error {
		_, err := p.here.as(root, rootKey).StatObject(t.Context(), sourceBucket, "there", miniogo.StatObjectOptions{})
		return err
	})
	if err := p.there.as(root, rootKey).RemoveObject(t.Context(), copyBucket, "here",
		miniogo.RemoveObjectOptions{}); err != nil {
		t.Fatal(err)
	}
	testpod.Eventually(t, func() error {
		_, err := p.here.as(root, rootKey).StatObject(t.Context(), sourceBucket, "here", miniogo.StatObjectOptions{})
		if miniogo.ToErrorResponse(err).StatusCode == 404 {
			return nil
		}
		return fmt.Errorf("it is there: %v", err)
	})
	p.here.has(minio.KindReplication, ruleName, rootKey, p.rule("delete-markers", "yes"))
}

func TestBucketsCatchUpWithATargetThatWasAway(t *testing.T) {
	p := newPair(t)
	p.here.done(minio.KindReplication, ruleName, rootKey, driver.Create, p.rule())
	p.write("first", "1")
	p.copied("first", "1")
	p.there.Kill()
	for i := range 5 {
		p.write(fmt.Sprintf("away-%d", i), strconv.Itoa(i))
	}
	p.counts("failed-attempts", 1)
	testpod.Eventually(t, func() error {
		if online := p.here.read(minio.KindReplication, ruleName, rootKey).Facts["online"]; online != "no" {
			return fmt.Errorf("the target is online: %s", online)
		}
		return nil
	})
	// It is as asked all the while.
	p.here.has(minio.KindReplication, ruleName, rootKey, p.rule())
	p.there.start()
	for i := range 5 {
		p.copied(fmt.Sprintf("away-%d", i), strconv.Itoa(i))
	}
	testpod.Eventually(t, func() error {
		if online := p.here.read(minio.KindReplication, ruleName, rootKey).Facts["online"]; online != "yes" {
			return fmt.Errorf("the target is online: %s", online)
		}
		return nil
	})
}

func TestBucketsWhoseReplicationSomebodyChanged(t *testing.T) {
	p := newPair(t)
	wanted := p.rule("existing-objects", "yes")
	p.here.done(minio.KindReplication, ruleName, rootKey, driver.Create, wanted)
	by := p.here.as(root, rootKey)
	config, err := by.GetBucketReplication(t.Context(), sourceBucket)
	if err != nil {
		t.Fatal(err)
	}

	t.Log("turned off")
	config.Rules[0].Status = replication.Disabled
	if err := by.SetBucketReplication(t.Context(), sourceBucket, config); err != nil {
		t.Fatal(err)
	}
	if state := p.here.read(minio.KindReplication, ruleName, rootKey); state.Parameters["prefix"] == "" {
		t.Error("nobody sees that it is off")
	}
	p.here.done(minio.KindReplication, ruleName, rootKey, driver.Update, wanted)
	p.here.has(minio.KindReplication, ruleName, rootKey, wanted)

	t.Log("removed, and what was written meanwhile goes there still")
	if err := by.RemoveBucketReplication(t.Context(), sourceBucket); err != nil {
		t.Fatal(err)
	}
	p.write("between", "1")
	if state := p.here.read(minio.KindReplication, ruleName, rootKey); state != nil {
		t.Errorf("it is there: %v", state)
	}
	p.here.done(minio.KindReplication, ruleName, rootKey, driver.Create, wanted)
	p.here.has(minio.KindReplication, ruleName, rootKey, wanted)
	p.copied("between", "1")

	t.Log("the account has another key")
	user := map[string]string{"enabled": "yes", "policies": "readwrite"}
	p.there.done(minio.KindUser, "replicator", "first-secret", driver.Create, user)
	wanted["access-key"] = "replicator"
	p.here.done(minio.KindReplication, ruleName, "first-secret", driver.Update, wanted)
	p.here.has(minio.KindReplication, ruleName, "first-secret", wanted)
	p.there.done(minio.KindUser, "replicator", "second-secret", driver.Update, user)
	if state := p.here.read(minio.KindReplication, ruleName, "second-secret"); state.Password != driver.OtherPassword {
		t.Error("nobody sees that it has the key of before")
	}
	p.here.done(minio.KindReplication, ruleName, "second-secret", driver.Update, wanted)
	if state := p.here.read(minio.KindReplication, ruleName, "second-secret"); state.Password != driver.SamePassword {
		t.Error("it does not have the new key")
	}
	p.write("rotated", "2")
	p.copied("rotated", "2")

	if problem := p.here.change(minio.KindReplication, sourceBucket+"/second", rootKey, driver.Create,
		p.rule()); !strings.Contains(problem, "another rule of bucket") {
		t.Errorf("two rules for one address: %q", problem)
	}
}

func TestBucketsWithSeveralTargets(t *testing.T) {
	ca := testpki.New(t)
	p := pair{T: t, here: newStorageBy(t, ca), there: newStorageBy(t, ca)}
	third := pair{T: t, here: p.here, there: newStorageBy(t, ca)}
	p.here.done(minio.KindBucket, sourceBucket, "", driver.Create, bucket("versioning", "enabled"))
	for _, to := range []pair{p, third} {
		to.there.done(minio.KindBucket, copyBucket, "", driver.Create, bucket("versioning", "enabled"))
	}
	const other = sourceBucket + "/other"
	p.here.done(minio.KindReplication, ruleName, rootKey, driver.Create, p.rule())
	p.here.done(minio.KindReplication, other, rootKey, driver.Create, third.rule("prefix", "logs/"))
	p.targets(2)
	p.here.has(minio.KindReplication, ruleName, rootKey, p.rule())
	p.here.has(minio.KindReplication, other, rootKey, third.rule("prefix", "logs/"))
	p.write("logs/both", "1")
	p.copied("logs/both", "1")
	third.copied("logs/both", "1")
	p.here.done(minio.KindReplication, ruleName, "", driver.Delete, nil)
	p.targets(1)
	p.here.has(minio.KindReplication, other, rootKey, third.rule("prefix", "logs/"))
	p.write("logs/one", "2")
	third.copied("logs/one", "2")
	if err := p.absent("logs/one"); err != nil {
		t.Errorf("its rule was taken out: %v", err)
	}

	t.Log("somebody has removed a rule and left its target, which goes with the next rule that is taken out")
	p.here.done(minio.KindReplication, ruleName, rootKey, driver.Create, p.rule())
	forth := pair{T: t, here: p.here, there: newStorageBy(t, ca)}
	forth.there.done(minio.KindBucket, copyBucket, "", driver.Create, bucket("versioning", "enabled"))
	p.here.done(minio.KindReplication, sourceBucket+"/forth", rootKey, driver.Create, forth.rule())
	by := p.here.as(root, rootKey)
	config, err := by.GetBucketReplication(t.Context(), sourceBucket)
	if err != nil {
		t.Fatal(err)
	}
	config.Rules = slices.DeleteFunc(config.Rules, func(rule replication.Rule) bool { return rule.ID == "forth" })
	if err := by.SetBucketReplication(t.Context(), sourceBucket, config); err != nil {
		t.Fatal(err)
	}
	p.here.done(minio.KindReplication, ruleName, "", driver.Delete, nil)
	p.targets(1)
	p.here.has(minio.KindReplication, other, rootKey, third.rule("prefix", "logs/"))
}

func TestBucketsThatCannotBeReplicatedSaySo(t *testing.T) {
	p := newPair(t)
	gateway := teststorage.NewVersioned(t)
	p.there.done(minio.KindBucket, "plain", "", driver.Create, bucket())
	p.there.done(minio.KindBucket, "locked", "", driver.Create, bucket("versioning", "enabled", "object-lock", "yes"))
	p.there.done(minio.KindBucket, "other", "", driver.Create, bucket("versioning", "enabled"))
	p.there.done(minio.KindUser, "nobody", "secret-of-nobody", driver.Create,
		map[string]string{"enabled": "yes", "policies": ""})
	p.here.done(minio.KindBucket, "unversioned", "", driver.Create, bucket())
	p.here.done(minio.KindBucket, "kept", "", driver.Create, bucket("versioning", "enabled", "object-lock", "yes"))
	for _, c := range []struct{ name, key, want string }{
		{ruleName, "not-the-secret-key", "does not take the secret key"},
		{"unversioned/offsite", rootKey, `versioning of bucket "unversioned" is off`},
		{"absent/offsite", rootKey, `there is no bucket "absent" here`},
		{"kept/offsite", rootKey, "the bucket has object lock, and the bucket \"copy\""},
		{sourceBucket, rootKey, "it must be the name of a bucket, a slash"},
		{ruleName, "", "the target needs an account"},
	} {
		problem := p.here.change(minio.KindReplication, c.name, c.key, driver.Create, p.rule())
		if !strings.Contains(problem, c.want) {
			t.Errorf("%s: got %q, want %q", c.name, problem, c.want)
		}
	}
	for _, c := range []struct {
		with []string
		want string
	}{
		{[]string{"target-bucket", "none"}, `has no bucket "none"`},
		{[]string{"target-bucket", "plain"}, `versioning of the bucket "plain" at the target`},
		{[]string{"target-bucket", "locked"}, "the bucket has no object lock, and the bucket \"locked\""},
		{[]string{"access-key", "stranger"}, `knows no account "stranger"`},
		{[]string{"endpoint", ""}, "is not there, or has no endpoint yet"},
		{[]string{"endpoint", "https://127.0.0.1:1"}, "the target is not there"},
		{[]string{"endpoint", "https://" + gateway.Address}, "certificate signed by unknown authority"},
		{[]string{"endpoint", "https://" + p.here.Address, "target-bucket", sourceBucket}, "itself"},
		{[]string{"bandwidth", "1000"}, "no less than 100000000"},
		{[]string{"synchronous", "maybe"}, "must be one of"},
		{[]string{"more", "yes"}, `parameter "more" is not known`},
	} {
		if problem := p.here.change(minio.KindReplication, ruleName, rootKey, driver.Create,
			p.rule(c.with...)); !strings.Contains(problem, c.want) {
			t.Errorf("%v: got %q, want %q", c.with, problem, c.want)
		}
	}
	if problem := p.here.change(minio.KindReplication, ruleName, "secret-of-nobody", driver.Create,
		p.rule("access-key", "nobody")); !strings.Contains(problem, "may do too little") {
		t.Errorf("an account without rights: %q", problem)
	}
	// Nothing was set.
	if state := p.here.read(minio.KindReplication, ruleName, rootKey); state != nil {
		t.Errorf("it is there: %v", state)
	}
}

func TestBucketsThatAreEncryptedOtherwise(t *testing.T) {
	p := newPair(t)
	p.there.Kill()
	p.there.Env = []string{"MINIO_KMS_SECRET_KEY=key:" + base64.StdEncoding.EncodeToString(make([]byte, 32))}
	p.there.start()
	by := p.there.as(root, rootKey)
	if err := by.SetBucketEncryption(t.Context(), copyBucket, sse.NewConfigurationSSES3()); err != nil {
		t.Fatal(err)
	}
	problem := p.here.change(minio.KindReplication, ruleName, rootKey, driver.Create, p.rule())
	if !strings.Contains(problem, "by default the bucket is encrypted with nothing, and the bucket \"copy\"") ||
		!strings.Contains(problem, "with AES256") {
		t.Errorf("got %q", problem)
	}
	if err := by.RemoveBucketEncryption(t.Context(), copyBucket); err != nil {
		t.Fatal(err)
	}
	p.here.done(minio.KindReplication, ruleName, rootKey, driver.Create, p.rule())
}

func TestBucketsGoToATargetOfAnotherAuthority(t *testing.T) {
	theirs := testpki.New(t)
	p := pair{T: t, here: newStorage(t), there: newStorageBy(t, theirs)}
	p.here.done(minio.KindBucket, sourceBucket, "", driver.Create, bucket("versioning", "enabled"))
	p.there.done(minio.KindBucket, copyBucket, "", driver.Create, bucket("versioning", "enabled"))
	problem := p.here.change(minio.KindReplication, ruleName, rootKey, driver.Create, p.rule())
	if !strings.Contains(problem, "certificate signed by unknown authority") {
		t.Errorf("got %q", problem)
	}
	trusted := t.TempDir()
	if err := os.WriteFile(filepath.Join(trusted, "password"), theirs.PEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	p.here.Kill()
	p.here.Env = []string{"SSL_CERT_DIR=/etc/ssl/certs:" + trusted}
	p.here.Driver = minio.New(minio.Options{Address: p.here.Address, CAFile: filepath.Join(p.here.Dir, "ca.crt"),
		Username: root, Password: func() (string, error) { return rootKey, nil },
		TargetCA: func() (string, error) { return string(theirs.PEM()), nil }})
	p.here.start()
	p.here.done(minio.KindReplication, ruleName, rootKey, driver.Create, p.rule())
	p.write("a", "1")
	p.copied("a", "1")
}

func TestBucketsGoToNothingButMinIO(t *testing.T) {
	gateway := teststorage.NewVersioned(t)
	here := newStorageBy(t, gateway.CA)
	here.done(minio.KindBucket, sourceBucket, "", driver.Create, bucket("versioning", "enabled"))
	p := pair{T: t, here: here, there: here}
	to := p.rule("endpoint", "https://"+gateway.Address, "target-bucket", teststorage.Bucket, "access-key",
		teststorage.Account)
	if problem := here.change(minio.KindReplication, ruleName, teststorage.SecretKey, driver.Create,
		to); !strings.Contains(problem, "MinIO replicates to nothing else") {
		t.Errorf("got %q", problem)
	}
	if kinds := here.Kinds(); !slices.Contains(kinds, minio.KindReplication) {
		t.Errorf("known are %v", kinds)
	}
}
