// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/signal"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroinfra/agents/internal/driver/kafka"
	"github.com/zeroinfra/agents/internal/driver/minio"
	"github.com/zeroinfra/agents/internal/driver/postgres/wal"
	"github.com/zeroinfra/agents/internal/modelserver"
	"github.com/zeroinfra/agents/internal/objects"
	"github.com/zeroinfra/agents/internal/pointintime"
	"github.com/zeroinfra/agents/internal/program"
	"github.com/zeroinfra/agents/internal/store"
	"github.com/zeroinfra/agents/internal/volumealarm"
	"github.com/zeroinfra/platform-core/agentproto/mover"
	"github.com/zeroinfra/platform-core/agentproto/plan"
	"github.com/zeroinfra/platform-core/agentproto/transfer"
)

const (
	// restoreName is the command that a server recovers with.
	restoreName = "restore-wal"
	// stopsRecovery is an exit code at which a server's recovery fails, and does not end: what is beyond 125 is taken for
	// that.
	stopsRecovery = 200
	// walMemory is where the collector works harder.
	walMemory = 64 << 20
	// Defaults where the file does not say.
	defaultParallel, defaultAlarm = 2, volumealarm.DefaultPercent
)

// told is what is said of an error. That a target cannot be reached is a sentence for whoever asked for it.
func told(err error) string {
	if refused := (pointintime.OutOfRange{}); errors.As(err, &refused) {
		return refused.Why
	}
	if waits := (modelserver.NotReady{}); errors.As(err, &waits) {
		return waits.Why
	}
	return "agent-ops: " + err.Error()
}

// exitCode of a program that failed. A server that recovers takes 1 for the end of the archive, and nothing else may be
// taken for that.
func exitCode(err error, args []string) int {
	if errors.As(err, new(pointintime.OutOfRange)) {
		return mover.ExitOutOfRange
	}
	if errors.Is(err, minio.ErrKeys) || errors.Is(err, kafka.ErrAccount) {
		return keysRefused
	}
	if errors.As(err, new(refused)) {
		return transfer.ExitRefused
	}
	if errors.As(err, new(objects.Damaged)) {
		return plan.ExitDataBad
	}
	if waits := (modelserver.NotReady{}); errors.As(err, &waits) {
		return waits.Code
	}
	if slices.Contains(args, restoreName) && !errors.Is(err, wal.ErrEnd) {
		return stopsRecovery
	}
	return 1
}

// placeOptions say where an archive is.
type placeOptions struct {
	config, secrets string
	patience        time.Duration
	log             *slog.Logger
}

func (o *placeOptions) add(cmd *cobra.Command, patience time.Duration) {
	flags := cmd.Flags()
	flags.StringVar(&o.config, "archive", "/zeroinfra/config/archive.json", "file that says where the archive is")
	flags.DurationVar(&o.patience, "give-up", patience,
		"after which time a store that does not answer is given up for now")
}

// place is what the file says: parameters of the plugin by their names.
type place map[string]string

func (o *placeOptions) read() (place, error) {
	text, err := os.ReadFile(o.config)
	if err != nil {
		return nil, err
	}
	var p place
	if err := json.Unmarshal(text, &p); err != nil {
		return nil, fmt.Errorf("%s is no object of texts: %w", o.config, err)
	}
	return p, nil
}

func (p place) number(name string, otherwise int) (int, error) {
	if p[name] == "" {
		return otherwise, nil
	}
	n, err := strconv.Atoi(p[name])
	if err != nil {
		return 0, fmt.Errorf("%s is %q, and no whole number", name, p[name])
	}
	return n, nil
}

// archive that the file leads to, of a server's data.
func (o *placeOptions) archive(ctx context.Context, p place, data wal.Data) (*wal.Archive, error) {
	below, err := data.Place()
	if err != nil {
		return nil, err
	}
	return o.archiveIn(ctx, p, below)
}

// archiveIn a folder below the place that the file names; empty for the place itself.
func (o *placeOptions) archiveIn(ctx context.Context, p place, below string) (*wal.Archive, error) {
	s, err := o.storeIn(ctx, p, below)
	return &wal.Archive{Store: s}, err
}

