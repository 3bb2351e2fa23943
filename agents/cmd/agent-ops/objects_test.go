// SPDX-License-Identifier: Apache-2.0

//go:build processes

package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/tags"

	"github.com/zeroinfra/agents/internal/testminio"
	"github.com/zeroinfra/agents/internal/testpki"
	"github.com/zeroinfra/agents/internal/testpod"
	protocol "github.com/zeroinfra/platform-core/agentproto/mover"
)

// objectCarrier carries the objects of a real MinIO to a repository, and back into another one.
type objectCarrier struct {
	*carrier
	ca   *testpki.Authority
	from *objectServer
}

// mostMemory is how many KiB a mover of objects takes at most.
const mostMemory = 256 << 10

// objectServer is a MinIO with a client.
type objectServer struct {
	*testminio.Server
	client *minio.Client
}

func newObjectServer(t *testing.T, ca *testpki.Authority) *objectServer {
	t.Helper()
	s := &objectServer{Server: testminio.New(t, ca)}
	s.client = s.Client(testminio.Root, testminio.RootKey)
	s.begin()
	return s
}

// begin starts it, and waits until it answers.
func (s *objectServer) begin() {
	s.Helper()
	s.Start()
	testpod.Eventually(s.T, func() error {
		_, err := s.client.ListBuckets(s.Context())
		return err
	})
}

// env leads to it.
func (s *objectServer) env() []string {
	return []string{protocol.ObjectsEndpoint + "=https://" + s.Address, protocol.ObjectsAccessKey + "=" + testminio.Root,
		protocol.ObjectsSecretKey + "=" + testminio.RootKey,
		protocol.ObjectsCAFile + "=" + filepath.Join(s.Dir, "ca.crt")}
}

func newObjects(t *testing.T) *objectCarrier {
	t.Helper()
	ca := testpki.New(t)
	return carriedFrom(newMover(t), ca, newObjectServer(t, ca))
}

func carriedFrom(m *carrier, ca *testpki.Authority, from *objectServer) *objectCarrier {
	m.env = from.env()
	m.flags = append(m.flags, "--give-up", "10s", "--answer", "10s")
	return &objectCarrier{carrier: m, ca: ca, from: from}
}

func (s *objectServer) bucket(name string, versioning string) {
	s.Helper()
	if err := s.client.MakeBucket(s.Context(), name, minio.MakeBucketOptions{}); err != nil {
		s.Fatal(err)
	}
	if versioning != "" {
		if err := s.client.SetBucketVersioning(s.Context(), name,
			minio.BucketVersioningConfiguration{Status: versioning}); err != nil {
			s.Fatal(err)
		}
	}
}

func (s *objectServer) put(bucket, key string, content []byte, options minio.PutObjectOptions) {
	s.Helper()
	size := int64(len(content))
	if _, err := s.client.PutObject(s.Context(), bucket, key, bytes.NewReader(content), size, options); err != nil {
		s.Fatalf("%q: %v", key, err)
	}
}

func (s *objectServer) remove(bucket, key string) {
	s.Helper()
	if err := s.client.RemoveObject(s.Context(), bucket, key, minio.RemoveObjectOptions{}); err != nil {
		s.Fatal(err)
	}
}

