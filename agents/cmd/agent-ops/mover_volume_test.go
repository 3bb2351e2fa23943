// SPDX-License-Identifier: Apache-2.0

//go:build processes

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	protocol "github.com/zeroinfra/platform-core/agentproto/mover"
)

// TestMover keeps data and gives it back, in every form.
func TestMover(t *testing.T) {
	for _, compression := range []string{"", protocol.CompressionZstd, protocol.CompressionGzip,
		protocol.CompressionNone} {
		for _, encrypted := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s encrypted %v", compression, encrypted), func(t *testing.T) {
				t.Parallel()
				m := newMover(t)
				m.repository.Encrypted, m.flags = encrypted, []string{"--part-size", strconv.Itoa(9 << 20)}
				content := m.input("data", 20<<20+17)
				plan := backup("mover-1", "cat data; echo done >&2")
				plan.Backup.Compression, plan.Facts = compression, shell("echo timeline=3; echo; echo lsn=0/3000028")
				made := m.succeeds(plan)
				manifest := m.manifest()
				if made.RawSize != 20<<20+17 || made.Size < 20<<20 || made.Facts["timeline"] != "3" ||
					made.Facts["lsn"] != "0/3000028" || !strings.HasPrefix(made.Digest, "sha256:") {
					t.Errorf("the result is %+v", made)
				}
				if len(manifest.Parts) != 3 || encrypted != (manifest.Encryption != "") ||
					manifest.EndTime.Before(manifest.StartTime) {
					t.Errorf("the manifest is %+v", manifest)
				}
				for i, part := range manifest.Parts {
					data, err := os.ReadFile(m.kept(part.Name))
					if err != nil || int64(len(data)) != part.Size || i < 2 && part.Size != 9<<20 {
						t.Errorf("part %d: %d bytes of %d, %v", i, len(data), part.Size, err)
					}
					if (encrypted || compression != protocol.CompressionNone) && bytes.Contains(data, content[1<<20:1<<20+64]) &&
						encrypted {
						t.Error("the data is in the clear")
					}
				}
				metadata, err := os.ReadFile(m.kept(manifest.Metadata.Name))
				if err != nil || string(metadata) != `{"plugin":"redis"}` {
					t.Errorf("the metadata is %s, %v", metadata, err)
				}
				m.restored(content)
				verify := of(protocol.VerbInspect)
				verify.Backup.Digest = made.Digest
				if got := m.succeeds(verify); got.Digest != made.Digest || got.Size != made.Size || got.RawSize != made.RawSize ||
					got.Facts["timeline"] != "3" {
					t.Errorf("it is inspected as %+v, and was made as %+v", got, made)
				}
				if got := m.succeeds(of(protocol.VerbList)); !slices.Equal(got.Backups, []string{shopKey}) || got.Count != 1 ||
					len(got.Leftovers) > 0 {
					t.Errorf("the list is %+v", got)
				}
				for range 2 {
					m.succeeds(of(protocol.VerbDelete))
				}
				if left := m.files(); len(left) > 0 {
					t.Errorf("left are %v", left)
				}
				m.fails(restore(), protocol.ReasonNotFound, "there is no backup "+shopKey)
				if got := m.succeeds(of(protocol.VerbCheck)); got.FreeBytes == nil || *got.FreeBytes == 0 || len(m.files()) > 0 {
					t.Errorf("it is checked as %+v, left are %v", got, m.files())
				}
			})
		}
	}
}

