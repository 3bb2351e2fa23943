// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/zeroinfra/agents/internal/command"
	"github.com/zeroinfra/agents/internal/reaper"
	"github.com/zeroinfra/agents/internal/store"
	"github.com/zeroinfra/platform-core/agentproto/mover"
)

const (
	// lockPatience is how long it waits for another one that works on the same repository, before locks are looked through
	// once more, and lockTries how often.
	lockPatience = 20 * time.Second
	lockTries    = 6
	// longestRun bounds one run of it: the pod has a deadline.
	longestRun = 30 * 24 * time.Hour
	// resticMemory is where its collector works harder. It is beside the mover, in a pod of 512 MiB.
	resticMemory = "GOMEMLIMIT=160MiB"
	// maxProblems is how many files that cannot be read are told.
	maxProblems = 5
)

// Exit codes of restic: https://restic.readthedocs.io/en/stable/075_scripting.html.
const (
	resticIncomplete  = 3
	resticNoneThere   = 10
	resticLocked      = 11
	resticWrongSecret = 12
)

// restic runs the program of that name on the repository that the backups of an instance share.
type restic struct {
	*Mover
	// folder of it, in the store.
	folder string
	// tag that snapshots of this backup have, and host those of the instance.
	tag, host string
	env       []string
	options   []string
	// bytesPerSecond bounds what is sent and read; 0 is no bound.
	bytesPerSecond int64
}

// restic is the way to the files of the instance that a backup is of.
func (m *Mover) restic(key, folder string) (*restic, error) {
	r := &restic{Mover: m, folder: path.Join(path.Dir(key), folder), host: path.Dir(key), tag: path.Base(key)}
	r.env = append(r.env, m.Env...)
	r.env = append(r.env, resticMemory, "GOGC=50")
	r.options = []string{"--no-cache", "--quiet", "--json", "--retry-lock", lockPatience.String()}
	if folder == mover.FilesFolderEncrypted {
		r.env = append(r.env, "RESTIC_PASSWORD_FILE="+m.Key)
	} else {
		r.options = append(r.options, "--insecure-no-password")
	}
	return r, r.reach()
}

// reach says where the repository is.
func (r *restic) reach() error {
	place := &r.place
	below := path.Join(strings.Trim(place.Prefix, "/"), r.folder)
	if place.Type == mover.TypeVolume {
		r.env = append(r.env, "RESTIC_REPOSITORY="+filepath.Join(r.Volume, below))
		return nil
	}
	keys, err := r.credentials()
	if err != nil {
		return err
	}
	lookup := "path"
	if place.Addressing == addressingVirtualHost {
		lookup = "dns"
	}
	r.env = append(r.env, "RESTIC_REPOSITORY=s3:"+strings.TrimSuffix(place.Endpoint, "/")+"/"+place.Bucket+"/"+below,
		"AWS_ACCESS_KEY_ID="+keys.access,
		"AWS_SECRET_ACCESS_KEY="+keys.secret, "AWS_DEFAULT_REGION="+cmp.Or(place.Region, store.DefaultRegion))
	r.options = append(r.options, "-o", "s3.bucket-lookup="+lookup)
	if len(keys.ca) > 0 {
		r.options = append(r.options, "--cacert", filepath.Join(r.Credentials, caFile))
	}
	return nil
}

// mostUnlocks is how often locks are looked through: of the first run the process can have just the number that is
// written in a lock of a dead one.
const mostUnlocks = 3

// prepare makes the repository where there is none, and says whether it did; it removes what locks it and is dead. Pods
// that carry one backup have one name as a host and follow each other, so that restic knows the locks of the former
// ones for those of processes that are not there any more. Others it takes for dead after half an hour.
func (r *restic) prepare(ctx context.Context) (made bool, err error) {
	there, err := r.isThere(ctx)
	if err != nil {
		return false, err
	}
	if !there {
		return true, r.make(ctx)
	}
	for range mostUnlocks {
		locked, err := r.locked(ctx)
		if err == nil && locked {
			_, err = r.do(ctx, "", "unlock")
		}
		if err != nil || !locked {
			return false, err
		}
	}
	return false, nil
}

