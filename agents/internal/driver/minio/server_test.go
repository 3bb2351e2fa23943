// SPDX-License-Identifier: Apache-2.0

//go:build processes

package minio_test

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	miniogo "github.com/minio/minio-go/v7"

	"github.com/zeroinfra/agents/internal/driver"
	"github.com/zeroinfra/agents/internal/driver/minio"
	"github.com/zeroinfra/agents/internal/testminio"
	"github.com/zeroinfra/agents/internal/testpki"
	"github.com/zeroinfra/agents/internal/testpod"
)

const (
	root    = testminio.Root
	rootKey = testminio.RootKey
)

// storage is a real MinIO on loopback that speaks TLS, and a driver of it.
type storage struct {
	*testing.T
	*minio.Driver
	*testminio.Server
}

func newStorage(t *testing.T) *storage {
	t.Helper()
	return newStorageBy(t, testpki.New(t))
}

// newStorageBy has the storage know the authority, and have its certificate from it.
func newStorageBy(t *testing.T, ca *testpki.Authority) *storage {
	t.Helper()
	s := &storage{T: t, Server: testminio.New(t, ca)}
	s.Driver = minio.New(minio.Options{Address: s.Address, CAFile: filepath.Join(s.Dir, "ca.crt"), Username: root,
		Password: func() (string, error) { return rootKey, nil }})
	s.start()
	return s
}

// start starts it, and waits until it answers.
func (s *storage) start() {
	s.Helper()
	s.Start()
	testpod.Eventually(s.T, func() error {
		_, err := s.Observe(s.Context(), minio.KindBucket, []driver.Query{{Name: "none"}})
		if err == nil {
			_, err = s.Observe(s.Context(), minio.KindUser, []driver.Query{{Name: "none"}})
		}
		return err
	})
}

// as is a client of somebody; of nobody with an empty name.
func (s *storage) as(user, key string) *miniogo.Client { return s.Client(user, key) }

func (s *storage) put(client *miniogo.Client, bucket, name, text string) error {
	_, err := client.PutObject(s.Context(), bucket, name, strings.NewReader(text), int64(len(text)),
		miniogo.PutObjectOptions{})
	return err
}

func (s *storage) change(kind, name, key string, intent driver.Intent, parameters map[string]string) string {
	s.Helper()
	problems, err := s.Change(s.Context(), kind,
		[]driver.Change{{Query: driver.Query{Name: name, Password: key}, Intent: intent, Parameters: parameters}})
	if err != nil {
		s.Fatal(err)
	}
	return problems[name]
}

// done fails the test where a change is refused.
func (s *storage) done(kind, name, key string, intent driver.Intent, parameters map[string]string) {
	s.Helper()
	if problem := s.change(kind, name, key, intent, parameters); problem != "" {
		s.Fatalf("%s %s of %q: %s", intent, kind, name, problem)
	}
}

// has fails the test where an object reads back otherwise.
func (s *storage) has(kind, name, key string, want map[string]string) {
	s.Helper()
	state := s.read(kind, name, key)
	if state == nil {
		s.Fatalf("there is no %s %q", kind, name)
	}
	for parameter, value := range want {
		if state.Parameters[parameter] != value {
			s.Errorf("%s %q has %s %q, want %q", kind, name, parameter, state.Parameters[parameter], value)
		}
	}
}

func (s *storage) read(kind, name, key string) *driver.State {
	s.Helper()
	states, err := s.Observe(s.Context(), kind, []driver.Query{{Name: name, Password: key}, {Name: "no-such-thing"}})
	if err != nil {
		s.Fatal(err)
	}
	if len(states) == 0 {
		return nil
	}
	return &states[0]
}

func bucket(with ...string) map[string]string {
	p := map[string]string{"versioning": "off", "object-lock": "no", "retention-mode": "", "retention-days": "0",
		"access": "none", "policy": "", "lifecycle": "", "quota": "0"}
	for i := 0; i < len(with); i += 2 {
		p[with[i]] = with[i+1]
	}
	return p
}

