// SPDX-License-Identifier: Apache-2.0

//go:build processes

package main

import (
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zeroinfra/agents/internal/teststorage"
	protocol "github.com/zeroinfra/platform-core/agentproto/mover"
)

// fileCarrier carries the files of a folder.
type fileCarrier struct {
	*carrier
	folder string
}

func newFiles(t *testing.T) *fileCarrier {
	t.Helper()
	if _, err := exec.LookPath("restic"); err != nil {
		t.Fatal("there is no restic: run make tool-restic, and have bin in PATH")
	}
	f := &fileCarrier{carrier: newMover(t), folder: filepath.Join(t.TempDir(), "data")}
	f.put("index.html", strings.Repeat("hello ", 1000))
	f.put("pictures/one", strings.Repeat("one", 100_000))
	f.put("pictures/two", strings.Repeat("two", 100_000))
	if err := os.Symlink("one", filepath.Join(f.folder, "pictures", "first")); err != nil {
		t.Fatal(err)
	}
	f.put(".zeroinfra.identity", "of this volume alone")
	f.put("lost+found/x", "of the file system")
	return f
}

func (f *fileCarrier) put(name, content string) {
	f.Helper()
	path := filepath.Join(f.folder, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		f.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o640); err != nil {
		f.Fatal(err)
	}
}

// filesKey is that of a backup of the instance.
func filesKey(name string) string { return "production/site/" + name + "-1a2b3c4d" }

// backup is the plan of one.
func (f *fileCarrier) backup(name string, exclude ...string) protocol.Plan {
	return protocol.Plan{Verb: protocol.VerbBackup, Files: &protocol.Files{Folder: f.folder, Exclude: exclude},
		Backup: &protocol.Backup{Key: filesKey(name), Attempt: "mover-1"}}
}

func filesOf(verb protocol.Verb, name string) protocol.Plan {
	return protocol.Plan{Verb: verb, Files: &protocol.Files{}, Backup: &protocol.Backup{Key: filesKey(name)}}
}

// restored puts a backup on a volume of its own, and lists what is there: paths, modes and contents.
func (f *fileCarrier) restored(name string) map[string]string {
	f.Helper()
	volume := f.T.TempDir()
	plan := filesOf(protocol.VerbRestore, name)
	plan.Volume = &protocol.TargetVolume{Folder: volume, ID: "uid-1"}
	f.succeeds(plan)
	// What a mover leaves beside the data is not of the data.
	if err := os.Remove(filepath.Join(volume, protocol.RestoredName)); err != nil {
		f.Error(err)
	}
	return f.listed(volume)
}

func (f *fileCarrier) listed(folder string) map[string]string {
	f.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(folder, path)
		if strings.HasPrefix(name, protocol.OwnPrefix) || strings.HasPrefix(name, "lost+found") || name == "." {
			return nil
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		text := info.Mode().String() + " " + info.ModTime().String()
		switch {
		case info.Mode().Type() == fs.ModeSymlink:
			to, err := os.Readlink(path)
			if err != nil {
				return err
			}
			text = "to " + to
		case info.Mode().IsRegular():
			text += " " + string(must(os.ReadFile(path)))
		}
		all[name] = text
		return nil
	})
	if err != nil {
		f.Fatal(err)
	}
	return all
}

func (f *fileCarrier) same(got, want map[string]string) {
	f.Helper()
	for name, text := range want {
		if got[name] != text {
			f.Errorf("%s is %.80q, and was %.80q", name, got[name], text)
		}
	}
	for name := range got {
		if _, was := want[name]; !was {
			f.Errorf("there is %s, and there was not", name)
		}
	}
}

// kept is how many bytes the repository has of the instance.
func (f *fileCarrier) kept() int64 {
	f.Helper()
	return f.sizeOf(f.path("volume"))
}

// sizeOf is how many bytes are in a folder.
func (f *fileCarrier) sizeOf(folder string) (size int64) {
	f.Helper()
	err := filepath.WalkDir(folder, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		size += info.Size()
		return err
	})
	if err != nil {
		f.Fatal(err)
	}
	return size
}

