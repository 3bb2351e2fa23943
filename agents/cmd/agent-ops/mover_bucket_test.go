// SPDX-License-Identifier: Apache-2.0

//go:build processes

package main

import (
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/zeroinfra/agents/internal/testpki"
	"github.com/zeroinfra/agents/internal/teststorage"
	protocol "github.com/zeroinfra/platform-core/agentproto/mover"
)

// bucketCarrier has a bucket of a real storage for a repository.
type bucketCarrier struct {
	*carrier
	storage *teststorage.Server
	client  *minio.Client
}

func newBucketCarrier(t *testing.T) *bucketCarrier {
	t.Helper()
	b := &bucketCarrier{carrier: newMover(t), storage: teststorage.New(t)}
	b.repository = protocol.Repository{Type: protocol.TypeS3, Prefix: "team/backups", Endpoint: b.storage.Endpoint(),
		Bucket: teststorage.Bucket, Region: teststorage.Region}
	b.flags = []string{"--part-size", strconv.Itoa(17 << 20), "--give-up", "1m", "--answer", "10s"}
	b.write("credentials/accessKey", []byte(teststorage.Account))
	b.write("credentials/secretKey", []byte(teststorage.SecretKey+"\n"))
	b.write("credentials/ca.crt", b.storage.CA.PEM())
	var err error
	b.client, err = minio.New(b.storage.Address,
		&minio.Options{Creds: credentials.NewStaticV4(teststorage.Account, teststorage.SecretKey, ""), Secure: true,
			Region:    teststorage.Region,
			Transport: &http.Transport{TLSClientConfig: b.storage.CA.ClientConfig(t, nil, testpki.Leaf{})}})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// objects are all names in the bucket, and those of uploads that are not whole with a mark.
func (b *bucketCarrier) objects() (names []string) {
	b.Helper()
	for object := range b.client.ListObjects(b.Context(), teststorage.Bucket, minio.ListObjectsOptions{Recursive: true}) {
		if object.Err != nil {
			b.Fatal(object.Err)
		}
		names = append(names, object.Key)
	}
	for upload := range b.client.ListIncompleteUploads(b.Context(), teststorage.Bucket, "", true) {
		if upload.Err != nil {
			b.Fatal(upload.Err)
		}
		names = append(names, "unfinished "+upload.Key)
	}
	return names
}

// gate is what a command waits at until open is called.
func (b *bucketCarrier) gate() (open func()) {
	b.Helper()
	if err := syscall.Mkfifo(b.path("gate"), 0o600); err != nil {
		b.Fatal(err)
	}
	return func() {
		gate, err := os.OpenFile(b.path("gate"), os.O_WRONLY, 0)
		if err != nil {
			b.Fatal(err)
		}
		gate.Close()
	}
}

// TestMoverS3 keeps data in a bucket and gives it back.
func TestMoverS3(t *testing.T) {
	m := newBucketCarrier(t)
	m.repository.Encrypted = true
	content := m.input("data", 40<<20)
	made := m.succeeds(backup("mover-1", "cat data"))
	m.restored(content)
	if got := m.succeeds(of(protocol.VerbInspect)); got.Digest != made.Digest || got.Size != made.Size {
		t.Errorf("it is inspected as %+v, and was made as %+v", got, made)
	}
	if got := m.succeeds(of(protocol.VerbList)); !slices.Equal(got.Backups, []string{shopKey}) || len(got.Leftovers) > 0 {
		t.Errorf("the list is %+v", got)
	}
	if got := m.objects(); len(got) != 6 {
		t.Errorf("there are %v", got)
	}
	for _, name := range m.objects() {
		if strings.HasSuffix(name, "data-00002") {
			if err := m.client.RemoveObject(t.Context(), teststorage.Bucket, name, minio.RemoveObjectOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	m.fails(restore(), protocol.ReasonDamaged, "data-00002 is missing")
	for range 2 {
		m.succeeds(of(protocol.VerbDelete))
	}
	if got := m.succeeds(of(protocol.VerbCheck)); got.FreeBytes != nil || len(m.objects()) > 0 {
		t.Errorf("it is checked as %+v, left are %v", got, m.objects())
	}
}

// TestMoverS3Refused says why, and no secret.
func TestMoverS3Refused(t *testing.T) {
	m := newBucketCarrier(t)
	m.flags = []string{"--give-up", "1s", "--answer", "500ms"}
	none := m.repository
	m.repository.Bucket = "none"
	m.fails(backup("mover-1", "echo x"), protocol.ReasonRefused, `there is no bucket "none"`)
	m.repository = none
	m.repository.Endpoint = "https://127.0.0.1:1"
	m.fails(of(protocol.VerbCheck), protocol.ReasonUnreachable, "cannot be reached")
	m.repository.Endpoint = "s3.example.com"
	m.fails(of(protocol.VerbCheck), protocol.ReasonBadPlan, "is no URL")
	m.repository = none
	m.write("credentials/secretKey", []byte("another-secret-key"))
	for _, verb := range []protocol.Verb{protocol.VerbCheck, protocol.VerbList, protocol.VerbDelete,
		protocol.VerbInspect} {
		result := m.run(of(verb))
		if result.Reason != protocol.ReasonRefused || strings.Contains(result.Message, "another-secret-key") {
			t.Errorf("%s ended with %+v", verb, result)
		}
	}
	m.write("credentials/secretKey", []byte(teststorage.SecretKey))
	goOn := m.storage.Hang()
	m.fails(of(protocol.VerbCheck), protocol.ReasonUnreachable, "it did not answer within 500ms")
	goOn()
	m.succeeds(of(protocol.VerbCheck))
}

// TestMoverS3ComesBack: a storage that dies, and one that hangs, in the middle of a backup and of a restore cost time
// alone.
func TestMoverS3ComesBack(t *testing.T) {
	m := newBucketCarrier(t)
	m.flags = []string{"--part-size", strconv.Itoa(50 << 20), "--give-up", "1m", "--answer", "2s"}
	content := m.input("data", 40<<20)
	open := m.gate()
	plan := backup("mover-1", "head -c 20000000 data; touch sent; cat gate; tail -c +20000001 data")
	plan.Backup.Compression = protocol.CompressionNone
	p := m.start(plan)
	m.await("a part is begun", func() bool { return has(m.path("sent")) })
	m.storage.Kill()
	open()
	m.await("it is asked again", func() bool { return strings.Contains(p.log(), "is asked again") })
	m.storage.Start()
	if got := p.end(); got.Reason != "" || got.RawSize != 40<<20 {
		t.Fatalf("the result is %+v: %s", got, p.log())
	}
	if got := m.objects(); len(got) != 4 {
		t.Errorf("there are %v", got)
	}
	plan = restore()
	plan.Command = shell("head -c 1000 > head; touch reading; cat gate; cat head - > restored; touch done")
	p = m.start(plan)
	m.await("it is read", func() bool { return has(m.path("reading")) })
	goOn := m.storage.Hang()
	open()
	m.await("it is asked again", func() bool { return strings.Contains(p.log(), "is asked again") })
	goOn()
	if got := p.end(); got.Reason != "" {
		t.Fatalf("the result is %+v: %s", got, p.log())
	}
	m.restored(content)
	// One that does not come back is given up, and what it has is removed by the next who comes.
	m.flags = []string{"--give-up", "1s", "--answer", "500ms"}
	p = m.start(backup("mover-2", "head -c 20000000 data; touch again; cat gate; cat data"))
	if got := p.end(); got.Reason != "" || has(m.path("again")) {
		t.Errorf("what is whole is made again: %+v", got)
	}
	m.succeeds(of(protocol.VerbDelete))
	p = m.start(backup("mover-3", "head -c 20000000 data; touch again; cat gate; cat data"))
	m.await("a part is begun", func() bool { return has(m.path("again")) })
	m.storage.Kill()
	open()
	if got := p.end(); got.Reason != protocol.ReasonUnreachable {
		t.Errorf("the result is %+v", got)
	}
	m.storage.Start()
	m.succeeds(of(protocol.VerbDelete))
	if left := m.objects(); len(left) > 0 {
		t.Errorf("left are %v", left)
	}
}

// TestMoverS3IsKilled: another attempt removes what is left, and so does a deletion, uploads that are not whole among
// it; of two attempts the later makes the backup.
func TestMoverS3IsKilled(t *testing.T) {
	m := newBucketCarrier(t)
	m.input("data", 40<<20)
	open := m.gate()
	begun := func(attempt string) *moverPod {
		plan := backup(attempt, "cat data; touch sent; cat gate; echo end")
		plan.Backup.Compression = protocol.CompressionNone
		p := m.start(plan)
		m.await("a part is not whole", func() bool {
			return has(m.path("sent")) && slices.ContainsFunc(m.objects(),
				func(name string) bool { return strings.HasPrefix(name, "unfinished ") })
		})
		if err := os.Remove(m.path("sent")); err != nil {
			t.Fatal(err)
		}
		return p
	}
	kill := func(p *moverPod) {
		if err := p.process.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		<-p.ended
	}
	kill(begun("mover-1"))
	if got := m.succeeds(of(protocol.VerbList)); len(got.Backups) > 0 || !slices.Equal(got.Leftovers, []string{shopKey}) {
		t.Errorf("the list is %+v", got)
	}
	m.succeeds(of(protocol.VerbDelete))
	if left := m.objects(); len(left) > 0 {
		t.Errorf("left are %v", left)
	}
	kill(begun("mover-2"))
	first := begun("mover-3")
	m.succeeds(backup("mover-4", "echo new"))
	open()
	if got := first.end(); got.Reason != protocol.ReasonSuperseded {
		t.Errorf("the first attempt ended with %+v", got)
	}
	if got := m.objects(); len(got) != 4 {
		t.Errorf("there are %v", got)
	}
	m.restored([]byte("new\n"))
}

// TestMoverS3Recall reads from a bucket what the objects of backups are made of.
func TestMoverS3Recall(t *testing.T) {
	m := newBucketCarrier(t)
	m.repository.Encrypted = true
	made := m.keeps("shop/a/old-00000001")
	m.keeps("shop/a/known-00000002")
	m.keeps("shop/b/cut-00000003")
	for _, name := range m.objects() {
		if strings.Contains(name, "/b/cut-") && strings.HasSuffix(name, "data-00001") {
			if err := m.client.RemoveObject(t.Context(), teststorage.Bucket, name, minio.RemoveObjectOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	page := m.recalled("", "shop/a/known-00000002")
	if len(page.Records) != 1 || page.Records[0].Digest != made.Digest || len(page.Failures) != 1 ||
		page.Failures[0].Key != "shop/b/cut-00000003" {
		t.Errorf("the page is %+v", page)
	}
}