// TestMoverCommandDecides: what does not end well, and with some data, is no backup.
func TestMoverCommandDecides(t *testing.T) {
	m := newMover(t)
	m.input("data", 12<<20)
	m.env = []string{"REDISCLI_AUTH=hunter22"}
	for script, says := range map[string]string{
		"cat data; kill -9 $$":                          "sh ended with signal SIGKILL: it said nothing",
		"cat data; echo no connection >&2; exit 3":      "sh ended with exit code 3: no connection",
		"cat data; echo with $REDISCLI_AUTH >&2; false": "with ***",
		"true":                               "wrote nothing",
		"cat data; seq 1 100000 >&2; exit 1": "99999\n100000",
		"cat data; (setsid cat data; kill -9 $$) & sleep 1000": "signal SIGKILL",
	} {
		m.fails(backup("mover-1", script), protocol.ReasonCommandFailed, says)
		if has(m.kept(protocol.ManifestName)) {
			t.Fatalf("%s has made a backup", script)
		}
		if left := m.files(); !slices.Equal(left, []string{"team/backups/" + shopKey + "/" + protocol.MarkName}) {
			t.Errorf("%s has left %v", script, left)
		}
	}
	plan := backup("mover-1", "cat data")
	plan.Facts = shell("echo no position >&2; false")
	m.fails(plan, protocol.ReasonCommandFailed, "no position")
	plan.Facts = shell("echo some words")
	m.fails(plan, protocol.ReasonCommandFailed, `"some words"`)
	plan.Facts, plan.Command = nil, []string{"no-such-tool"}
	m.fails(plan, protocol.ReasonCommandFailed, "no-such-tool")
	if got := m.succeeds(of(protocol.VerbList)); len(got.Backups) > 0 || !slices.Equal(got.Leftovers, []string{shopKey}) {
		t.Errorf("the list is %+v", got)
	}
	m.succeeds(backup("mover-2", "cat data"))
	failing := restore()
	failing.Command = shell("cat > restored; echo no space >&2; exit 1")
	m.fails(failing, protocol.ReasonCommandFailed, "no space")
	failing.Command = shell("head -c 100 > restored; exit 7")
	m.fails(failing, protocol.ReasonCommandFailed, "exit code 7")
	// One that knows from its input where that ends.
	failing.Command = shell("head -c 100 > restored")
	m.succeeds(failing)
}

// TestMoverIsTold to end: the command ends with all that it has started, and there is no backup.
func TestMoverIsTold(t *testing.T) {
	m := newMover(t)
	content := m.input("data", 20<<20)
	p := m.start(backup("mover-1", "cat data; sleep 1000 & echo $! > child; touch sent; wait"))
	m.await("the command waits", func() bool { return has(m.path("sent")) })
	if err := p.process.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if got := p.end(); got.Reason != protocol.ReasonTerminated || has(m.kept(protocol.ManifestName)) {
		t.Errorf("the result is %+v", got)
	}
	child, err := os.ReadFile(m.path("child"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(child)))
	if err != nil || syscall.Kill(pid, 0) == nil {
		t.Errorf("what the command has started is still there: %v", err)
	}
	m.succeeds(backup("mover-2", "cat data"))
	plan := restore()
	plan.BytesPerSecond = 1 << 20
	p = m.start(plan)
	m.await("the restore has begun", func() bool { return has(m.path("restored")) })
	if err := p.process.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if got := p.end(); got.Reason != protocol.ReasonTerminated || has(m.path("done")) {
		t.Errorf("the result is %+v", got)
	}
	m.restored(content)
}

// edit changes what is in a file.
func (m *carrier) edit(path string, change func([]byte) []byte) {
	m.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		m.Fatal(err)
	}
	if err := os.WriteFile(path, change(text), 0o600); err != nil {
		m.Fatal(err)
	}
}

// sets is an edit that puts one text in the place of another.
func sets(from, to string) func([]byte) []byte {
	return func(text []byte) []byte { return bytes.Replace(text, []byte(from), []byte(to), 1) }
}