// TestFilesInStorages: what is there already is not sent again, each backup is whole by itself, and what none has any
// more goes.
func TestFilesInStorages(t *testing.T) {
	t.Parallel()
	places := map[string]func(f *fileCarrier){
		"a volume":           func(*fileCarrier) {},
		"an encrypted one":   func(f *fileCarrier) { f.repository.Encrypted = true },
		"a bucket":           func(f *fileCarrier) { f.inBucket() },
		"an encrypted one's": func(f *fileCarrier) { f.inBucket(); f.repository.Encrypted = true },
	}
	for name, place := range places {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFiles(t)
			place(f)
			first := f.listed(f.folder)
			made := f.succeeds(f.backup("a"))
			if made.RawSize != 606_000 || made.Facts["files"] != "3" || made.Digest == "" {
				t.Errorf("it is %+v", made)
			}
			f.put("pictures/three", strings.Repeat("three", 10_000))
			if err := os.Remove(filepath.Join(f.folder, "pictures", "two")); err != nil {
				t.Fatal(err)
			}
			second := f.listed(f.folder)
			if more := f.succeeds(f.backup("b")); more.RawSize != 356_000 || more.Size > 30_000 {
				t.Errorf("the second is %+v", more)
			}
			f.same(f.restored("a"), first)
			f.same(f.restored("b"), second)
			f.succeeds(filesOf(protocol.VerbDelete, "a"))
			f.same(f.restored("b"), second)
			gone := filesOf(protocol.VerbRestore, "a")
			gone.Volume = &protocol.TargetVolume{Folder: t.TempDir(), ID: "uid-1"}
			f.fails(gone, protocol.ReasonNotFound, "there is no backup")
			f.succeeds(filesOf(protocol.VerbDelete, "a"))
			f.succeeds(filesOf(protocol.VerbDelete, "b"))
			if list := f.succeeds(protocol.Plan{Verb: protocol.VerbList}); list.Count != 0 || list.Unfinished != 0 {
				t.Errorf("the list has %+v", list)
			}
		})
	}
}

// inBucket has the repository in one, with a folder.
func (f *fileCarrier) inBucket() {
	s := teststorage.New(f.T)
	f.repository = protocol.Repository{Type: protocol.TypeS3, Prefix: "team/backups", Endpoint: s.Endpoint(),
		Bucket: teststorage.Bucket, Region: teststorage.Region}
	f.write("credentials/accessKey", []byte(teststorage.Account))
	f.write("credentials/secretKey", []byte(teststorage.SecretKey))
	f.write("credentials/ca.crt", s.CA.PEM())
}

// TestFilesAreReclaimedFromStorages: what no backup has goes with the last one that had it.
func TestFilesAreReclaimedFromStorages(t *testing.T) {
	t.Parallel()
	f := newFiles(t)
	f.input("random", 8<<20)
	f.put("large", string(must(os.ReadFile(f.path("random")))))
	f.succeeds(f.backup("a"))
	if err := os.Remove(filepath.Join(f.folder, "large")); err != nil {
		t.Fatal(err)
	}
	f.succeeds(f.backup("b", "pictures"))
	before := f.kept()
	f.succeeds(filesOf(protocol.VerbDelete, "a"))
	if after := f.kept(); before < 8<<20 || after > 1<<20 {
		t.Errorf("%d bytes are kept after one was deleted, and %d before", after, before)
	}
	if got := f.restored("b"); len(got) != 1 || got["index.html"] == "" {
		t.Errorf("what was left out is there: %v", got)
	}
}

// TestFilesSurviveKillsInStorages: a mover that is killed leaves neither a lock nor half a backup.
func TestFilesSurviveKillsInStorages(t *testing.T) {
	t.Parallel()
	f := newFiles(t)
	f.input("random", 64<<20)
	f.put("large", string(must(os.ReadFile(f.path("random")))))
	want := f.listed(f.folder)
	for kill := range 3 {
		p := f.start(f.backup("a"))
		f.await("files are sent", func() bool {
			return f.kept() > int64(8+kill)<<20 || strings.Contains(p.log(), "backup") && f.kept() > 0
		})
		if err := p.process.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		<-p.ended
	}
	f.succeeds(f.backup("a"))
	f.same(f.restored("a"), want)
	p := f.start(filesOf(protocol.VerbDelete, "a"))
	f.await("they are removed", func() bool { return strings.Contains(p.log(), `"forget"`) })
	_ = p.process.Process.Signal(syscall.SIGKILL)
	<-p.ended
	begin := time.Now()
	again := f.start(filesOf(protocol.VerbDelete, "a"))
	if result := again.end(); result.Reason != "" {
		t.Errorf("the removal ends with %+v: %s", result, again.log())
	}
	if took := time.Since(begin); took > time.Minute {
		t.Errorf("after one was killed the removal took %s", took)
	}
	if kept := f.kept(); kept > 1<<20 {
		t.Errorf("%d bytes are kept of nothing: %s", kept, again.log())
	}
}