// make makes the repository. On a volume all movers are of its group, and restic goes by what the group may do with the
// file config.
func (r *restic) make(ctx context.Context) error {
	if r.onVolume != nil {
		if err := r.onVolume.Make(r.folder); err != nil {
			return err
		}
	}
	if _, err := r.do(ctx, "", "init"); err != nil || r.onVolume == nil {
		return err
	}
	return filepath.WalkDir(filepath.Join(r.onVolume.String(), r.folder),
		func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := entry.Info()
			if err != nil {
				return err
			}
			mode := info.Mode() | 0o040
			if entry.IsDir() {
				mode |= 0o030
			}
			return os.Chmod(path, mode)
		})
}

// isThere says whether there is a repository.
func (r *restic) isThere(ctx context.Context) (bool, error) {
	_, err := r.repository.Head(ctx, r.folder+"/config", 1)
	if errors.Is(err, store.ErrAbsent) {
		return false, nil
	}
	return err == nil, err
}

// locked says whether anybody works on it, or did.
func (r *restic) locked(ctx context.Context) (bool, error) {
	for _, err := range r.repository.Objects(ctx, r.folder+"/locks") {
		return err == nil, err
	}
	return false, nil
}

// snapshots are the IDs of those of this backup: of attempts before, too.
func (r *restic) snapshots(ctx context.Context) ([]string, error) {
	said, err := r.do(ctx, "", "snapshots", "--no-lock", "--tag", r.tag, "--host", r.host)
	if err != nil {
		return nil, err
	}
	var all []struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(said.out, &all); err != nil {
		return nil, fail(mover.ReasonCommandFailed, "restic lists snapshots in a form that is not known: %v", err)
	}
	var ids []string
	for _, one := range all {
		ids = append(ids, one.ID)
	}
	return ids, nil
}

// forget removes snapshots, and what is in none. It prunes also where nothing was forgotten: another run may have done
// that and died.
func (r *restic) forget(ctx context.Context, ids []string) error {
	if len(ids) > 0 {
		if _, err := r.do(ctx, "", append([]string{"forget"}, ids...)...); err != nil {
			return err
		}
	}
	_, err := r.do(ctx, "", "prune")
	return err
}

// keptFiles is what a run has kept.
type keptFiles struct {
	Type     string `json:"message_type"`
	Snapshot string `json:"snapshot_id"`
	Files    int64  `json:"total_files_processed"`
	Bytes    int64  `json:"total_bytes_processed"`
	Added    int64  `json:"data_added_packed"`
	// vanished is how many files went while they were read.
	vanished int
}

// keep sends the files of a folder.
func (r *restic) keep(ctx context.Context, folder string, exclude []string) (keptFiles, error) {
	words := []string{"backup", "--no-scan", "--one-file-system", "--host", r.host, "--tag", r.tag, "--group-by", "host"}
	for _, pattern := range exclude {
		words = append(words, "--exclude", pattern)
	}
	said, err := r.do(ctx, folder, append(words, ".")...)
	if err != nil {
		return keptFiles{}, err
	}
	for line := range bytes.Lines(said.out) {
		var got keptFiles
		if json.Unmarshal(line, &got) == nil && got.Type == "summary" && snapshotForm.MatchString(got.Snapshot) {
			got.vanished = said.vanished
			return got, nil
		}
	}
	return keptFiles{}, fail(mover.ReasonCommandFailed, "restic has not said which snapshot it made")
}

// said is what one run told.
type said struct {
	out []byte
	// vanished is how many files went while they were read.
	vanished int
}

// errLocked says that another one works on the repository.
var errLocked = fail(mover.ReasonUnreachable, "another one works on the files of the instance, and does not end")

// do runs it in a folder, and waits for another one that works on the same repository, or is found to be dead.
func (r *restic) do(ctx context.Context, dir string, words ...string) (said, error) {
	for try := 1; ; try++ {
		told, err := r.once(ctx, dir, words...)
		if !errors.Is(err, errLocked) || try == lockTries {
			return told, err
		}
		if _, err := r.once(ctx, "", "unlock"); err != nil {
			return said{}, err
		}
	}
}