func TestBucketsAreKept(t *testing.T) {
	s := newStorage(t)
	const lifecycle = `[{"name":"old","prefix":"logs/","expireDays":30},{"name":"versions","noncurrentDays":7}]`
	first := bucket()
	s.done(minio.KindBucket, "first", "", driver.Create, first)
	s.has(minio.KindBucket, "first", "", first)
	full := bucket("versioning", "enabled", "access", "download", "lifecycle", lifecycle, "quota", "1048576")
	s.done(minio.KindBucket, "first", "", driver.Update, full)
	s.has(minio.KindBucket, "first", "", full)
	// To make one that is there is no problem, and what it has stays.
	s.done(minio.KindBucket, "first", "", driver.Create, full)

	t.Log("what anybody may do")
	if err := s.put(s.as(root, rootKey), "first", "a", "text"); err != nil {
		t.Fatal(err)
	}
	get := func() int {
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: s.Roots}}}
		answer, err := client.Get("https://" + s.Address + "/first/a")
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		return answer.StatusCode
	}
	if code := get(); code != http.StatusOK {
		t.Errorf("download gives %d to anybody", code)
	}
	s.done(minio.KindBucket, "first", "", driver.Update, bucket("versioning", "enabled", "access", "upload"))
	if code := get(); code != http.StatusForbidden {
		t.Errorf("upload gives %d to anybody who reads", code)
	}
	custom := `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":"*","Action":"s3:GetObject",` +
		`"Resource":["arn:aws:s3:::first/*"]}]}`
	s.done(minio.KindBucket, "first", "", driver.Update, bucket("versioning", "enabled", "policy", custom))
	s.has(minio.KindBucket, "first", "", map[string]string{"access": "none", "policy": `{"Statement":[{"Action":` +
		`["s3:GetObject"],"Effect":"Allow","Principal":{"AWS":["*"]},"Resource":["arn:aws:s3:::first/*"]}],` +
		`"Version":"2012-10-17"}`})
	if code := get(); code != http.StatusOK {
		t.Errorf("a policy in JSON gives %d to anybody", code)
	}

	t.Log("what cannot be")
	for want, p := range map[string]map[string]string{
		"cannot be off again once it was enabled": bucket("policy", custom),
		"is decided when it is made":              bucket("versioning", "enabled", "object-lock", "yes"),
		"no policy as JSON":                       bucket("versioning", "enabled", "policy", "everything"),
		"must be one of none, download":           bucket("versioning", "enabled", "access", "everything"),
		"both say what anybody may do":            bucket("versioning", "enabled", "access", "upload", "policy", custom),
		"must have expireDays or noncurrentDays":  bucket("versioning", "enabled", "lifecycle", `[{"name":"x"}]`),
		"must be a whole number":                  bucket("versioning", "enabled", "quota", "1Gi"),
		"MinIO refuses it": bucket("versioning", "enabled", "policy",
			strings.ReplaceAll(custom, "first", "second")),
	} {
		if problem := s.change(minio.KindBucket, "first", "", driver.Update, p); !strings.Contains(problem, want) {
			t.Errorf("got %q, want %q", problem, want)
		}
	}

	t.Log("after a restart everything is there")
	s.Kill()
	s.start()
	s.has(minio.KindBucket, "first", "", map[string]string{"versioning": "enabled"})
}

func TestBucketsGoOnceTheyAreEmpty(t *testing.T) {
	s := newStorage(t)
	s.done(minio.KindBucket, "first", "", driver.Create, bucket("versioning", "enabled"))
	if err := s.put(s.as(root, rootKey), "first", "a", "text"); err != nil {
		t.Fatal(err)
	}
	refused := func(name, want string) {
		t.Helper()
		if problem := s.change(minio.KindBucket, name, "", driver.Delete, nil); !strings.Contains(problem, want) {
			t.Errorf("%s: got %q, want %q", name, problem, want)
		}
	}
	refused("first", "it is not empty")
	if err := s.as(root, rootKey).RemoveObject(t.Context(), "first", "a", miniogo.RemoveObjectOptions{}); err != nil {
		t.Fatal(err)
	}
	refused("first", "it is not empty")
	for object := range s.as(root, rootKey).ListObjects(t.Context(), "first",
		miniogo.ListObjectsOptions{Recursive: true, WithVersions: true}) {
		if err := s.as(root, rootKey).RemoveObject(t.Context(), "first", object.Key,
			miniogo.RemoveObjectOptions{VersionID: object.VersionID}); err != nil {
			t.Fatal(err)
		}
	}
	s.done(minio.KindBucket, "first", "", driver.Delete, nil)
	s.done(minio.KindBucket, "first", "", driver.Delete, nil)
	if s.read(minio.KindBucket, "first", "") != nil {
		t.Error("it is there still")
	}

	t.Log("one with object lock is kept")
	locked := bucket("versioning", "enabled", "object-lock", "yes", "retention-mode", "governance", "retention-days", "3")
	s.done(minio.KindBucket, "locked", "", driver.Create, locked)
	s.has(minio.KindBucket, "locked", "", locked)
	locked["retention-mode"], locked["retention-days"] = "", "0"
	s.done(minio.KindBucket, "locked", "", driver.Update, locked)
	s.has(minio.KindBucket, "locked", "", locked)
	refused("locked", "it has object lock")
}

func TestBucketsThatSomebodyChangedAreSeenToDiffer(t *testing.T) {
	s := newStorage(t)
	wanted := bucket("access", "download")
	s.done(minio.KindBucket, "drifts", "", driver.Create, wanted)
	client := s.as(root, rootKey)
	if err := client.SetBucketPolicy(t.Context(), "drifts", ""); err != nil {
		t.Fatal(err)
	}
	if err := client.EnableVersioning(t.Context(), "drifts"); err != nil {
		t.Fatal(err)
	}
	s.has(minio.KindBucket, "drifts", "", map[string]string{"access": "none", "versioning": "enabled"})
	wanted["versioning"] = "suspended"
	s.done(minio.KindBucket, "drifts", "", driver.Update, wanted)
	s.has(minio.KindBucket, "drifts", "", wanted)
}

