// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/zeroinfra/agents/internal/driver/mysql/binlog"
	"github.com/zeroinfra/agents/internal/driver/mysql/server"
	"github.com/zeroinfra/agents/internal/pointintime"
	"github.com/zeroinfra/agents/internal/program"
	"github.com/zeroinfra/agents/internal/store"
	"github.com/zeroinfra/agents/internal/volumealarm"
	"github.com/zeroinfra/platform-core/agentproto/mover"
)

const (
	// archivePatience is for a store that does not answer.
	archivePatience = time.Minute
	// archiveTimeout is where the file does not say after which time a log is closed.
	archiveTimeout = "5m"
)

// keepLogs archives the binary logs of a server to where a file says, which is read anew each time.
func keepLogs(ctx context.Context, s *server.Server, file string) error {
	return program.Logged(os.Stderr, func(log *slog.Logger) error {
		o := &placeOptions{config: file, secrets: s.Secrets, patience: archivePatience, log: log}
		return s.KeepLogs(ctx, func() (binlog.Place, error) {
			p, err := o.read()
			if err != nil {
				return binlog.Place{}, err
			}
			timeout, err := time.ParseDuration(cmp.Or(p["archive.timeout"], archiveTimeout))
			if err != nil {
				return binlog.Place{}, fmt.Errorf("archive.timeout is no time: %w", err)
			}
			alarm, err := strconv.Atoi(cmp.Or(p["archive.alarm"], strconv.Itoa(volumealarm.DefaultPercent)))
			if err != nil {
				return binlog.Place{}, fmt.Errorf("archive.alarm is no number: %w", err)
			}
			open := func(ctx context.Context, id string) (store.Store, error) { return o.storeIn(ctx, p, id) }
			return binlog.Place{Open: open, Timeout: timeout, Alarm: alarm}, nil
		}, log)
	})
}

// replayOptions are those of what goes on from a dump.
type replayOptions struct{ program, secrets string }

// load makes the data, and goes on to the point in time that is asked for.
func (o *replayOptions) load(ctx context.Context, target *server.Target) error {
	text := os.Getenv(mover.TargetEnv)
	if text == "" {
		return target.Load(ctx, os.Stdin)
	}
	var to mover.Target
	if err := json.Unmarshal([]byte(text), &to); err != nil {
		return fmt.Errorf("%s is no target: %w", mover.TargetEnv, err)
	}
	id := to.Facts[placeFact]
	if !binlog.IsID(id) {
		return pointintime.Refused("no log can be replayed on this backup: it was made without an archive, or before that " +
			"began. Take a later backup")
	}
	p := place{"place": to.Place}
	maps.Copy(p, to.Parameters)
	work := filepath.Join(target.Dir, "replay")
	return program.Logged(os.Stderr, func(log *slog.Logger) error {
		places := &placeOptions{secrets: o.secrets, patience: archivePatience, log: log}
		opened, err := places.storeIn(ctx, p, id)
		if err != nil {
			return err
		}
		target.Replay = &binlog.Replay{Archive: &binlog.Archive{Store: opened}, Until: to.Time, Since: to.Since,
			Program: o.program, Work: work, Log: log}
		return errors.Join(target.Load(ctx, os.Stdin), os.RemoveAll(work))
	})
}