// storeIn is the store in a folder below the place that the file names.
func (o *placeOptions) storeIn(ctx context.Context, p place, below string) (store.Store, error) {
	if folder := p["archive.folder"]; folder != "" {
		return o.storeOn(ctx, folder, path.Join(p["archive.prefix"], below))
	}
	account := []byte(p["archive.accessKey"])
	if len(account) == 0 {
		var err error
		if account, err = os.ReadFile(filepath.Join(o.secrets, "archive-account", "password")); err != nil {
			return nil, fmt.Errorf("cannot read the name of the account of the archive: %w", err)
		}
	}
	key, err := os.ReadFile(filepath.Join(o.secrets, "archive", "password"))
	if err != nil {
		return nil, fmt.Errorf("cannot read the secret key of the archive: %w", err)
	}
	ca, err := os.ReadFile(filepath.Join(o.secrets, "archive-ca", "password"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	prefix := cmp.Or(p["archive.prefix"], p["place"])
	if below != "" {
		prefix = strings.TrimSuffix(prefix, "/") + "/" + below
	}
	return store.NewS3(store.S3Options{Endpoint: p["archive.endpoint"], Region: p["archive.region"],
		Bucket: p["archive.bucket"], Prefix: prefix,
		Addressing: store.Addressing(p["archive.addressing"]), AccessKey: string(bytes.TrimSpace(account)),
		SecretKey: string(bytes.TrimSpace(key)), CA: ca})
}

// storeOn a volume that is mounted in a folder. Movers keep backups there, too: what is made is of their group. Where
// nothing can be written, as where a restore reads, a folder that would have to be made has no archive.
func (o *placeOptions) storeOn(ctx context.Context, volume, below string) (store.Store, error) {
	s, err := store.OpenFolder(ctx, store.Patience{Answer: o.patience, Log: o.log}, mover.User, volume, below)
	at := filepath.Join(volume, below)
	switch {
	case errors.Is(err, syscall.EROFS):
		err = store.Refused{Why: fmt.Sprintf("there is no archive at %s, and the volume can only be read", at)}
	case err != nil:
		err = fmt.Errorf("cannot open the archive at %s: %w", at, err)
	}
	return s, err
}

func archiveCommand() *cobra.Command {
	o := &placeOptions{}
	var notes string
	cmd := &cobra.Command{
		Use:   "archive PATH NAME",
		Short: "Keep a file of the server's log in its archive: the server's archive_command, with %p and %f",
		Args:  cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.begin(cmd, func(ctx context.Context) error {
				a := &wal.Archiver{Data: dataOf(args[0]), Notes: notes, Patience: o.patience, Alarm: defaultAlarm, Log: o.log}
				served, stop := a.Data.WhileServed(ctx)
				defer stop()
				// What the server is about to remove does not wait until the store can be opened.
				err := a.Data.Recall(args[1])
				if err == nil {
					err = o.prepare(served, a)
				}
				switch {
				case errors.Is(err, wal.ErrStops):
					return err
				case err != nil:
					// Somebody has to be told of that as well.
					a.Failed(args[1], err)
					return err
				}
				return a.Keep(ctx, args[1])
			})
		},
	}
	o.add(cmd, 20*time.Second)
	cmd.Flags().StringVar(&notes, "notes", "/zeroinfra/run", "folder for notes on what is archived, and on how that goes")
	return cmd
}

func restoreCommand() *cobra.Command {
	o := &placeOptions{}
	var keep, timeline string
	var parallel int
	cmd := &cobra.Command{
		Use:   restoreName + " NAME PATH",
		Short: "Give a server that recovers a file of the archive: its restore_command, with %f and %p",
		Args:  cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.begin(cmd, func(ctx context.Context) error {
				p, err := o.read()
				if err != nil {
					return err
				}
				data := dataOf(args[1])
				archive, err := o.archive(ctx, p, data)
				if err != nil {
					return err
				}
				if keep == "" {
					keep = filepath.Join(string(data), "..", ".zeroinfra.restore")
				}
				if err := os.MkdirAll(keep, 0o700); err != nil {
					return err
				}
				finding, cancel := context.WithTimeout(ctx, o.patience)
				defer cancel()
				lineage, err := lineageFor(finding, archive, data, keep, timeline)
				if err != nil {
					return err
				}
				r := &wal.Restorer{Archive: archive, Lineage: lineage, Cache: filepath.Join(keep, "next"), Parallel: parallel,
					Patience: o.patience, Log: o.log}
				return r.Restore(ctx, args[0], args[1])
			})
		},
	}
	o.add(cmd, time.Minute)
	flags := cmd.Flags()
	flags.StringVar(&keep, "keep", "", "folder for what is fetched beforehand, and for which timelines are restored; "+
		"remove it to begin anew (default: .zeroinfra.restore beside the data)")
	flags.StringVar(&timeline, "timeline", "", "the last timeline to restore, such as 00000002-5; by default the latest")
	flags.IntVar(&parallel, "parallel", 4, "segments that are fetched at once")
	return cmd
}

func lineageFor(ctx context.Context, archive *wal.Archive, data wal.Data, keep, timeline string) (*wal.Lineage, error) {
	return wal.Kept(filepath.Join(keep, "lineage.json"), func() (*wal.Lineage, error) {
		whose, err := data.Identity()
		if err != nil {
			return nil, err
		}
		if err := archive.Belongs(ctx, whose); err != nil {
			return nil, err
		}
		if timeline == "" {
			return archive.LineageOf(ctx, nil)
		}
		t, err := wal.ParseTimeline(timeline)
		if err != nil {
			return nil, err
		}
		return archive.LineageOf(ctx, &t)
	})
}

// dataOf a server that says where a file of its log is.
func dataOf(path string) wal.Data { return wal.Data(filepath.Dir(filepath.Dir(path))) }

// prepare has an archiver go by the file.
func (o *placeOptions) prepare(ctx context.Context, a *wal.Archiver) error {
	p, err := o.read()
	if err != nil {
		return err
	}
	var err1, err2, err3 error
	a.Parallel, err1 = p.number("archive.parallel", defaultParallel)
	a.Alarm, err2 = p.number("archive.alarm", defaultAlarm)
	a.Archive, err3 = o.archive(ctx, p, a.Data)
	return errors.Join(err1, err2, err3)
}

// begin does something for a server that waits for it.
func (o *placeOptions) begin(cmd *cobra.Command, do func(context.Context) error) error {
	program.Lean(walMemory)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT)
	defer stop()
	return program.Logged(os.Stderr, func(log *slog.Logger) error {
		o.log, o.secrets = log, cmd.Flag("secrets").Value.String()
		return do(ctx)
	})
}