func TestStorageUsersMayWhatTheirPoliciesSay(t *testing.T) {
	s := newStorage(t)
	s.done(minio.KindBucket, "data", "", driver.Create, bucket())
	document := `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":["s3:*"],` +
		`"Resource":["arn:aws:s3:::data/mine/*"]}]}`
	s.done(minio.KindPolicy, "mine", "", driver.Create, map[string]string{"document": document})
	s.done(minio.KindUser, "writer", "first-secret-key", driver.Create,
		map[string]string{"enabled": "yes", "policies": "mine"})
	s.has(minio.KindUser, "writer", "first-secret-key", map[string]string{"enabled": "yes", "policies": "mine"})
	may := func(key, name string, want bool) {
		t.Helper()
		if err := s.put(s.as("writer", key), "data", name, "text"); (err == nil) != want {
			t.Errorf("putting %s: %v", name, err)
		}
	}
	may("first-secret-key", "mine/a", true)
	may("first-secret-key", "other/a", false)

	t.Log("another key")
	if state := s.read(minio.KindUser, "writer", "other-secret-key"); state.Password != driver.OtherPassword {
		t.Errorf("another key counts as %q", state.Password)
	}
	s.done(minio.KindUser, "writer", "other-secret-key", driver.Update,
		map[string]string{"enabled": "yes", "policies": "mine"})
	if state := s.read(minio.KindUser, "writer", "other-secret-key"); state.Password != driver.SamePassword {
		t.Errorf("its own key counts as %q", state.Password)
	}
	may("first-secret-key", "mine/b", false)
	may("other-secret-key", "mine/b", true)

	t.Log("other policies")
	s.done(minio.KindUser, "writer", "other-secret-key", driver.Update,
		map[string]string{"enabled": "yes", "policies": "readwrite mine"})
	s.has(minio.KindUser, "writer", "other-secret-key", map[string]string{"policies": "mine readwrite"})
	may("other-secret-key", "other/b", true)
	if problem := s.change(minio.KindPolicy, "mine", "", driver.Delete, nil); problem == "" {
		t.Error("a policy that a user has is removed")
	}
	s.done(minio.KindUser, "writer", "other-secret-key", driver.Update,
		map[string]string{"enabled": "yes", "policies": ""})
	s.has(minio.KindUser, "writer", "other-secret-key", map[string]string{"policies": ""})
	may("other-secret-key", "mine/c", false)

	t.Log("one that cannot log in")
	s.done(minio.KindUser, "writer", "other-secret-key", driver.Update,
		map[string]string{"enabled": "no", "policies": "mine"})
	s.has(minio.KindUser, "writer", "other-secret-key", map[string]string{"enabled": "no"})
	may("other-secret-key", "mine/d", false)

	t.Log("what cannot be")
	refused := func(kind, name, key string, p map[string]string, want string) {
		t.Helper()
		if problem := s.change(kind, name, key, driver.Create, p); !strings.Contains(problem, want) {
			t.Errorf("%s %s: got %q, want %q", kind, name, problem, want)
		}
	}
	refused(minio.KindUser, root, "other-secret-key", nil, "is the instance's own")
	refused(minio.KindUser, "boss", "other-secret-key", map[string]string{"policies": "consoleAdmin"},
		"they would be past the engine")
	refused(minio.KindUser, "lost", "other-secret-key", map[string]string{"policies": "no-such-policy"},
		"MinIO refuses it")
	refused(minio.KindUser, "weak", "short", map[string]string{}, "MinIO refuses it")
	refused(minio.KindPolicy, "readonly", "", map[string]string{"document": document}, "is MinIO's own")
	refused(minio.KindPolicy, "boss", "", map[string]string{"document": strings.Replace(document, "s3:*", "admin:*", 1)},
		"each must begin with s3:")
	refused(minio.KindPolicy, "boss", "",
		map[string]string{"document": strings.Replace(document, `"Action"`, `"NotAction"`, 1)}, "has NotAction")

	s.done(minio.KindUser, "writer", "", driver.Delete, nil)
	s.done(minio.KindPolicy, "mine", "", driver.Delete, nil)
	if s.read(minio.KindUser, "writer", "") != nil || s.read(minio.KindPolicy, "mine", "") != nil {
		t.Error("they are there still")
	}
}

func TestStorageThatIsAwayIsNoRefusal(t *testing.T) {
	s := newStorage(t)
	s.Kill()
	if _, err := s.Observe(t.Context(), minio.KindBucket, []driver.Query{{Name: "a"}}); err == nil {
		t.Error("nobody answers, and it has no buckets")
	}
	problems, err := s.Change(t.Context(), minio.KindBucket,
		[]driver.Change{{Query: driver.Query{Name: "a"}, Intent: driver.Create, Parameters: bucket()}})
	if err == nil {
		t.Errorf("nobody answers, and it says %s", fmt.Sprint(problems))
	}
}
