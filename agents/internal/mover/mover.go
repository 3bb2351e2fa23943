// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/zeroinfra/agents/internal/command"
	"github.com/zeroinfra/agents/internal/store"
	"github.com/zeroinfra/platform-core/agentproto/mover"
)

// Values of mover.Repository.Addressing.
const (
	addressingPath        = "Path"
	addressingVirtualHost = "VirtualHost"
)

// checkPatience bounds each question of VerbCheck and its repetitions.
const checkPatience = 20 * time.Second

// Options are what a mover has.
type Options struct {
	// Plan is the file with the plan, Credentials and Volume the folders, and Key the file of the repository.
	Plan, Credentials, Key, Volume string
	// Artifacts is the folder below which those of artifacts are.
	Artifacts string
	// PartSize in bytes. Default DefaultPartSize.
	PartSize int64
	// Restic is the program that carries files.
	Restic string
	// Answer and Patience bound one question to the repository, and it and its repetitions.
	Answer, Patience time.Duration
	// Env is the environment of the commands, which Starter starts.
	Env     []string
	Starter command.Starter
	Log     *slog.Logger
	Now     func() time.Time
}

// Mover does one verb.
type Mover struct {
	Options
	repository store.Repository
	// place is where that is; on a volume it is onVolume, too.
	place      mover.Repository
	onVolume   *store.Folder
	passphrase string
	hide       secrets
	// group of what is made on a volume; whichever one the file system gives when it is 0.
	group store.Group
	// dir is the working directory of commands; the own one when empty.
	dir string
	// ahead is how many pieces are read before they are needed; as many as usual when 0.
	ahead int
}

// Run does what the plan says. All that can be wrong is in the result.
func Run(ctx context.Context, o Options) mover.Result {
	m := &Mover{Options: o, hide: secretsOf(o.Env)}
	m.PartSize = cmp.Or(m.PartSize, DefaultPartSize)
	result, err := m.run(ctx)
	if err != nil && ctx.Err() != nil && reasonOf(err) != mover.ReasonSuperseded {
		err = context.Cause(ctx)
	}
	if err != nil {
		result = failed(err, m.hide)
	}
	return result
}

func (m *Mover) run(ctx context.Context) (mover.Result, error) {
	text, err := os.ReadFile(m.Plan)
	if err != nil {
		return mover.Result{}, fail(mover.ReasonBadPlan, "the plan cannot be read: %v", err)
	}
	plan, err := ReadPlan(text)
	if err != nil {
		return mover.Result{}, fail(mover.ReasonBadPlan, "%v", err)
	}
	if plan.Verb == mover.VerbCheck {
		// Somebody waits for what comes of it.
		m.Patience = min(m.Patience, checkPatience)
	}
	if plan.Verb == mover.VerbAdopt {
		m.Log.Info("the mover begins", "verb", string(plan.Verb), "folder", plan.Volume.Folder)
		return mover.Result{}, m.adopt(ctx, plan)
	}
	if plan.Files != nil {
		// It runs as the user of the files, which is not that of other movers.
		m.group = mover.User
	}
	if err := m.open(&plan.Repository); err != nil {
		return mover.Result{}, err
	}
	m.Log.Info("the mover begins", "verb", string(plan.Verb), "repository", m.repository.String())
	switch plan.Verb {
	case mover.VerbBackup:
		return m.backup(ctx, plan)
	case mover.VerbRestore:
		switch {
		case plan.Objects != nil:
			return m.restoreObjects(ctx, plan)
		case plan.Volume != nil:
			return m.restoreInto(ctx, plan)
		}
		return m.restore(ctx, plan)
	case mover.VerbInspect:
		return m.inspect(ctx, plan)
	case mover.VerbDelete:
		return m.remove(ctx, plan)
	case mover.VerbList:
		return m.list(ctx, plan.Catalogue)
	case mover.VerbRecall:
		return m.recall(ctx, plan.Catalogue)
	case mover.VerbKeep, mover.VerbFetch, mover.VerbDiscard:
		return m.carryArtifacts(ctx, plan)
	}
	return m.check(ctx)
}

// open has the repository and its key at hand. Nothing is asked yet.
func (m *Mover) open(r *mover.Repository) error {
	m.place = *r
	if r.Encrypted {
		passphrase, err := os.ReadFile(m.Key)
		if err != nil {
			return fail(mover.ReasonBadPlan, "the repository is encrypted, and its passphrase cannot be read: %v", err)
		}
		m.passphrase = strings.TrimRight(string(passphrase), "\r\n")
		m.hide = append(m.hide, m.passphrase)
		if len(m.passphrase) < mover.MinPassphrase {
			return fail(mover.ReasonBadPlan, "the passphrase of the repository has %d characters: give it %d or more",
				len(m.passphrase), mover.MinPassphrase)
		}
	}
	patience := store.Patience{Answer: m.Answer, Log: m.Log}
	var repository store.Repository
	var err error
	if r.Type == mover.TypeVolume {
		m.onVolume, err = m.volume(strings.Trim(r.Prefix, "/"))
		repository = m.onVolume
	} else {
		patience.Total = m.Patience
		repository, err = m.bucket(r)
	}
	m.repository = store.Patient{Repository: repository, Patience: patience}
	return err
}

// volume is the repository in a folder of the mounted volume. The folder is made.
func (m *Mover) volume(prefix string) (*store.Folder, error) {
	volume, err := store.NewFolderOf(m.group, m.Volume)
	if err != nil || prefix == "" {
		return volume, err
	}
	return volume.Below(prefix)
}

func (m *Mover) bucket(r *mover.Repository) (store.Repository, error) {
	keys, err := m.credentials()
	if err != nil {
		return nil, err
	}
	m.hide = append(m.hide, keys.secret)
	addressing := map[string]store.Addressing{"": store.AddressingPath, addressingPath: store.AddressingPath,
		addressingVirtualHost: store.AddressingVirtual}[r.Addressing]
	bucket, err := store.NewS3(store.S3Options{Endpoint: r.Endpoint, Region: r.Region, Bucket: r.Bucket,
		Prefix: strings.Trim(r.Prefix, "/"), Addressing: addressing,
		AccessKey: keys.access, SecretKey: keys.secret, CA: keys.ca})
	if err != nil {
		return nil, fail(mover.ReasonBadPlan, "%v", err)
	}
	return bucket, nil
}

// Tell writes a result where the kubelet takes it from.
func Tell(result mover.Result, path string) error {
	text, err := Encode(result)
	if err != nil {
		return err
	}
	// The file is a mount of its own, which nothing can be renamed onto.
	if err := os.WriteFile(path, text, 0o644); err != nil {
		return fmt.Errorf("cannot write the result: %w", err)
	}
	return nil
}