// TestMoverRefusesDamage, and a restore never comes to its end then.
func TestMoverRefusesDamage(t *testing.T) {
	m := newMover(t)
	m.repository.Encrypted, m.flags = true, []string{"--part-size", strconv.Itoa(17 << 20)}
	content := m.input("data", 40<<20)
	made := m.succeeds(backup("mover-1", "cat data"))
	manifest := m.manifest()
	if err := os.Rename(m.path("volume"), m.path("good")); err != nil {
		t.Fatal(err)
	}
	first, second, edit := m.kept(manifest.Parts[0].Name), m.kept(manifest.Parts[1].Name), m.edit
	for what, c := range map[string]struct {
		damage       func()
		reason, says string
	}{
		"another byte": {func() { edit(second, func(b []byte) []byte { b[5] ^= 1; return b }) }, protocol.ReasonDamaged,
			"cannot be unpacked"},
		"the last byte": {func() { edit(first, func(b []byte) []byte { b[len(b)-1] ^= 1; return b }) },
			protocol.ReasonDamaged, "its SHA-256 is another"},
		"truncated": {func() { edit(second, func(b []byte) []byte { return b[:len(b)-1] }) }, protocol.ReasonDamaged,
			"has 17825791 bytes, and had 17825792"},
		"longer": {func() { edit(second, func(b []byte) []byte { return append(b, 0) }) }, protocol.ReasonDamaged,
			"bytes, and had"},
		"missing": {func() { _ = os.Remove(second) }, protocol.ReasonDamaged, "data-00002 is missing"},
		"swapped": {func() {
			_ = os.Rename(first, second+"x")
			_ = os.Rename(second, first)
			_ = os.Rename(second+"x", second)
		}, protocol.ReasonDamaged, "cannot be unpacked"},
		"no metadata": {func() { _ = os.Remove(m.kept(manifest.Metadata.Name)) }, protocol.ReasonDamaged, "is missing"},
		"other metadata": {func() { edit(m.kept(manifest.Metadata.Name), sets("redis", "mysql")) }, protocol.ReasonDamaged,
			"metadata.json is not what it was"},
		"no manifest": {func() { _ = os.Remove(m.kept(protocol.ManifestName)) }, protocol.ReasonNotFound,
			"there is no backup"},
		"half a manifest": {func() { edit(m.kept(protocol.ManifestName), func(b []byte) []byte { return b[:len(b)/2] }) },
			protocol.ReasonDamaged, "the manifest cannot be read"},
		"newer": {func() { edit(m.kept(protocol.ManifestName), sets(`"formatVersion": 1`, `"formatVersion": 5`)) },
			protocol.ReasonUnsupported, "use a newer one"},
		"of objects": {func() { edit(m.kept(protocol.ManifestName), sets(`"formatVersion": 1`, `"formatVersion": 3`)) },
			protocol.ReasonDamaged, "has the format version 3 and no objects"},
		"of files": {func() { edit(m.kept(protocol.ManifestName), sets(`"formatVersion": 1`, `"formatVersion": 4`)) },
			protocol.ReasonDamaged, "has the format version 4, and no files"},
		"another's": {func() { edit(m.kept(protocol.ManifestName), sets(shopKey, "production/other/x")) },
			protocol.ReasonDamaged, `of the backup "production/other/x"`},
		"another path": {func() {
			edit(m.kept(protocol.ManifestName), sets(manifest.Parts[0].Name, "../../other/data-00001"))
		}, protocol.ReasonDamaged, "as part 1"},
	} {
		if err := os.RemoveAll(m.path("volume")); err != nil {
			t.Fatal(err)
		}
		if err := os.CopyFS(m.path("volume"), os.DirFS(m.path("good"))); err != nil {
			t.Fatal(err)
		}
		c.damage()
		t.Log(what)
		m.fails(restore(), c.reason, c.says)
		if has(m.path("done")) {
			t.Fatalf("%s: the command has come to its end", what)
		}
		m.fails(of(protocol.VerbInspect), c.reason, c.says)
	}
	if err := os.RemoveAll(m.path("volume")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(m.path("good"), m.path("volume")); err != nil {
		t.Fatal(err)
	}
	other := restore()
	other.Backup.Digest = "sha256:" + strings.Repeat("0", 64)
	m.fails(other, protocol.ReasonDamaged, "its digest is "+made.Digest)
	m.write("passphrase", []byte("another passphrase than before"))
	m.fails(restore(), protocol.ReasonWrongPassphrase, "another passphrase")
	m.write("passphrase", []byte("short"))
	m.fails(restore(), protocol.ReasonBadPlan, "give it 16 or more")
	m.repository.Encrypted = false
	m.fails(restore(), protocol.ReasonBadPlan, "the repository has no passphrase")
	m.repository.Encrypted = true
	m.write("passphrase", []byte(passphrase))
	m.restored(content)
}

// TestMoverAttempts: of two attempts at once the later makes the backup, and of two one after another the first, when
// it was whole.
func TestMoverAttempts(t *testing.T) {
	m := newMover(t)
	m.flags = []string{"--part-size", strconv.Itoa(8 << 20)}
	m.input("old", 20<<20)
	if err := syscall.Mkfifo(m.path("gate"), 0o600); err != nil {
		t.Fatal(err)
	}
	first := m.start(backup("mover-1", "cat old; touch sent; cat gate"))
	m.await("the first attempt has sent something", func() bool { return has(m.path("sent")) })
	made := m.succeeds(backup("mover-2", "echo new"))
	gate, err := os.OpenFile(m.path("gate"), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	gate.Close()
	if got := first.end(); got.Reason != protocol.ReasonSuperseded || !strings.Contains(got.Message, `"mover-2"`) {
		t.Errorf("the first attempt ended with %+v", got)
	}
	m.restored([]byte("new\n"))
	if runs, err := filepath.Glob(m.kept("*", "data-*")); err != nil || len(runs) != 1 {
		t.Errorf("there are %v, %v", runs, err)
	}
	// Nobody was told of it, and another attempt comes.
	if again := m.succeeds(backup("mover-3", "touch again; echo newer")); again.Digest != made.Digest ||
		again.RawSize != made.RawSize || has(m.path("again")) {
		t.Errorf("what was made is made again: %+v, and before %+v", again, made)
	}
	// One that is not whole is none.
	if err := os.Remove(m.kept(m.manifest().Parts[0].Name)); err != nil {
		t.Fatal(err)
	}
	m.succeeds(backup("mover-4", "echo newest"))
	m.restored([]byte("newest\n"))
	// One that is deleted while it is made does not come back.
	late := m.start(protocol.Plan{Verb: protocol.VerbBackup, Command: shell("touch begun; cat gate"),
		Backup: &protocol.Backup{Key: "production/shop/late-1a2b3c4d", Attempt: "mover-1"}})
	m.await("it is being made", func() bool { return has(m.path("begun")) })
	m.succeeds(protocol.Plan{Verb: protocol.VerbDelete, Backup: &protocol.Backup{Key: "production/shop/late-1a2b3c4d"}})
	if err := os.WriteFile(m.path("gate"), []byte("late"), 0); err != nil {
		t.Fatal(err)
	}
	if got := late.end(); got.Reason != protocol.ReasonSuperseded || !strings.Contains(got.Message, "deleted") {
		t.Errorf("a deleted one ended with %+v", got)
	}
	m.succeeds(of(protocol.VerbDelete))
	if left := m.files(); len(left) > 0 {
		t.Errorf("left are %v", left)
	}
}

// TestMoverIsKilled: what is left is listed, another attempt or a deletion removes it.
func TestMoverIsKilled(t *testing.T) {
	m := newMover(t)
	m.flags = []string{"--part-size", strconv.Itoa(8 << 20)}
	m.input("data", 20<<20)
	for _, next := range []protocol.Plan{backup("mover-2", "echo new"), of(protocol.VerbDelete)} {
		p := m.start(backup("mover-1", "cat data; touch sent; sleep 1000"))
		m.await("it has sent something", func() bool { return has(m.path("sent")) })
		if err := p.process.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		<-p.ended
		if got := m.succeeds(of(protocol.VerbList)); len(got.Backups) > 0 || !slices.Equal(got.Leftovers, []string{shopKey}) {
			t.Errorf("the list is %+v", got)
		}
		m.succeeds(next)
		m.succeeds(of(protocol.VerbList))
		if runs, err := filepath.Glob(m.kept("*", "data-*")); err != nil || len(runs) > 1 {
			t.Errorf("there are %v, %v", runs, err)
		}
		m.succeeds(of(protocol.VerbDelete))
		if left := m.files(); len(left) > 0 {
			t.Errorf("left are %v", left)
		}
		if err := os.Remove(m.path("sent")); err != nil {
			t.Fatal(err)
		}
	}
}

// TestMoverOfAVolumeThatIsFull, or hangs, or is not there.
func TestMoverOfAVolumeThatIsFull(t *testing.T) {
	m := newMover(t)
	m.input("data", 40<<20)
	m.wrap = []string{"unshare", "--map-root-user", "--mount", "sh", "-c",
		`mount -t tmpfs -o size=24m none "$0" && exec "$@"`, m.path("volume")}
	m.fails(backup("mover-1", "cat data"), protocol.ReasonNoRoom, "no space left on device")
	m.wrap[5] = `mount -t tmpfs -o size=24m,ro none "$0" && exec "$@"`
	m.fails(backup("mover-1", "cat data"), protocol.ReasonRefused, "read-only file system")
	m.wrap = nil
	m.succeeds(backup("mover-1", "cat data"))
	if err := os.Remove(m.kept(protocol.ManifestName)); err != nil {
		t.Fatal(err)
	}
	// Whoever opens it waits for a primary.
	if err := syscall.Mkfifo(m.kept(protocol.ManifestName), 0o600); err != nil {
		t.Fatal(err)
	}
	m.flags = []string{"--answer", "300ms"}
	begun := time.Now()
	m.fails(restore(), protocol.ReasonUnreachable, "it did not answer within 300ms")
	if waited := time.Since(begun); waited > patience {
		t.Errorf("it waited for %v", waited)
	}
	if err := os.RemoveAll(m.path("volume")); err != nil {
		t.Fatal(err)
	}
	m.fails(of(protocol.VerbCheck), protocol.ReasonUnreachable, "is its volume mounted?")
}

// maxMover is what a mover has in memory at most, in KiB.
const maxMover = 128 << 10

// TestMoverMemory moves a gibibyte that nothing makes smaller, both ways, with everything that takes memory.
func TestMoverMemory(t *testing.T) {
	m := newMover(t)
	m.repository.Encrypted = true
	const peak = `awk '/VmHWM/{print $2}' /proc/$PPID/status`
	plan := backup("mover-1", "head -c 1073741824 /dev/urandom")
	plan.Facts = shell("echo peak=$(" + peak + ")")
	made := m.succeeds(plan)
	plan = restore()
	plan.Command = shell("cat > /dev/null; " + peak + " > restored")
	m.succeeds(plan)
	after, err := os.ReadFile(m.path("restored"))
	if err != nil {
		t.Fatal(err)
	}
	for verb, text := range map[string]string{"backup": made.Facts["peak"], "restore": strings.TrimSpace(string(after))} {
		if kib, err := strconv.Atoi(text); err != nil || kib > maxMover {
			t.Errorf("a %s of 1 GiB took %s KiB, %v; at most %d are allowed", verb, text, err, maxMover)
		} else {
			t.Logf("a %s of 1 GiB took %d MiB", verb, kib>>10)
		}
	}
}

// TestMoverPace holds the data back.
func TestMoverPace(t *testing.T) {
	m := newMover(t)
	content := m.input("data", 3<<20)
	plan := backup("mover-1", "cat data")
	plan.BytesPerSecond, plan.Backup.Compression = 1<<20, protocol.CompressionNone
	begun := time.Now()
	m.succeeds(plan)
	if took := time.Since(begun); took < 1500*time.Millisecond {
		t.Errorf("3 MiB at 1 MiB/s took %v", took)
	}
	m.restored(content)
}

// TestMoverPlans that are none.
func TestMoverPlans(t *testing.T) {
	m := newMover(t)
	key := func(key string) protocol.Plan {
		plan := restore()
		plan.Backup.Key = key
		return plan
	}
	for _, k := range []string{"", "..", "../other", "a/../../b", "/a", "a/", "a//b", "a/./b", "a b", "ä"} {
		m.fails(key(k), protocol.ReasonBadPlan, "is no path of a folder")
	}
	for _, prefix := range []string{"..", "a/../..", "a//b"} {
		plan := restore()
		plan.Repository = protocol.Repository{Type: protocol.TypeVolume, Prefix: prefix}
		m.fails(plan, protocol.ReasonBadPlan, "is no path of a folder")
	}
	m.fails(protocol.Plan{Verb: "copy"}, protocol.ReasonBadPlan, `the verb "copy" is none of`)
	m.fails(protocol.Plan{Verb: protocol.VerbBackup, Command: shell("true")}, protocol.ReasonBadPlan, "needs a backup")
	m.fails(backup("", "true"), protocol.ReasonBadPlan, "has the attempt")
	plan := backup("mover-1", "true")
	plan.Backup.Compression = "Brotli"
	m.fails(plan, protocol.ReasonBadPlan, `"Brotli" is none of`)
	plan.Repository = protocol.Repository{Type: "Tape"}
	m.fails(plan, protocol.ReasonBadPlan, "of the repository is none of")
	plan = of(protocol.VerbCheck)
	plan.Repository = protocol.Repository{Type: protocol.TypeS3, Endpoint: "https://s3.example.com", Bucket: "b"}
	m.fails(plan, protocol.ReasonBadPlan, "no accessKey or no secretKey")
	if left := m.files(); len(left) > 0 {
		t.Errorf("a plan that is none has made %v", left)
	}
}

// TestMoverCatalogue compares what is there with what is known: what is whole and of which nobody knows, what is left
// over, and what is not there.
func TestMoverCatalogue(t *testing.T) {
	m := newMover(t)
	keep := func(key, file string) {
		path := m.path("volume", "team", "backups", key, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const run = "0123456789abcdef/data-00001"
	for _, key := range []string{"shop/a/known-1", "shop/a/fresh-2", "shop/a/old-3", "shop/b/older-4",
		"store/a/foreign-5"} {
		keep(key, protocol.ManifestName)
		keep(key, run)
	}
	for _, key := range []string{"shop/a/begun-6", "shop/a/dead-7"} {
		keep(key, run)
	}
	keep("shop/a/_files", "config")
	keep("shop/a/_files", "data/01/0123")
	keep("shop/b/_files-encrypted", "keys/ab")
	keep("store/a/_files", "config")
	keep("shop/a/other", "what/is/foreign")
	plan := of(protocol.VerbList)
	plan.Catalogue = &protocol.Catalogue{Folder: "shop",
		Whole: []string{protocol.KeyDigest("shop/a/known-1"), protocol.KeyDigest("shop/a/lost-8")},
		Others: []string{protocol.KeyDigest("shop/a/fresh-2"), protocol.KeyDigest("shop/a/begun-6"),
			protocol.KeyDigest("shop/a/never-9")}}
	got := m.succeeds(plan)
	// Two bytes each of four manifests, six pieces of data and three files of restic.
	if got.KeptBytes != 26 {
		t.Errorf("they have %d bytes", got.KeptBytes)
	}
	if got.Count != 4 || got.Unknown != 2 || !slices.Equal(got.Backups, []string{"shop/a/old-3", "shop/b/older-4"}) {
		t.Errorf("unknown are %+v", got)
	}
	if got.Unfinished != 1 || !slices.Equal(got.Leftovers, []string{"shop/a/dead-7"}) || got.Lost != 1 ||
		!slices.Equal(got.Missing, []string{protocol.KeyDigest("shop/a/lost-8")}) {
		t.Errorf("left over and missing are %+v", got)
	}
}