// all is what there is to compare of each object.
func (s *objectServer) all() map[string]string {
	s.Helper()
	all := map[string]string{}
	buckets, err := s.client.ListBuckets(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	for _, bucket := range buckets {
		versioning, err := s.client.GetBucketVersioning(s.Context(), bucket.Name)
		if err != nil {
			s.Fatal(err)
		}
		all[bucket.Name] = versioning.Status
		for info := range s.client.ListObjects(s.Context(), bucket.Name, minio.ListObjectsOptions{Recursive: true}) {
			if info.Err != nil {
				s.Fatal(info.Err)
			}
			body, is, _, err := minio.Core{Client: s.client}.GetObject(s.Context(), bucket.Name, info.Key,
				minio.GetObjectOptions{})
			if err != nil {
				s.Fatal(err)
			}
			sum := sha256.New()
			if _, err := io.Copy(sum, body); err != nil {
				s.Fatal(err)
			}
			body.Close()
			tagged, err := s.client.GetObjectTagging(s.Context(), bucket.Name, info.Key, minio.GetObjectTaggingOptions{})
			if err != nil {
				s.Fatal(err)
			}
			all[bucket.Name+" "+info.Key] = fmt.Sprintf("%d %x %s %v %s %s %v", info.Size, sum.Sum(nil), is.ContentType,
				is.UserMetadata, is.Metadata.Get("Cache-Control"), is.Metadata.Get("Content-Encoding"), tagged)
		}
	}
	return all
}

func objectsBackup(name string, mode protocol.ObjectsMode) protocol.Plan {
	return protocol.Plan{Verb: protocol.VerbBackup, Objects: &protocol.Objects{Mode: mode},
		Backup: &protocol.Backup{Key: keyOf(name), Attempt: name, Metadata: json.RawMessage(`{"plugin":"minio"}`)}}
}

func keyOf(name string) string { return "production/media/" + name + "-1a2b3c4d" }

func ofKey(verb protocol.Verb, name string) protocol.Plan {
	plan := protocol.Plan{Verb: verb, Backup: &protocol.Backup{Key: keyOf(name)}, Verify: verb == protocol.VerbInspect}
	if verb == protocol.VerbRestore {
		plan.Objects = &protocol.Objects{}
	}
	return plan
}

// taken makes a backup and says how many objects and bytes were read for it.
func (m *objectCarrier) taken(name string, mode protocol.ObjectsMode) string {
	m.Helper()
	result := m.lean(objectsBackup(name, mode))
	return result.Facts["objectsRead"] + " of " + result.Facts["objects"] + ", " + result.Facts["bytesRead"] + " bytes"
}

// lean runs a plan to its end, and sees how much the mover has in memory meanwhile.
func (m *objectCarrier) lean(plan protocol.Plan) protocol.Result {
	m.Helper()
	p := m.start(plan)
	peak := 0
	for running := true; running; {
		select {
		case <-p.ended:
			running = false
		case <-time.After(20 * time.Millisecond):
			status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.process.Process.Pid))
			if _, rest, found := strings.Cut(string(status), "VmHWM:"); found {
				_, _ = fmt.Sscan(rest, &peak)
			}
		}
	}
	result := p.end()
	if result.Reason != "" {
		m.Fatalf("%s: %s: %s\n%s", plan.Verb, result.Reason, result.Message, p.log())
	}
	m.Logf("%s took %d KiB", plan.Verb, peak)
	if peak > mostMemory {
		m.Errorf("that is more than %d", mostMemory)
	}
	return result
}

// comesBack restores a backup into a new server, which has to have what there was.
func (m *objectCarrier) comesBack(name string, want map[string]string) *objectServer {
	m.Helper()
	to := newObjectServer(m.T, m.ca)
	m.restoredInto(to, name, want)
	return to
}

func (m *objectCarrier) restoredInto(to *objectServer, name string, want map[string]string) {
	m.Helper()
	m.env = to.env()
	defer func() { m.env = m.from.env() }()
	m.lean(ofKey(protocol.VerbRestore, name))
	same(m.T, to.all(), want)
}

func same(t *testing.T, got, want map[string]string) {
	t.Helper()
	for _, key := range slices.Sorted(maps.Keys(want)) {
		if got[key] != want[key] {
			t.Errorf("%q is %q, and was %q", key, got[key], want[key])
		}
	}
	for key := range got {
		if _, there := want[key]; !there {
			t.Errorf("%q was not there", key)
		}
	}
}

// stuff is that many random bytes.
func stuff(seed byte, size int) []byte {
	content := make([]byte, size)
	var key [32]byte
	key[0] = seed
	_, _ = rand.NewChaCha8(key).Read(content)
	return content
}

