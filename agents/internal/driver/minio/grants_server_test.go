// SPDX-License-Identifier: Apache-2.0

//go:build processes

package minio_test

import (
	"strings"
	"testing"

	miniogo "github.com/minio/minio-go/v7"

	"github.com/zeroinfra/agents/internal/driver"
	"github.com/zeroinfra/agents/internal/driver/minio"
)

const (
	granted    = "granted"
	grantedKey = "granted-secret-key"
	// everything is a policy that grants cannot be.
	everything = `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":["s3:*"],` +
		`"Resource":["arn:aws:s3:::*"]}]}`
)

// grants are the parameters of a user who has some.
func grants(text string, policies ...string) map[string]string {
	return map[string]string{"enabled": "yes", "grants": text, "policies": strings.Join(policies, " ")}
}

// may says what a user can do with an object of a bucket.
func (s *storage) may(bucket, name string) string {
	s.Helper()
	client, can := s.as(granted, grantedKey), []string{}
	for object := range client.ListObjects(s.Context(), bucket, miniogo.ListObjectsOptions{Prefix: name}) {
		if object.Err == nil {
			can = append(can, "list")
		}
	}
	if _, err := client.StatObject(s.Context(), bucket, name, miniogo.StatObjectOptions{}); err == nil {
		can = append(can, "read")
	}
	if s.put(client, bucket, name, "text") == nil {
		can = append(can, "write")
	}
	if client.RemoveObject(s.Context(), bucket, name, miniogo.RemoveObjectOptions{}) == nil {
		can = append(can, "remove")
		if err := s.put(s.as(root, rootKey), bucket, name, "text"); err != nil {
			s.Fatal(err)
		}
	}
	return strings.Join(can, " ")
}

func TestStorageUsersMayWhatTheirGrantsSay(t *testing.T) {
	s := newStorage(t)
	for _, name := range []string{"custom", "full", "plain"} {
		s.done(minio.KindBucket, name, "", driver.Create, bucket())
		for _, object := range []string{"mine/a", "other/a"} {
			if err := s.put(s.as(root, rootKey), name, object, "text"); err != nil {
				t.Fatal(err)
			}
		}
	}
	may := func(want map[string]string) {
		t.Helper()
		for at, can := range want {
			bucket, name, _ := strings.Cut(at, "/")
			if got := s.may(bucket, name); got != can {
				t.Errorf("%s: it may %s, want %s", at, got, can)
			}
		}
	}
	for access, can := range map[string]string{"Read": "list read", "Write": "write",
		"ReadWrite": "list read write remove"} {
		t.Log(access + " of some objects of a bucket, and of all of another one")
		p := grants(`[{"bucket":"full","access":"` + access + `","prefix":"mine/"},` +
			`{"bucket":"plain","access":"` + access + `"}]`)
		s.done(minio.KindUser, granted, grantedKey, driver.Update, p)
		s.has(minio.KindUser, granted, grantedKey, p)
		may(map[string]string{"full/mine/a": can, "full/other/a": "", "plain/other/a": can, "custom/mine/a": ""})
	}

	t.Log("with a policy beside them, and by itself")
	both := grants(`[{"bucket":"full","access":"Write"}]`, "readonly")
	s.done(minio.KindUser, granted, grantedKey, driver.Update, both)
	s.has(minio.KindUser, granted, grantedKey, both)
	may(map[string]string{"full/other/a": "read write", "plain/other/a": "read"})
	alone := grants("", "readonly")
	s.done(minio.KindUser, granted, grantedKey, driver.Update, alone)
	s.has(minio.KindUser, granted, grantedKey, alone)
	may(map[string]string{"full/other/a": "read"})
	if s.read(minio.KindPolicy, "granted.grants", "") != nil {
		t.Error("the policy of grants that were taken away is there still")
	}
}

func TestGrantsThatSomebodyChangedAreSeenToDiffer(t *testing.T) {
	s := newStorage(t)
	s.done(minio.KindBucket, "plain", "", driver.Create, bucket())
	wanted := grants(`[{"bucket":"plain","access":"Read"}]`)
	s.done(minio.KindUser, granted, grantedKey, driver.Create, wanted)
	for title, change := range map[string]func() error{
		"more than grants can": func() error {
			return s.SetPolicy(t.Context(), "granted.grants", everything)
		},
		"a policy that the user does not have": func() error { return s.SetPolicies(t.Context(), granted, "readonly") },
	} {
		if err := change(); err != nil {
			t.Fatal(err)
		}
		s.has(minio.KindUser, granted, grantedKey, map[string]string{"grants": "?"})
		s.done(minio.KindUser, granted, grantedKey, driver.Update, wanted)
		s.has(minio.KindUser, granted, grantedKey, wanted)
		if t.Failed() {
			t.Fatal(title)
		}
	}

	t.Log("a user who cannot log in has its grants when it can")
	off := grants(wanted["grants"])
	off["enabled"] = "no"
	s.done(minio.KindUser, granted, grantedKey, driver.Update, off)
	s.has(minio.KindUser, granted, grantedKey, off)
	s.done(minio.KindUser, granted, grantedKey, driver.Update, wanted)
	s.has(minio.KindUser, granted, grantedKey, wanted)

	t.Log("what was granted goes with the user, also with one who cannot log in")
	s.done(minio.KindUser, granted, grantedKey, driver.Update, off)
	s.done(minio.KindUser, granted, "", driver.Delete, nil)
	if s.read(minio.KindUser, granted, "") != nil || s.read(minio.KindPolicy, "granted.grants", "") != nil {
		t.Error("the user or what was granted is there still")
	}

	t.Log("what an earlier call left is put right")
	if err := s.SetPolicy(t.Context(), "granted.grants", everything); err != nil {
		t.Fatal(err)
	}
	s.done(minio.KindUser, granted, grantedKey, driver.Create, grants(""))
	s.done(minio.KindUser, granted, grantedKey, driver.Update, grants(""))
	s.has(minio.KindUser, granted, grantedKey, grants(""))
}
