// SPDX-License-Identifier: Apache-2.0

//go:build processes

package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"

	"github.com/zeroinfra/agents/internal/testminio"
	"github.com/zeroinfra/agents/internal/testpki"
	protocol "github.com/zeroinfra/platform-core/agentproto/mover"
	"github.com/zeroinfra/platform-core/agentproto/plan"
)

// damage writes over the middle of what a server keeps of an object.
func (s *objectServer) damage(bucket, key string) {
	s.Helper()
	largest, size := "", int64(0)
	err := filepath.WalkDir(filepath.Join(s.Dir, "data", bucket, key),
		func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			if info, err := entry.Info(); err == nil && info.Size() > size {
				largest, size = path, info.Size()
			}
			return nil
		})
	if err != nil || largest == "" {
		s.Fatalf("%q is not on the disk: %v", key, err)
	}
	file, err := os.OpenFile(largest, os.O_WRONLY, 0)
	if err != nil {
		s.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteAt(bytes.Repeat([]byte{0xff}, 64), size/2); err != nil {
		s.Fatal(err)
	}
}

// TestVerificationOfBuckets: what the disk of a storage has damaged is found, and what only cannot be asked is none of
// that.
func TestVerificationOfBuckets(t *testing.T) {
	s := newObjectServer(t, testpki.New(t))
	s.bucket("plain", "")
	s.bucket("kept", "Enabled")
	s.put("plain", "small", bytes.Repeat([]byte("small"), 1000), minio.PutObjectOptions{})
	s.put("plain", "in/parts", bytes.Repeat([]byte("parts"), 3<<20), minio.PutObjectOptions{PartSize: 5 << 20})
	s.put("kept", "large", bytes.Repeat([]byte("large"), 200<<10), minio.PutObjectOptions{})
	s.put("kept", "gone", []byte("gone"), minio.PutObjectOptions{})
	s.remove("kept", "gone")
	v := verificationOf(t, "minio", "minio", "read-all", strings.NewReplacer(plan.OpsPath, os.Args[0]))
	v.command = append(v.command, "--patience=1s")
	v.env = append(s.env(), asAgent+"=1")
	v.ends(0, "objects=3\n")
	v.env = append(slices.Clone(v.env), protocol.ObjectsSecretKey+"=another-secret-key")
	v.ends(1, "SignatureDoesNotMatch")
	v.env = append(s.env(), asAgent+"=1")
	s.Kill()
	v.ends(1, "cannot be reached")
	for _, object := range []struct{ bucket, key string }{{"plain", "small"}, {"plain", "in/parts"}, {"kept", "large"}} {
		t.Run(object.key, func(t *testing.T) {
			damaged := s.copied(t)
			damaged.damage(object.bucket, object.key)
			damaged.begin()
			v := *v
			v.T, v.env = t, append(damaged.env(), asAgent+"=1")
			v.ends(plan.ExitDataBad, object.key)
		})
	}
}

// copied is another server with a copy of the data of one that does not run.
func (s *objectServer) copied(t *testing.T) *objectServer {
	t.Helper()
	other := &objectServer{Server: testminio.New(t, testpki.New(t))}
	other.client = other.Client(testminio.Root, testminio.RootKey)
	if err := os.CopyFS(filepath.Join(other.Dir, "data"), os.DirFS(filepath.Join(s.Dir, "data"))); err != nil {
		t.Fatal(err)
	}
	return other
}
