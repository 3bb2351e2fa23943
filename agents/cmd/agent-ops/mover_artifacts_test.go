// SPDX-License-Identifier: Apache-2.0

//go:build processes

package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"

	"github.com/zeroinfra/agents/internal/teststorage"
	protocol "github.com/zeroinfra/platform-core/agentproto/mover"
)

const runFolder = "_artifacts/shop/0a1b2c3d-4e5f"

// artifactCarrier is a bucket, and the folders of a pod that has artifacts.
type artifactCarrier struct{ *bucketCarrier }

func newArtifactCarrier(t *testing.T) artifactCarrier {
	t.Helper()
	m := artifactCarrier{newBucketCarrier(t)}
	m.flags = append(m.flags, "--artifacts", m.path("artifacts"))
	for _, folder := range []string{"artifacts/0", "artifacts/1"} {
		if err := os.MkdirAll(m.path(folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

func keep(files ...protocol.ArtifactFile) protocol.Plan {
	return protocol.Plan{Verb: protocol.VerbKeep,
		Artifacts: &protocol.Artifacts{Folder: runFolder, MaxBytes: 40 << 20, Files: files}}
}

func fetch(files ...protocol.ArtifactFile) protocol.Plan {
	return protocol.Plan{Verb: protocol.VerbFetch, Artifacts: &protocol.Artifacts{Folder: runFolder, Files: files}}
}

func sumOf(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// TestArtifactsOfATaskReachAnother keeps a large file, an empty one and the same content twice, and removes all of it
// with the run.
func TestArtifactsOfATaskReachAnother(t *testing.T) {
	m := newArtifactCarrier(t)
	large := m.input("artifacts/0/large", 21<<20)
	m.write("artifacts/0/empty", nil)
	m.write("artifacts/1/again", large)
	files := []protocol.ArtifactFile{{Name: "large", Path: "/out/large"}, {Name: "empty", Path: "/out/empty"},
		{Name: "again", Path: "/more/again", Mount: 1}}
	made := m.succeeds(keep(files...))
	want := []protocol.KeptArtifact{{Name: "large", SHA256: sumOf(large), Size: 21 << 20},
		{Name: "empty", SHA256: sumOf(nil)}, {Name: "again", SHA256: sumOf(large), Size: 21 << 20}}
	if !slices.Equal(made.Artifacts, want) || !strings.HasSuffix(made.Location, "/team/backups/"+runFolder) {
		t.Errorf("it kept %+v", made)
	}
	objects := []string{"team/backups/" + runFolder + "/" + sumOf(large), "team/backups/" + runFolder + "/" + sumOf(nil)}
	slices.Sort(objects)
	if got := m.objects(); !slices.Equal(got, objects) {
		t.Errorf("there are %v, want %v", got, objects)
	}
	if again := m.succeeds(keep(files...)); !slices.Equal(again.Artifacts, want) {
		t.Errorf("another attempt kept %+v", again)
	}
	m.succeeds(fetch(
		protocol.ArtifactFile{Name: "make.large", Path: "/in/model", Mount: 1, SHA256: sumOf(large), Size: 21 << 20},
		protocol.ArtifactFile{Name: "make.empty", Path: "/in/none", Mount: 1, SHA256: sumOf(nil)}))
	if got, err := os.ReadFile(m.path("artifacts/1/model")); err != nil || !bytes.Equal(got, large) {
		t.Errorf("the file has %d bytes: %v", len(got), err)
	}
	if got, err := os.ReadFile(m.path("artifacts/1/none")); err != nil || len(got) > 0 {
		t.Errorf("the empty file has %d bytes: %v", len(got), err)
	}
	if got := m.succeeds(protocol.Plan{Verb: protocol.VerbList}); got.Count != 0 || len(got.Leftovers) > 0 {
		t.Errorf("an inventory of a whole repository finds %+v", got)
	}
	for range 2 {
		m.succeeds(protocol.Plan{Verb: protocol.VerbDiscard, Artifacts: &protocol.Artifacts{Folder: runFolder}})
	}
	if got := m.objects(); len(got) > 0 {
		t.Errorf("the run has left %v", got)
	}
}

// TestArtifactsThatAreNoFilesAreRefused keeps nothing, above all not what a link leads to.
func TestArtifactsThatAreNoFilesAreRefused(t *testing.T) {
	m := newArtifactCarrier(t)
	if err := os.Mkdir(m.path("artifacts/0/folder"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"link": m.path("credentials/secretKey"),
		"relative": "../../credentials/secretKey"} {
		if err := os.Symlink(target, m.path("artifacts/0", name)); err != nil {
			t.Fatal(err)
		}
	}
	m.input("artifacts/0/large", 1<<20+1)
	m.write("artifacts/0/good", []byte("good"))
	for name, want := range map[string]string{
		"absent":   `artifact "absent": the container ended well, and there is no file /out/absent`,
		"folder":   `artifact "folder": /out/folder is a folder, and an artifact is one file: pack it, for example with tar`,
		"link":     `artifact "link": /out/link is no regular file`,
		"relative": `artifact "relative": /out/relative is no regular file`,
		"large":    `artifact "large": /out/large has more than the 1048576 bytes that are allowed`,
	} {
		plan := keep(protocol.ArtifactFile{Name: "good", Path: "/out/good"},
			protocol.ArtifactFile{Name: name, Path: "/out/" + name})
		plan.Artifacts.MaxBytes = 1 << 20
		m.fails(plan, protocol.ReasonArtifactRefused, want)
	}
	if got := m.objects(); len(got) > 0 {
		t.Errorf("there are %v", got)
	}
}

// TestDamagedArtifactIsNotLeftForTheTask removes what has another digest.
func TestDamagedArtifactIsNotLeftForTheTask(t *testing.T) {
	m := newArtifactCarrier(t)
	content := []byte("a report")
	m.write("artifacts/0/report", content)
	m.succeeds(keep(protocol.ArtifactFile{Name: "report", Path: "/out/report"}))
	file := protocol.ArtifactFile{Name: "make.report", Path: "/in/report", Mount: 1, SHA256: sumOf(content),
		Size: int64(len(content))}
	name := "team/backups/" + runFolder + "/" + file.SHA256
	fails := func(want string) {
		t.Helper()
		m.fails(fetch(file), protocol.ReasonArtifactDamaged, want)
		if _, err := os.Stat(m.path("artifacts/1/report")); !os.IsNotExist(err) {
			t.Errorf("something is there: %v", err)
		}
	}
	for _, c := range []struct{ content, want string }{
		{"another!", `artifact "make.report": ` + runFolder + "/" + file.SHA256 + " is not what it was"},
		{"less", "has less than the 8 bytes that are on record"},
	} {
		_, err := m.client.PutObject(t.Context(), teststorage.Bucket, name, strings.NewReader(c.content),
			int64(len(c.content)), minio.PutObjectOptions{})
		if err != nil {
			t.Fatal(err)
		}
		fails(c.want)
	}
	if err := m.client.RemoveObject(t.Context(), teststorage.Bucket, name, minio.RemoveObjectOptions{}); err != nil {
		t.Fatal(err)
	}
	fails("it is not in the repository any more")
}
