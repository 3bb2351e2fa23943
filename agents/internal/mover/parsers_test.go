// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/zeroinfra/agents/internal/store"
	"github.com/zeroinfra/platform-core/agentproto/mover"
)

const (
	key = "production/shop/nightly-1a2b3c4d"
	run = "0123456789abcdef"
)

var sum = strings.Repeat("0", 64)

func manifestOf(change func(*mover.Manifest)) []byte {
	manifest := &mover.Manifest{FormatVersion: 1, Key: key, Compression: mover.CompressionZstd, RawSize: 10,
		RawSHA256: sum,
		Metadata:  mover.Part{Name: run + "/metadata.json", Size: 2, SHA256: sum},
		Parts: []mover.Part{{Name: run + "/data-00001", Size: 5, SHA256: sum},
			{Name: run + "/data-00002", Size: 3, SHA256: sum}}}
	change(manifest)
	text, err := json.Marshal(manifest)
	if err != nil {
		panic(err)
	}
	return text
}

func TestManifests(t *testing.T) {
	if _, err := readManifest(manifestOf(func(*mover.Manifest) {}), key); err != nil {
		t.Fatal(err)
	}
	for what, change := range map[string]func(*mover.Manifest){
		"no version":            func(m *mover.Manifest) { m.FormatVersion = 0 },
		"another key":           func(m *mover.Manifest) { m.Key = "production/shop/other" },
		"another compression":   func(m *mover.Manifest) { m.Compression = "Brotli" },
		"another encryption":    func(m *mover.Manifest) { m.Encryption = "None" },
		"no data":               func(m *mover.Manifest) { m.Parts = nil },
		"nothing in it":         func(m *mover.Manifest) { m.RawSize = 0 },
		"no sum":                func(m *mover.Manifest) { m.RawSHA256 = "" },
		"another order":         func(m *mover.Manifest) { m.Parts[0], m.Parts[1] = m.Parts[1], m.Parts[0] },
		"a gap":                 func(m *mover.Manifest) { m.Parts[1].Name = run + "/data-00003" },
		"one part twice":        func(m *mover.Manifest) { m.Parts[1] = m.Parts[0] },
		"two attempts":          func(m *mover.Manifest) { m.Parts[1].Name = "fedcba9876543210/data-00002" },
		"a way out":             func(m *mover.Manifest) { m.Parts[0].Name = "../" + run + "/data-00001" },
		"another's metadata":    func(m *mover.Manifest) { m.Metadata.Name = "metadata.json" },
		"metadata without sum":  func(m *mover.Manifest) { m.Metadata.SHA256 = "x" },
		"an empty part":         func(m *mover.Manifest) { m.Parts[0].Size = 0 },
		"a part without sum":    func(m *mover.Manifest) { m.Parts[1].SHA256 = sum + "00" },
		"a part of a stream":    func(m *mover.Manifest) { m.Parts[0].Stream = "0" },
		"the newer format":      func(m *mover.Manifest) { m.FormatVersion = mover.FormatVersion },
		"metadata without size": func(m *mover.Manifest) { m.Metadata.Size = -1 },
	} {
		if _, err := readManifest(manifestOf(change), key); err == nil || reasonOf(err) != mover.ReasonDamaged {
			t.Errorf("%s: %v", what, err)
		}
	}
	newer := manifestOf(func(m *mover.Manifest) { m.FormatVersion, m.Compression = mover.FormatVersion+1, "Brotli" })
	if _, err := readManifest(newer, key); err == nil || reasonOf(err) != mover.ReasonUnsupported {
		t.Errorf("a newer one: %v", err)
	}
}

func FuzzManifest(f *testing.F) {
	f.Add(manifestOf(func(*mover.Manifest) {}))
	f.Add(manifestOf(func(m *mover.Manifest) { m.Parts[0].Name = "../x" }))
	f.Add([]byte(`{"formatVersion":2}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		manifest, err := readManifest(text, key)
		if err != nil {
			if !errors.As(err, new(*failure)) {
				t.Errorf("%v has no reason", err)
			}
			return
		}
		for _, part := range append(manifest.Parts, manifest.Metadata) {
			if !store.IsName(part.Name) || part.Size < 0 || strings.Count(part.Name, "/") != 1 {
				t.Errorf("a part is %+v", part)
			}
		}
	})
}

func FuzzPlan(f *testing.F) {
	f.Add([]byte(
		`{"verb":"backup","repository":{"type":"Volume","prefix":"a/b"},"backup":{"key":"a/b","attempt":"x","metadata":{}},` +
			`"command":["x"],"facts":["y"]}`))
	f.Add([]byte(
		`{"verb":"inspect","repository":{"type":"S3","endpoint":"https://x","bucket":"b"},"backup":{"key":"../x"},` +
			`"verify":true}`))
	f.Add([]byte(`{"verb":"list","repository":{"type":"Volume"}} {}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		plan, err := ReadPlan(text)
		if err != nil {
			return
		}
		if plan.Backup != nil && !store.IsName(plan.Backup.Key) || strings.Contains(plan.Repository.Prefix, "..") &&
			!store.IsName(strings.Trim(plan.Repository.Prefix, "/")) {
			t.Errorf("the plan %s was taken", text)
		}
		if plan.Backup == nil && plan.Verb != mover.VerbCheck && plan.Verb != mover.VerbList {
			t.Errorf("the plan %s was taken", text)
		}
	})
}