// fill has something of each kind.
func (m *objectCarrier) fill() {
	m.Helper()
	m.from.bucket("pictures", "Enabled")
	m.from.bucket("plain", "")
	m.from.bucket("empty", "")
	for i := range 200 {
		m.from.put("pictures", fmt.Sprintf("thumbs/%03d.png", i), stuff(byte(i), 1000),
			minio.PutObjectOptions{ContentType: "image/png"})
	}
	m.from.put("pictures", "large", stuff(1, 20<<20), minio.PutObjectOptions{ContentType: "video/mp4", PartSize: 5 << 20})
	m.from.put("plain", "told", []byte("told"),
		minio.PutObjectOptions{ContentType: "text/plain; charset=utf-8", CacheControl: "max-age=60", ContentEncoding: "gzip",
			UserMetadata: map[string]string{"Owner": "shop", "Two-Words": "a b"},
			UserTags:     map[string]string{"kind": "a/b", "x": "1"}})
	m.from.put("plain", "nothing", nil, minio.PutObjectOptions{})
	m.from.put("plain", "folder/", nil, minio.PutObjectOptions{})
}

// TestBucketsAreBackedUp: what is as it was is not read again, and comes back from what a later backup names, also when
// the earlier one is gone.
func TestBucketsAreBackedUp(t *testing.T) {
	m := newObjects(t)
	m.repository.Encrypted = true
	m.fill()
	if got := m.taken("first", protocol.ObjectsIncremental); got != "204 of 204, 21171524 bytes" {
		t.Errorf("the first one read %s", got)
	}
	first := m.from.all()
	if got := m.taken("same", protocol.ObjectsIncremental); got != "0 of 204, 0 bytes" {
		t.Errorf("the same again read %s", got)
	}
	m.from.put("pictures", "thumbs/007.png", stuff(99, 1000), minio.PutObjectOptions{ContentType: "image/png"})
	m.from.put("pictures", "new", stuff(100, 500), minio.PutObjectOptions{})
	m.from.remove("pictures", "thumbs/008.png")
	m.from.remove("plain", "nothing")
	tagged, err := tags.NewTags(map[string]string{"now": "tagged"}, true)
	if err == nil {
		err = m.from.client.PutObjectTagging(t.Context(), "plain", "folder/", tagged, minio.PutObjectTaggingOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	if got := m.taken("changed", protocol.ObjectsIncremental); got != "3 of 203, 1500 bytes" {
		t.Errorf("after changes it read %s", got)
	}
	changed := m.from.all()
	m.comesBack("first", first)
	for _, name := range []string{"first", "same"} {
		m.succeeds(ofKey(protocol.VerbDelete, name))
	}
	if got := m.succeeds(protocol.Plan{Verb: protocol.VerbList}); !slices.Equal(got.Backups, []string{keyOf("changed")}) ||
		len(got.Leftovers) > 0 {
		t.Errorf("the list is %+v", got)
	}
	m.succeeds(ofKey(protocol.VerbInspect, "changed"))
	m.comesBack("changed", changed)
	if got := m.taken("full", protocol.ObjectsFull); !strings.HasPrefix(got, "203 of 203") {
		t.Errorf("a full one read %s", got)
	}
	m.succeeds(ofKey(protocol.VerbDelete, "changed"))
	for _, file := range m.files() {
		if !strings.Contains(file, "/full-") {
			t.Errorf("left is %s", file)
		}
	}
	m.comesBack("full", changed)
	m.succeeds(ofKey(protocol.VerbDelete, "full"))
	if left := m.files(); len(left) > 0 {
		t.Errorf("left are %v", left)
	}
}

// TestBucketsAreKeptInABucket, where a mover that is killed leaves what the next one, or a deletion, removes; and a
// restore goes on where it was, and leaves alone what somebody has written meanwhile.
func TestBucketsAreKeptInABucket(t *testing.T) {
	b := newBucketCarrier(t)
	ca := testpki.New(t)
	m := carriedFrom(b.carrier, ca, newObjectServer(t, ca))
	m.fill()
	kill := func(plan protocol.Plan, seen string) {
		t.Helper()
		p := m.start(plan)
		m.await("a pack is begun", func() bool {
			return slices.ContainsFunc(b.objects(), func(name string) bool { return strings.Contains(name, seen) })
		})
		_ = p.process.Process.Kill()
		<-p.ended
	}
	slow := objectsBackup("killed", protocol.ObjectsIncremental)
	slow.BytesPerSecond = 1 << 20
	kill(slow, "pack-")
	if got := m.succeeds(protocol.Plan{Verb: protocol.VerbList}); len(got.Backups) > 0 ||
		!slices.Equal(got.Leftovers, []string{keyOf("killed")}) {
		t.Errorf("the list is %+v", got)
	}
	if got := m.taken("killed", protocol.ObjectsIncremental); !strings.HasPrefix(got, "204 of 204") {
		t.Errorf("the next attempt read %s", got)
	}
	slow = objectsBackup("again", protocol.ObjectsFull)
	slow.BytesPerSecond = 1 << 20
	kill(slow, "/again-1a2b3c4d/")
	// What may be under way keeps packs from being removed; its own removal catches up.
	m.succeeds(objectsBackup("next", protocol.ObjectsIncremental))
	m.succeeds(ofKey(protocol.VerbDelete, "killed"))
	m.succeeds(ofKey(protocol.VerbDelete, "again"))
	want := m.from.all()
	to := newObjectServer(t, ca)
	to.bucket("plain", "")
	to.put("plain", "told", []byte("somebody wrote this"), minio.PutObjectOptions{})
	to.put("plain", "nothing", nil, minio.PutObjectOptions{})
	m.env = to.env()
	half := ofKey(protocol.VerbRestore, "next")
	half.BytesPerSecond = 1 << 20
	p := m.start(half)
	m.await("something is there", func() bool { return len(to.all()) > 20 })
	_ = p.process.Process.Kill()
	<-p.ended
	if got := m.succeeds(ofKey(protocol.VerbRestore, "next")); got.Facts["left"] != "1" {
		t.Errorf("the result is %+v", got)
	}
	got := to.all()
	if got["plain told"] == want["plain told"] {
		t.Error("what somebody wrote is gone")
	}
	got["plain told"] = want["plain told"]
	same(t, got, want)
	m.env = m.from.env()
	m.succeeds(ofKey(protocol.VerbDelete, "next"))
	if left := b.objects(); len(left) > 0 {
		t.Errorf("left are %v", left)
	}
}

// TestBucketsWithOddNames: whatever a storage takes as a key comes back.
func TestBucketsWithOddNames(t *testing.T) {
	m := newObjects(t)
	m.from.bucket("odd", "")
	for _, key := range []string{"a/../b", "..", "./x", "/leading", "two//slashes", "new\nline", "tab\tand \"quotes\" <&>",
		"ünï/côdé/日本", "+plus%20and space", "trailing ", "\x01\x7f",
		strings.Repeat("k/", 511) + "kk", "a", "a/b", "a.b", "back\\slash", "*?[x]"} {
		_, err := m.from.client.PutObject(t.Context(), "odd", key, strings.NewReader(key), int64(len(key)),
			minio.PutObjectOptions{})
		if err != nil {
			t.Logf("the storage does not take %.40q: %v", key, err)
			continue
		}
	}
	// The bucket is no object. A storage that lists no "a/b" beside "a" gives nobody that.
	taken := len(m.from.all()) - 1
	if taken < 8 {
		t.Fatalf("only %d were taken", taken)
	}
	if got := m.taken("odd", protocol.ObjectsIncremental); !strings.HasPrefix(got, fmt.Sprintf("%d of %d", taken, taken)) {
		t.Errorf("it read %s", got)
	}
	if got := m.taken("again", protocol.ObjectsIncremental); !strings.HasPrefix(got, "0 of ") {
		t.Errorf("the same again read %s", got)
	}
	m.comesBack("again", m.from.all())
}

// TestBucketsOfManyBytes take no more memory than others, there and back.
func TestBucketsOfManyBytes(t *testing.T) {
	m := newObjects(t)
	m.repository.Encrypted = true
	m.from.bucket("films", "")
	for i := range 3 {
		m.from.put("films", fmt.Sprint("film-", i), stuff(byte(i), 60<<20), minio.PutObjectOptions{DisableMultipart: true})
	}
	for i := range 12 {
		m.from.put("films", fmt.Sprint("clip-", i), stuff(byte(i), 8<<20), minio.PutObjectOptions{DisableMultipart: true})
	}
	if got := m.taken("all", protocol.ObjectsIncremental); !strings.HasPrefix(got, "15 of 15, ") {
		t.Errorf("it read %s", got)
	}
	m.comesBack("all", m.from.all())
}
