// SPDX-License-Identifier: Apache-2.0

package binlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/zeroinfra/agents/internal/pointintime"
)

// Replay has logs be carried out on a copy of the data.
type Replay struct {
	Archive *Archive
	// Until is the time that is wanted: what was committed before is replayed, and nothing that was at it or later.
	Until time.Time
	// Since is when the copy was whole; no earlier time can be reached from it.
	Since time.Time
	// Program is mysqlbinlog, and Work a folder for one log at a time.
	Program, Work string
	Log           *slog.Logger
}

// errReached ends the scan of a log.
var errReached = errors.New("the time is reached")

// Check refuses a time that cannot be reached, as far as that is known without the copy. The error is an OutOfRange
// then.
func (r *Replay) Check(ctx context.Context) error {
	if r.Until.Before(r.Since) {
		return pointintime.Refused("%s is before %s, when the backup was complete: take an earlier backup",
			pointintime.InWords(r.Until), pointintime.InWords(r.Since))
	}
	logs, err := r.Archive.logs(ctx)
	if err != nil {
		return err
	}
	var last time.Time
	for _, l := range logs {
		if l.Closed.After(last) {
			last = l.Closed
		}
	}
	switch {
	case len(logs) == 0:
		return pointintime.Refused("%s cannot be reached: there is no log in the archive at %s", pointintime.InWords(r.Until),
			r.Archive.Store)
	case last.Before(r.Until):
		return refused(nil, nil, last, r.Until)
	}
	return nil
}

// Write writes the SQL that leads from a copy with these transactions to the time.
func (r *Replay) Write(ctx context.Context, has string, to io.Writer) error {
	base, err := ParseSet(has)
	if err != nil {
		return err
	}
	logs, err := r.Archive.logs(ctx)
	if err != nil {
		return err
	}
	steps, err := chain(logs, base, r.Until)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(r.Work, 0o700); err != nil {
		return err
	}
	for _, s := range steps {
		reached, err := r.step(ctx, s, to)
		if err != nil || reached {
			return err
		}
	}
	return nil
}

// step replays one log, and says whether it leads to the time.
func (r *Replay) step(ctx context.Context, s step, to io.Writer) (reached bool, err error) {
	path := filepath.Join(r.Work, "log")
	defer func() { err = errors.Join(err, os.RemoveAll(path)) }()
	if err := r.Archive.fetch(ctx, s.log, path); err != nil {
		return false, err
	}
	end, reached, err := r.end(path, s.there)
	if err != nil {
		return false, fmt.Errorf("cannot read the log %s: %w", s.Name, err)
	}
	r.Log.Info("a log is replayed", "log", s.Name, "reached", reached)
	// What is replayed is of other data: it gets no GTIDs of before.
	arguments := []string{"--no-defaults", "--skip-gtids", "--verify-binlog-checksum"}
	if there := s.there.String(); there != "" {
		arguments = append(arguments, "--exclude-gtids="+there)
	}
	if reached {
		arguments = append(arguments, "--stop-position="+strconv.FormatInt(end, 10))
	}
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, r.Program, append(arguments, path)...)
	cmd.Stdout, cmd.Stderr = to, &said
	if err := cmd.Run(); err != nil {
		return false, errors.Join(fmt.Errorf("mysqlbinlog failed: %w: %s", err, strings.TrimSpace(said.String())),
			context.Cause(ctx))
	}
	return reached, nil
}

// end is the offset of the first transaction that is not to be replayed, where there is one.
func (r *Replay) end(path string, there Set) (offset int64, reached bool, err error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, false, err
	}
	defer file.Close()
	_, _, err = Scan(file, func(t Transaction) error {
		if t.Committed.Before(r.Until) || there.Has(t.UUID, t.Number) {
			return nil
		}
		offset = t.Offset
		return errReached
	})
	if errors.Is(err, errReached) {
		return offset, true, nil
	}
	return 0, false, err
}
