// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroinfra/agents/internal/driver/postgres/recovery"
	"github.com/zeroinfra/agents/internal/driver/postgres/replication"
	"github.com/zeroinfra/agents/internal/driver/postgres/wal"
	"github.com/zeroinfra/platform-core/agentproto/mover"
)

// placeFact is the fact of a backup that says in which folder below the place of the archive its server's log was:
// wal.Data's Place. Older backups have none.
const placeFact = "archive"

// recoveryOptions are those of what makes a server of a copy of another one's data.
type recoveryOptions struct {
	placeOptions
	server *replication.Server
	// data is the folder of the copy, and work one beside it that is removed in the end.
	data, work string
}

func (o *recoveryOptions) add(cmd *cobra.Command) *cobra.Command {
	flags := cmd.Flags()
	flags.StringVar(&o.data, "data", "pgdata", "folder of the copy")
	flags.StringVar(&o.work, "work", ".recovery",
		"folder on the same volume for what is needed meanwhile, which is made and removed")
	flags.DurationVar(&o.patience, "give-up", time.Minute,
		"after which time a store that does not answer is given up for now")
	return cmd
}

// reachCommand looks before anything is written.
func reachCommand(server *replication.Server) *cobra.Command {
	o := &recoveryOptions{server: server}
	return o.add(&cobra.Command{
		Use:   "reach",
		Short: "Say whether the point in time of " + mover.TargetEnv + " can be reached, where there is one",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.towards(cmd, func(ctx context.Context, target mover.Target, p place) error {
				below, known := target.Facts[placeFact]
				switch {
				case known && !wal.IsPlace(below):
					return fmt.Errorf("the backup says that its log is in the folder %q of the archive, which no server archives in",
						below)
				case !known && !target.Time.Before(target.Since):
					// Only the data says where its log is, which comes next.
					return nil
				}
				reach, err := o.reach(ctx, target, p, below)
				if err != nil {
					return err
				}
				ctx, cancel := context.WithTimeoutCause(ctx, o.patience,
					fmt.Errorf("%s does not answer within %s", reach.Archive.Store, o.patience))
				defer cancel()
				return reach.Check(ctx)
			})
		},
	})
}

// recoverCommand goes on to the target, and takes the data over.
func recoverCommand(server *replication.Server) *cobra.Command {
	o := &recoveryOptions{server: server}
	return o.add(&cobra.Command{
		Use: "recover",
		Short: "Make of a copy of another server's data that of a server of its own, at the point in time of " +
			mover.TargetEnv + " where there is one",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.towards(cmd, o.recover); err != nil {
				return err
			}
			return recovery.Own(o.data)
		},
	})
}

func (o *recoveryOptions) recover(ctx context.Context, target mover.Target, p place) error {
	data := wal.Data(o.data)
	below, err := data.Place()
	if err != nil {
		return err
	}
	whose, err := data.Identity()
	if err != nil {
		return err
	}
	reach, err := o.reach(ctx, target, p, below)
	if err != nil {
		return err
	}
	asking, cancel := context.WithTimeoutCause(ctx, o.patience,
		fmt.Errorf("%s does not answer within %s", reach.Archive.Store, o.patience))
	defer cancel()
	if err := reach.Archive.Belongs(asking, whose); err != nil {
		return err
	}
	if err := reach.Check(asking); err != nil {
		return err
	}
	own, err := os.Executable()
	if err != nil {
		return err
	}
	s := &recovery.Server{Programs: o.server.Programs, Data: o.data, Work: o.work, Log: o.log,
		Restore: fmt.Sprintf("%s postgresql %s --archive %s --secrets %s --keep %s --give-up %s %%f %%p", own, restoreName,
			o.config, o.secrets, filepath.Join(o.work, "keep"), o.patience)}
	return s.Recover(ctx, target)
}

func (o *recoveryOptions) reach(ctx context.Context, target mover.Target, p place,
	below string) (*recovery.Reach, error) {
	archive, err := o.archiveIn(ctx, p, below)
	return &recovery.Reach{Archive: archive, Target: target, Programs: o.server.Programs, Work: o.work, Log: o.log},
		errors.Join(err, ctx.Err())
}

// towards does something for a target. Without one nothing is done.
func (o *recoveryOptions) towards(cmd *cobra.Command, do func(context.Context, mover.Target, place) error) (err error) {
	text := os.Getenv(mover.TargetEnv)
	if text == "" {
		return nil
	}
	if o.server.Programs == "" {
		return errors.New("--programs must say where the server's programs are")
	}
	var target mover.Target
	if err := json.Unmarshal([]byte(text), &target); err != nil {
		return fmt.Errorf("%s is no target: %w", mover.TargetEnv, err)
	}
	var err1, err2 error
	o.data, err1 = filepath.Abs(o.data)
	o.work, err2 = filepath.Abs(o.work)
	if err := errors.Join(err1, err2, os.MkdirAll(filepath.Join(o.work, "keep"), 0o700)); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(o.work)) }()
	p := place{"place": target.Place}
	maps.Copy(p, target.Parameters)
	o.config = filepath.Join(o.work, "archive.json")
	file, err := json.Marshal(p)
	if err != nil {
		return err
	}
	if err := os.WriteFile(o.config, file, 0o600); err != nil {
		return err
	}
	// The server that it runs ends with the thread that started it.
	runtime.LockOSThread()
	return o.begin(cmd, func(ctx context.Context) error { return do(ctx, target, p) })
}