// once runs it in a folder. A file that goes while it is read is none of a failure.
func (r *restic) once(ctx context.Context, dir string, words ...string) (said, error) {
	all := append([]string{r.Restic}, r.options...)
	if r.bytesPerSecond > 0 {
		limit := strconv.FormatInt(max(1, r.bytesPerSecond>>10), 10)
		all = append(all, "--limit-upload", limit, "--limit-download", limit)
	}
	r.Log.Info("restic begins", "verb", words[0], "repository", r.folder)
	result, err := command.Run(ctx, r.Starter,
		command.Spec{Command: append(all, words...), Env: r.env, Dir: dir, Timeout: longestRun})
	if ctx.Err() != nil {
		return said{}, context.Cause(ctx)
	}
	if err != nil {
		return said{}, fail(mover.ReasonCommandFailed, "restic %s: %v", words[0], err)
	}
	heard := r.listen(result.Stderr)
	vanished := said{out: []byte(result.Stdout), vanished: heard.vanished}
	switch exit := result.Exit; {
	case exit == reaper.Exit{}:
		return vanished, nil
	case exit.Code == resticIncomplete && words[0] == "backup" && len(heard.problems) == 0 && heard.vanished > 0:
		return vanished, nil
	case exit.Code == resticNoneThere:
		return said{}, damaged("there is no repository of restic in %s", r.folder)
	case exit.Code == resticLocked:
		return said{}, errLocked
	case exit.Code == resticWrongSecret:
		return said{}, fail(mover.ReasonWrongPassphrase, "the files of the instance were encrypted with another passphrase")
	case words[0] == "backup" && strings.Contains(heard.last, "snapshot is empty"):
		return said{}, fail(mover.ReasonCommandFailed, "there are no files in %s", dir)
	case heard.damaged:
		return said{}, damaged("restic %s: %s", words[0], heard)
	default:
		return said{}, fail(mover.ReasonCommandFailed, "restic %s ended with %s: %s", words[0], exit, heard)
	}
}

// heard is what it said on standard error.
type heard struct {
	problems []string
	more     int
	vanished int
	last     string
	damaged  bool
}

// String is a sentence of it.
func (h heard) String() string {
	text := strings.Join(h.problems, "; ")
	if h.more > 0 {
		text += " and " + strconv.Itoa(h.more) + " more"
	}
	return cmp.Or(strings.TrimPrefix(text+"; "+h.last, "; "), "it said nothing")
}

// damagedWords are in what it says of data that is not what it was.
var damagedWords = []string{"ciphertext verification failed", "wrong hash", "does not match", "hash of",
	"invalid data returned", "not found in repository", "not found in index", "decompressing", "unexpected EOF"}

// listen reads lines of JSON, or of text for what goes wrong before it knows that it is to speak JSON.
func (r *restic) listen(text string) heard {
	var h heard
	for line := range strings.Lines(text) {
		line = r.hide.from(strings.TrimSpace(line))
		if line == "" {
			continue
		}
		var message struct {
			Type  string `json:"message_type"`
			Error struct {
				Message string `json:"message"`
			} `json:"error"`
			Item    string `json:"item"`
			Message string `json:"message"`
		}
		if json.Unmarshal([]byte(line), &message) != nil {
			message.Message = line
		}
		told := cmp.Or(message.Error.Message, message.Message)
		r.Log.Info("restic says", "text", told, "item", message.Item)
		for _, word := range damagedWords {
			h.damaged = h.damaged || strings.Contains(told, word)
		}
		switch {
		case message.Type == "error" && message.Item != "" && strings.Contains(told, syscall.ENOENT.Error()):
			h.vanished++
		case message.Type == "error" && len(h.problems) == maxProblems:
			h.more++
		case message.Type == "error":
			h.problems = append(h.problems, shortened(told, maxLine))
		default:
			h.last = shortened(told, maxLine)
		}
	}
	return h
}

// caFile is where the authority of an S3 repository is, in the folder of its credentials.
const caFile = "ca.crt"

// s3Keys are what a store lets a mover in by.
type s3Keys struct {
	access, secret string
	ca             []byte
}

// credentials reads them.
func (m *Mover) credentials() (s3Keys, error) {
	read := func(name string) ([]byte, error) {
		content, err := os.ReadFile(filepath.Join(m.Credentials, name))
		if errors.Is(err, os.ErrNotExist) {
			return nil, nil
		}
		if err != nil {
			return nil, fail(mover.ReasonBadPlan, "the credentials of the repository cannot be read: %v", err)
		}
		return bytes.TrimSpace(content), nil
	}
	access, err1 := read("accessKey")
	secret, err2 := read("secretKey")
	ca, err3 := read(caFile)
	if err := errors.Join(err1, err2, err3); err != nil {
		return s3Keys{}, err
	}
	if len(access) == 0 || len(secret) == 0 {
		return s3Keys{}, fail(mover.ReasonBadPlan, "the credentials of the repository have no accessKey or no secretKey")
	}
	return s3Keys{string(access), string(secret), ca}, nil
}