// TestFilesThatCannotBeKeptInStorages, or given back: each with its reason.
func TestFilesThatCannotBeKeptInStorages(t *testing.T) {
	t.Parallel()
	f := newFiles(t)
	f.fails(protocol.Plan{Verb: protocol.VerbBackup, Files: &protocol.Files{Folder: t.TempDir()},
		Backup: &protocol.Backup{Key: filesKey("none"), Attempt: "mover-1"}},
		protocol.ReasonCommandFailed, "there are no files in")
	f.succeeds(f.backup("a"))
	into := filesOf(protocol.VerbRestore, "a")
	into.Volume = &protocol.TargetVolume{Folder: t.TempDir(), ID: "uid-1"}
	plain := into
	plain.Files, plain.Command = nil, shell("cat >/dev/null")
	f.fails(plain, protocol.ReasonBadPlan, "is of files")
	f.repository.Encrypted = true
	f.succeeds(f.backup("b"))
	f.write("passphrase", []byte("another one that is long\n"))
	f.fails(f.backup("c"), protocol.ReasonWrongPassphrase, "encrypted with another passphrase")
	f.repository.Encrypted = false
	inspect := protocol.Plan{Verb: protocol.VerbInspect, Verify: true, Backup: &protocol.Backup{Key: filesKey("a")}}
	blobs := f.blobs()
	for _, blob := range blobs {
		f.flip(blob)
		f.Logf("%s of %d bytes", blob.Type, blob.Length)
		f.fails(inspect, protocol.ReasonDamaged, "restic dump")
		f.flip(blob)
	}
	f.succeeds(inspect)
	for _, blob := range blobs {
		f.flip(blob)
	}
	into.Volume = &protocol.TargetVolume{Folder: t.TempDir(), ID: "uid-1"}
	f.fails(into, protocol.ReasonDamaged, "restic restore")
	f.fails(inspect, protocol.ReasonDamaged, "restic dump")
}

// blob is what restic keeps a piece of a file in, or a folder.
type blob struct {
	Type           string
	Offset, Length int64
	pack           string
}

// blobs are all in the repository of the instance.
func (f *fileCarrier) blobs() (all []blob) {
	f.Helper()
	repository := f.path("volume", "team", "backups", "production", "site", protocol.FilesFolder)
	indexes, err := filepath.Glob(filepath.Join(repository, "index", "*"))
	if err != nil || len(indexes) == 0 {
		f.Fatalf("there is no index: %v", err)
	}
	types := map[string]int{}
	for _, index := range indexes {
		text := must(exec.Command("restic", "--no-cache", "--no-lock", "--insecure-no-password", "--repo", repository, "cat",
			"index", filepath.Base(index)).Output())
		var content struct {
			Packs []struct {
				ID    string
				Blobs []blob
			}
		}
		if err := json.Unmarshal(text, &content); err != nil {
			f.Fatal(err)
		}
		for _, pack := range content.Packs {
			for _, blob := range pack.Blobs {
				blob.pack = filepath.Join(repository, "data", pack.ID[:2], pack.ID)
				types[blob.Type]++
				all = append(all, blob)
			}
		}
	}
	if types["tree"] < 2 || types["data"] < 3 {
		f.Fatalf("the index has %v; expected those of two folders and three files", types)
	}
	return all
}

// flip changes one bit of a blob.
func (f *fileCarrier) flip(b blob) {
	f.Helper()
	if err := os.Chmod(b.pack, 0o600); err != nil {
		f.Fatal(err)
	}
	content := must(os.ReadFile(b.pack))
	content[b.Offset+b.Length/2] ^= 1
	if err := os.WriteFile(b.pack, content, 0o600); err != nil {
		f.Fatal(err)
	}
}
