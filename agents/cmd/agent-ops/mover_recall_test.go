// SPDX-License-Identifier: Apache-2.0

//go:build processes

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	protocol "github.com/zeroinfra/platform-core/agentproto/mover"
)

// keeps makes a backup under a key, whose metadata are those that an operator writes.
func (m *carrier) keeps(key string) protocol.Result {
	m.Helper()
	plan := backup("mover-1", "echo "+key)
	plan.Facts = shell("echo role=master")
	plan.Backup.Key = key
	plan.Backup.Metadata = json.RawMessage(
		`{"backup":"nightly","domain":"database","method":"rdb","plugin":{"name":"redis","version":"1.2.3",` +
			`"digest":"sha256:` + strings.Repeat("ab", 32) +
			`"},"version":"7.0","source":{"pod":"a-0","component":"redis","set":"redis"},` +
			`"application":{"namespace":"shop","name":"a","uid":"u","spec":{"plugin":"redis"}}}`)
	return m.succeeds(plan)
}

// recalled runs a recall after a key, and unpacks the page.
func (m *carrier) recalled(after string, known ...string) *protocol.Recall {
	m.Helper()
	plan := of(protocol.VerbRecall)
	plan.Catalogue = &protocol.Catalogue{Folder: "shop", After: after}
	for _, key := range known {
		plan.Catalogue.Whole = append(plan.Catalogue.Whole, protocol.KeyDigest(key))
	}
	page, err := protocol.Unpack(m.succeeds(plan).Recall)
	if err != nil {
		m.Fatal(err)
	}
	return page
}

func keysOf(page *protocol.Recall) (keys []string) {
	for _, record := range page.Records {
		keys = append(keys, record.Key)
	}
	return keys
}

// TestMoverRecall tells of what nobody knows all that its object is made of, and names what cannot be restored.
func TestMoverRecall(t *testing.T) {
	m := newMover(t)
	made := m.keeps("shop/a/old-00000001")
	for _, key := range []string{"shop/a/cut-00000002", "shop/a/known-00000003", "shop/a/half-00000004",
		"shop/b/bad-00000005", "store/a/foreign-00000006"} {
		m.keeps(key)
	}
	folder := func(key string) string { return m.path("volume", "team", "backups", key) }
	if err := os.Remove(folder("shop/a/half-00000004") + "/" + protocol.ManifestName); err != nil {
		t.Fatal(err)
	}
	for key, name := range map[string]string{"shop/a/cut-00000002": "data-00001", "shop/b/bad-00000005": "metadata.json"} {
		entries, err := os.ReadDir(folder(key))
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			if !entry.IsDir() {
				continue
			}
			path := folder(key) + "/" + entry.Name() + "/" + name
			text := must(os.ReadFile(path))
			if name == "data-00001" {
				text = text[:len(text)-1]
			} else {
				text[len(text)-1] = ' '
			}
			if err := os.WriteFile(path, text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	page := m.recalled("", "shop/a/known-00000003")
	if !slices.Equal(keysOf(page), []string{"shop/a/old-00000001"}) || page.Left != 0 ||
		page.Last != "shop/b/bad-00000005" {
		t.Fatalf("the page is %+v", page)
	}
	got := page.Records[0]
	if got.Digest != made.Digest || got.Size != made.Size || got.RawSize != made.RawSize ||
		got.Facts["role"] != "master" || got.StartTime.IsZero() || got.EndTime.Before(got.StartTime) {
		t.Errorf("it was made as %+v, and is recalled as %+v", made, got)
	}
	if o := got.Origin; o.Backup != "nightly" || o.Domain != "database" || o.Method != "rdb" || o.Version != "7.0" ||
		o.Application.Name != "a" || !strings.Contains(string(o.Plugin), "1.2.3") ||
		!strings.Contains(string(o.Source), "a-0") {
		t.Errorf("it comes from %+v", o)
	}
	var reasons []string
	for _, failure := range page.Failures {
		reasons = append(reasons, failure.Key+" "+failure.Reason)
	}
	if want := []string{"shop/a/cut-00000002 BackupDamaged", "shop/a/half-00000004 BackupNotFound",
		"shop/b/bad-00000005 BackupDamaged"}; !slices.Equal(reasons, want) {
		t.Errorf("failures are %+v, want %v", page.Failures, want)
	}
}

// TestMoverRecallsPages: however many there are, each page fits, and together they are all.
func TestMoverRecallsPages(t *testing.T) {
	m := newMover(t)
	var want []string
	for i := range 60 {
		want = append(want, fmt.Sprintf("shop/a/nightly-20260301-%04d-%08x", i, i*7919))
		m.keeps(want[i])
	}
	var got []string
	for after, pages := "", 0; ; pages++ {
		page := m.recalled(after)
		if page.Last <= after || pages > len(want)/8 {
			t.Fatalf("page %d after %q is %d records up to %q", pages, after, len(page.Records), page.Last)
		}
		got, after = append(got, keysOf(page)...), page.Last
		if page.Left == 0 {
			break
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("the pages have %d backups: %v", len(got), got)
	}
}

// TestMoverRecallsEncrypted: whether the passphrase is that of the backups is known before anybody restores one.
func TestMoverRecallsEncrypted(t *testing.T) {
	m := newMover(t)
	m.repository.Encrypted = true
	m.keeps("shop/a/old-00000001")
	if page := m.recalled(""); len(page.Records) != 1 || len(page.Failures) != 0 {
		t.Errorf("with its passphrase it is %+v", page)
	}
	m.write("passphrase", []byte("another passphrase that is long"))
	if page := m.recalled(""); len(page.Records) != 0 || len(page.Failures) != 1 ||
		page.Failures[0].Reason != protocol.ReasonWrongPassphrase {
		t.Errorf("with another one it is %+v", page)
	}
	m.repository.Encrypted = false
	if page := m.recalled(""); len(page.Records) != 0 || len(page.Failures) != 1 ||
		!strings.Contains(page.Failures[0].Message, "no passphrase") {
		t.Errorf("without one it is %+v", page)
	}
}
