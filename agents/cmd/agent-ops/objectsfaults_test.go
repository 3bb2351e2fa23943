// SPDX-License-Identifier: Apache-2.0

//go:build processes

package main

import (
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"

	"github.com/zeroinfra/agents/internal/testminio"
	protocol "github.com/zeroinfra/platform-core/agentproto/mover"
)

// TestBucketsThatHaveTheRepository are refused: what is written would have to be read.
func TestBucketsThatHaveTheRepository(t *testing.T) {
	m := newObjects(t)
	m.from.bucket("backups", "")
	m.repository = protocol.Repository{Type: protocol.TypeS3, Prefix: "some/where", Endpoint: "https://" + m.from.Address,
		Bucket: "backups"}
	m.write("credentials/accessKey", []byte(testminio.Root))
	m.write("credentials/secretKey", []byte(testminio.RootKey))
	m.write("credentials/ca.crt", m.ca.PEM())
	m.fails(objectsBackup("x", protocol.ObjectsIncremental), protocol.ReasonBadPlan, "keep its backups in another storage")
	if left := m.from.all(); len(left) != 2 || left["backups some/where/"+keyOf("x")+"/attempt.json"] == "" {
		t.Errorf("left are %v", left)
	}
}

// TestBucketsThatCannotBeRead are refused, with a reason that says what is wrong.
func TestBucketsThatCannotBeRead(t *testing.T) {
	m := newObjects(t)
	m.from.bucket("plain", "")
	m.from.put("plain", "a", []byte("a"), minio.PutObjectOptions{})
	m.flags = []string{"--give-up", "1s", "--answer", "1s"}
	good := m.env
	m.env = append(slices.Clone(good), protocol.ObjectsSecretKey+"=another-secret-key")
	m.fails(objectsBackup("x", protocol.ObjectsIncremental), protocol.ReasonCommandFailed, "SignatureDoesNotMatch")
	m.env = append(slices.Clone(good), protocol.ObjectsEndpoint+"=https://127.0.0.1:1")
	m.fails(objectsBackup("x", protocol.ObjectsIncremental), protocol.ReasonCommandFailed, "cannot be reached")
	m.env = append(slices.Clone(good), protocol.ObjectsEndpoint+"=")
	m.fails(objectsBackup("x", protocol.ObjectsIncremental), protocol.ReasonCommandFailed, "is not said")
	m.env = good
	plan := objectsBackup("x", protocol.ObjectsIncremental)
	plan.Command = shell("cat")
	m.fails(plan, protocol.ReasonBadPlan, "something else to carry")
	m.fails(objectsBackup("x", "Half"), protocol.ReasonBadPlan, `the mode "Half"`)
	m.succeeds(backup("mover-1", "echo x"))
	notOfObjects := ofKey(protocol.VerbRestore, "x")
	notOfObjects.Backup.Key = shopKey
	m.fails(notOfObjects, protocol.ReasonBadPlan, "none of objects")
	m.succeeds(objectsBackup("x", protocol.ObjectsIncremental))
	wrong := restore()
	wrong.Backup.Key = keyOf("x")
	m.fails(wrong, protocol.ReasonBadPlan, "is of objects")
	for _, file := range m.files() {
		if strings.Contains(file, "pack-") {
			content := stuff(3, 300)
			m.write(filepath.Join("volume", file), content)
		}
	}
	m.fails(ofKey(protocol.VerbRestore, "x"), protocol.ReasonDamaged, "pack-00001")
	// What is damaged is nothing to begin with.
	if got := m.taken("y", protocol.ObjectsIncremental); !strings.HasPrefix(got, "1 of 1") {
		t.Errorf("it read %s", got)
	}
}

// TestBucketsChangeWhileTheyAreRead: each object is one of its versions.
func TestBucketsChangeWhileTheyAreRead(t *testing.T) {
	m := newObjects(t)
	m.from.bucket("busy", "")
	old, fresh := stuff(1, 12<<20), stuff(2, 12<<20)
	for i := range 4 {
		m.from.put("busy", fmt.Sprint("large-", i), old, minio.PutObjectOptions{})
		m.from.put("busy", fmt.Sprint("small-", i), old[:100], minio.PutObjectOptions{})
	}
	plan := objectsBackup("busy", protocol.ObjectsIncremental)
	plan.BytesPerSecond = 20 << 20
	p := m.start(plan)
	m.await("it is read", func() bool {
		return slices.ContainsFunc(m.files(), func(f string) bool { return strings.Contains(f, "pack-") })
	})
	for i := range 4 {
		m.from.put("busy", fmt.Sprint("large-", i), fresh, minio.PutObjectOptions{})
		m.from.put("busy", fmt.Sprint("small-", i), fresh[:100], minio.PutObjectOptions{})
	}
	if got := p.end(); got.Reason != "" {
		t.Fatalf("it ended with %+v: %s", got, p.log())
	}
	to := newObjectServer(t, m.ca)
	m.env = to.env()
	m.succeeds(ofKey(protocol.VerbRestore, "busy"))
	m.env = m.from.env()
	for key, is := range to.all() {
		if key == "busy" {
			continue
		}
		size := 12 << 20
		if strings.Contains(key, "small") {
			size = 100
		}
		if !strings.Contains(is, fmt.Sprintf("%x", sha256.Sum256(old[:size]))) &&
			!strings.Contains(is, fmt.Sprintf("%x", sha256.Sum256(fresh[:size]))) {
			t.Errorf("%s is neither: %s", key, is)
		}
	}
	m.succeeds(objectsBackup("after", protocol.ObjectsIncremental))
	m.comesBack("after", m.from.all())
	// A bucket that goes while it is read.
	for i := range 3000 {
		m.from.put("busy", fmt.Sprintf("many/%04d", i), []byte("x"), minio.PutObjectOptions{})
	}
	plan = objectsBackup("gone", protocol.ObjectsFull)
	plan.BytesPerSecond = 4 << 20
	p = m.start(plan)
	m.await("it is read", func() bool {
		return slices.ContainsFunc(m.files(),
			func(f string) bool { return strings.Contains(f, "gone-") && strings.Contains(f, "pack-") })
	})
	if err := m.from.client.RemoveBucketWithOptions(t.Context(), "busy",
		minio.RemoveBucketOptions{ForceDelete: true}); err != nil {
		t.Fatal(err)
	}
	if got := p.end(); got.Reason != protocol.ReasonUnsteady ||
		!strings.Contains(got.Message, `bucket "busy" was removed`) {
		t.Errorf("it ended with %+v: %s", got, p.log())
	}
}