func FuzzFacts(f *testing.F) {
	f.Add("timeline=3\nlsn=0/3000028\n")
	f.Add("a=b=c\r\n\n=")
	f.Fuzz(func(t *testing.T, text string) {
		facts, err := readFacts(text, factsOfOne)
		if err != nil {
			return
		}
		if _, err := Encode(mover.Result{Facts: facts, Message: strings.Repeat("\"", maxMessage), Digest: "sha256:" +
			sum}); err != nil {
			t.Errorf("%d facts do not fit: %v", len(facts), err)
		}
	})
}

// TestPlansOfWhatIsNotKnown are refused: it would not be done.
func TestPlansOfWhatIsNotKnown(t *testing.T) {
	for _, text := range []string{
		`{"verb":"list","repository":{"type":"Volume"},"since":"2020"}`,
		`{"verb":"list","repository":{"type":"Volume"},"catalogue":{"folder":"../x"}}`,
		`{"verb":"list","repository":{"type":"Volume"},"catalogue":{"whole":["0123456789ab"]}}`,
		`{"verb":"check","repository":{"type":"Volume"},"catalogue":{"folder":"shop"}}`,
		`{"verb":"list","repository":{"type":"Volume"}} {}`,
		`{"verb":"list","repository":{"type":"Volume"},"command":["rm"]}`,
		`{"verb":"list","repository":{"type":"Volume"},"verify":true}`,
		`{"verb":"list","repository":{"type":"Volume","bucket":"b"}}`,
		`{"verb":"list","repository":{"type":"S3","endpoint":"https://x"}}`,
		`{"verb":"list","repository":{"type":"S3","endpoint":"https://x","bucket":"b","addressing":"Host"}}`,
		`{"verb":"delete","repository":{"type":"Volume"},"backup":{"key":"a","digest":"md5:0"}}`,
		`{"verb":"delete","repository":{"type":"Volume"},"backup":{"key":"a"},"bytesPerSecond":-1}`,
		`{"verb":"restore","repository":{"type":"Volume"},"backup":{"key":"a"}}`,
		`[]`, ``,
	} {
		if plan, err := ReadPlan([]byte(text)); err == nil {
			t.Errorf("%s was taken for %+v", text, plan)
		}
	}
}

// TestResultsFit into a termination message, whatever is in them.
func TestResultsFit(t *testing.T) {
	result := mover.Result{Message: strings.Repeat("é\n", 3000), Digest: "sha256:" + sum, Count: 1000,
		Facts: map[string]string{}}
	for i := range 200 {
		result.Backups = append(result.Backups, fmt.Sprintf("production/shop/nightly-%08d", i))
		result.Leftovers = append(result.Leftovers, fmt.Sprintf("production/shop/other-%08d", i))
	}
	for i := range maxMissing {
		result.Missing = append(result.Missing, mover.KeyDigest(fmt.Sprint(i)))
	}
	text, err := Encode(result)
	if err != nil || len(text) > mover.MaxResult {
		t.Fatalf("%d bytes, %v", len(text), err)
	}
	result.Message = ""
	var told mover.Result
	if text, err = Encode(result); err == nil {
		err = json.Unmarshal(text, &told)
	}
	if err != nil || len(text) < mover.MaxResult/2 || len(told.Backups) == 0 || len(told.Leftovers) == 0 ||
		told.Count != 1000 || len(told.Missing) != maxMissing {
		t.Errorf("%d bytes with %d and %d of %d, %v", len(text), len(told.Backups), len(told.Leftovers), told.Count, err)
	}
}

// TestSecretsAreHidden wherever a command may say them.
func TestSecretsAreHidden(t *testing.T) {
	hide := secretsOf([]string{"PGPASSWORD=hunter22", "REDISCLI_AUTH=letmein", "PWD=/data", "HOME=/root",
		"MYSQL_PWD=swordfish", "AWS_SECRET_ACCESS_KEY=wJalr", "EMPTY_TOKEN="}, "a key")
	if got := hide.from("hunter22 letmein /data /root swordfish wJalr a key"); got != "*** *** /data /root *** *** ***" {
		t.Errorf("told is %q", got)
	}
}
