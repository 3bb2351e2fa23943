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

	protocol "github.com/zeroinfra/platform-core/agentproto/mover"
)

// archivePrefix is the folder of the archive on a volume, beside the backups below the first part of it.
const archivePrefix = "kept/_archive/default/shop"

// volume is one that a server archives on, and movers keep backups on, each as the user that it is in a pod.
type volume struct {
	*flock
	path string
}

// TestAnArchiveBesideBackups: whoever comes first to a volume, a server of the group of the movers archives there and
// is read from there, and movers make and remove backups, whether the file system has new files take the group of their
// folder or not.
func TestAnArchiveBesideBackups(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("nobody but root can be several users")
	}
	for name, mode := range map[string]fs.FileMode{"as the kubelet gives it": fs.ModeSetgid | 0o770,
		"as a server exports it": 0o770} {
		for first, order := range map[string]func(*volume, *node){
			"the server first": func(v *volume, n *node) { n.archives(); v.isBackedUp() },
			"a mover first":    func(v *volume, n *node) { v.isBackedUp(); n.archives() },
		} {
			t.Run(name+", "+first, func(t *testing.T) {
				t.Parallel()
				f := newFlock(t, 1)
				f.groups = []uint32{protocol.User}
				v := &volume{flock: f, path: filepath.Join(f.root, "volume")}
				v.make(mode)
				f.archived(map[string]string{"archive.folder": v.path, "archive.prefix": archivePrefix})
				a, _ := f.begin(0)
				order(v, a)
				s := a.snapshot(v.path)
				s.target.Parameters["archive.prefix"] = archivePrefix
				a.sql("INSERT INTO t VALUES (1)")
				at := time.Now()
				a.sql("INSERT INTO t VALUES (2)")
				a.archives()
				v.isOfTheGroup()
				s.target.Parameters["archive.folder"] = v.readOnly()
				if n, said, code := f.recovered(0, s, at, "recover"); code != 0 {
					t.Errorf("%s is recovered with %d: %s", n.pod, code, said)
				}
				s.target.Parameters["archive.prefix"] = archivePrefix + "-of-another"
				if _, said, code := f.recovered(1, s, at, "reach"); code != 1 || !strings.Contains(said, "there is no archive at") {
					t.Errorf("where there is none it ends with %d: %s", code, said)
				}
				v.isCleared()
				a.archives()
			})
		}
	}
}

func (v *volume) make(mode fs.FileMode) {
	v.Helper()
	// Movers are somebody else than the owner of the folder.
	if err := os.Chmod(v.root, 0o755); err != nil {
		v.Fatal(err)
	}
	for path, owner := range map[string]int{v.path: 0, filepath.Join(v.root, "mover"): protocol.User} {
		if err := os.Mkdir(path, 0o700); err != nil {
			v.Fatal(err)
		}
		if err := os.Chown(path, owner, protocol.User); err != nil {
			v.Fatal(err)
		}
	}
	if err := os.Chmod(v.path, mode); err != nil {
		v.Fatal(err)
	}
}

// readOnly is the volume as a mover has it that reads the log; the volume itself where nothing can be mounted.
func (v *volume) readOnly() string {
	v.Helper()
	at := v.path + ".read-only"
	if err := os.Mkdir(at, 0o755); err != nil {
		v.Fatal(err)
	}
	if err := syscall.Mount(v.path, at, "", syscall.MS_BIND, ""); err != nil {
		v.Logf("nothing can be mounted here: %v", err)
		return v.path
	}
	v.Cleanup(func() { _ = syscall.Unmount(at, 0) })
	if err := syscall.Mount("", at, "", syscall.MS_REMOUNT|syscall.MS_BIND|syscall.MS_RDONLY, ""); err != nil {
		v.Fatal(err)
	}
	return at
}

// moves has a mover carry out a plan, as it is in a pod.
func (v *volume) moves(plan protocol.Plan) {
	v.Helper()
	plan.Repository = protocol.Repository{Type: protocol.TypeVolume, Prefix: "kept"}
	at := func(name string) string { return filepath.Join(v.root, "mover", name) }
	if err := os.WriteFile(at("plan"), must(json.Marshal(plan)), 0o644); err != nil {
		v.Fatal(err)
	}
	cmd := exec.Command(v.binary, "mover", "--plan", at("plan"), "--volume", v.path, "--result", at("result"))
	cmd.Dir, cmd.Env = filepath.Join(v.root, "mover"), []string{asAgent + "=1", "PATH=/usr/bin:/bin"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL,
		Credential: &syscall.Credential{Uid: protocol.User, Gid: protocol.User}}
	if out, err := cmd.CombinedOutput(); err != nil {
		v.Fatalf("%s: %v: %s", plan.Verb, err, out)
	}
}

func (v *volume) isBackedUp() {
	v.Helper()
	v.moves(protocol.Plan{Verb: protocol.VerbCheck})
	v.moves(backup("mover-1", "echo data"))
}

func (v *volume) isCleared() {
	v.Helper()
	v.moves(protocol.Plan{Verb: protocol.VerbDelete, Backup: &protocol.Backup{Key: shopKey}})
	if has(filepath.Join(v.path, "kept", shopKey)) {
		v.Error("a backup is left")
	}
}

// isOfTheGroup: files of the archive can be read by movers, and what is in its folders removed.
func (v *volume) isOfTheGroup() {
	v.Helper()
	files := 0
	err := filepath.WalkDir(filepath.Join(v.path, "kept", "_archive"),
		func(path string, entry fs.DirEntry, err error) error {
			if err != nil || strings.Contains(path, "/.incoming/") {
				return err
			}
			info, err := entry.Info()
			if err != nil {
				return err
			}
			wanted := fs.FileMode(0o040)
			if entry.IsDir() {
				wanted = 0o070
			} else {
				files++
			}
			if gid := info.Sys().(*syscall.Stat_t).Gid; gid != protocol.User || info.Mode()&wanted != wanted {
				v.Errorf("%s is of group %d and %v", path, gid, info.Mode())
			}
			return nil
		})
	if err != nil || files < 2 {
		v.Errorf("the archive has %d files, %v", files, err)
	}
}
