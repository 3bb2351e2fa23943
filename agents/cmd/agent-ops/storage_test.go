// SPDX-License-Identifier: Apache-2.0

//go:build processes

package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/zeroinfra/agents/internal/driver/postgres/wal"
	"github.com/zeroinfra/agents/internal/store"
	"github.com/zeroinfra/agents/internal/teststorage"
	"github.com/zeroinfra/platform-core/agentproto/mover"
)

// newSecret mounts another Secret.
func (n *node) newSecret(name, password, revision string) {
	n.Helper()
	if err := os.Mkdir(n.path("secrets/"+name), 0o700); err != nil {
		n.Fatal(err)
	}
	n.own(n.path("secrets/" + name))
	n.secret(name, password, revision)
}

// TestAnArchiveInABucket: a server archives with what its pod mounts, through a storage that is killed and a key that
// is wrong, and what is there is restored.
func TestAnArchiveInABucket(t *testing.T) {
	s := teststorage.New(t)
	f := newFlock(t, 1)
	f.archived(nil)
	n := f.nodes[0]
	n.put("archive.json", string(must(json.Marshal(
		map[string]string{"place": "default/shop", "archive.endpoint": s.Endpoint(), "archive.bucket": teststorage.Bucket,
			"archive.region": teststorage.Region, "archive.accessKey": teststorage.Account, "archive.alarm": "1"}))))
	n.newSecret("archive", teststorage.SecretKey+"\n", "1")
	n.newSecret("archive-ca", string(s.CA.PEM()), "1")
	n.configure("archive_command = '" + f.binary + " postgresql archive --secrets " + n.path("secrets") + " --archive " +
		n.path("archive.json") + " --notes " + n.path("run") + " --give-up 5s %p %f'")
	a, _ := f.begin(0)
	a.archives()
	backup := a.backup()
	copied := time.Now()
	a.sql("INSERT INTO t VALUES (1)")
	first := time.Now()

	s.Kill()
	a.sql("SELECT pg_switch_wal()")
	f.await("it is said that the storage is away",
		func() bool { return strings.Contains(a.state().Reason, "cannot be reached") })
	s.Start()
	a.archives()
	n.secret("archive", "another", "2")
	a.sql("INSERT INTO t VALUES (2)")
	a.sql("SELECT pg_switch_wal()")
	f.await("it is said that the key is wrong",
		func() bool { return strings.Contains(a.state().Reason, "refuses it: AccessDenied") })
	n.secret("archive", teststorage.SecretKey, "3")
	a.archives()
	if said := a.whole(); strings.Contains(said, teststorage.SecretKey) {
		t.Errorf("the key is in the log: %s", said)
	}

	place, err := store.NewS3(store.S3Options{Endpoint: s.Endpoint(), Region: teststorage.Region,
		Bucket: teststorage.Bucket, Prefix: "default/shop",
		AccessKey: teststorage.Account, SecretKey: teststorage.SecretKey, CA: s.CA.PEM()})
	if err != nil {
		t.Fatal(err)
	}
	has, err := (&wal.Archive{Store: place}).After(t.Context(), wal.Timeline{Number: 1}, -1, 100)
	if err != nil || len(has) < 3 {
		t.Errorf("the bucket has %v, %v", has, err)
	}
	r := f.restored(1, backup)
	r.recovers()
	if got := r.sql("SELECT string_agg(n::text, ' ' ORDER BY n) FROM t"); got != "1 2" {
		t.Errorf("what is restored is %q", got)
	}
	// To a time, as the mover of a new instance does it, which has the name of the account from a repository.
	n.newSecret("archive-account", teststorage.Account+"\n", "1")
	whole := snapshot{folder: backup, target: mover.Target{Since: copied, Place: "default/shop",
		Parameters: map[string]string{"archive.endpoint": s.Endpoint(),
			"archive.bucket": teststorage.Bucket, "archive.region": teststorage.Region, "archive.prefix": "default/shop",
			"archive.addressing": "path"}}}
	p, said, code := f.recovered(2, whole, first, "recover")
	if code != 0 || strings.Contains(said, teststorage.SecretKey) {
		t.Fatalf("the recovery ends with %d: %s", code, said)
	}
	p.start()
	p.answers()
	if got := p.sql("SELECT string_agg(n::text, ' ' ORDER BY n) FROM t"); got != "1" {
		t.Errorf("what is recovered is %q", got)
	}
	if _, said, code := f.recovered(3, whole, time.Now().Add(time.Minute), "recover"); code != mover.ExitOutOfRange ||
		!strings.Contains(said, "when the last transaction ended that is archived") {
		t.Errorf("after the end of the log it ends with %d: %s", code, said)
	}
}
