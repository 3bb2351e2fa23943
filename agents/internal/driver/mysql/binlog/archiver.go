// SPDX-License-Identifier: Apache-2.0

package binlog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/zeroinfra/agents/internal/atomicfile"
	"github.com/zeroinfra/agents/internal/driver/mysql"
	"github.com/zeroinfra/agents/internal/store"
	"github.com/zeroinfra/agents/internal/volumealarm"
)

const (
	// pause is between looks at the logs.
	pause = 5 * time.Second
	// patience is for one pass: it can have many logs to catch up with.
	patience = time.Hour
	// longestReason bounds what is told of a failure.
	longestReason = 300
)

// Place is where logs are kept, and how.
type Place struct {
	// Open opens the store of data with a number.
	Open func(ctx context.Context, id string) (store.Store, error)
	// Timeout after which a log with transactions is closed that is not full.
	Timeout time.Duration
	// Alarm is the share of the volume, in percent, below which logs that wait are a reason to worry.
	Alarm int
}

// Archiver keeps the logs of one server, for as long as it is the primary.
type Archiver struct {
	// Driver logs in to the server.
	Driver func() (*mysql.Driver, error)
	// Place is asked for each time, since it can change.
	Place func() (Place, error)
	// Notes is the file that says how it goes; it is not there while the server is no primary.
	Notes string
	// Work is a folder for what is packed.
	Work string
	Log  *slog.Logger

	// id is the number of the data, and kept are the transactions that its archive has; nil while nobody knows. Names are
	// the logs of which all that were closed are archived.
	id    string
	kept  Set
	names []string
	// learning is what was read of an archive before a pass was cut off.
	learning learning
	// flushed is when the server last began a log for this, with the transactions that it had then.
	flushed  time.Time
	executed string
	failing  bool
	// counted is what the metrics are to say but of the volume, and told what they were told last, and when.
	counted, told mysql.Archiving
	toldAt        time.Time
	// volume that logs wait on.
	volume volumealarm.Volume
}

// Run archives until the context ends.
func (a *Archiver) Run(ctx context.Context) error {
	if err := os.Remove(a.Notes); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	a.flushed = time.Now()
	for {
		if err := a.note(a.Pass(ctx, time.Now())); err != nil {
			a.Log.Error("cannot note how archiving goes", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

// State of an archiver.
type State string

// States of an archiver.
const (
	// StateIdle: the server is no primary.
	StateIdle State = ""
	// StateWaiting: nothing is archived yet.
	StateWaiting State = "Waiting"
	// StateArchiving: all closed logs are archived.
	StateArchiving State = "Archiving"
	// StateFailing: a log cannot be archived.
	StateFailing State = "Failing"
)

// Pass archives what is closed, and closes what is due.
func (a *Archiver) Pass(ctx context.Context, now time.Time) (State, error) {
	d, err := a.Driver()
	if err != nil {
		return StateIdle, nil
	}
	logs, err := d.Logs(ctx)
	if err != nil {
		// Whether the server answers is the probe's to say.
		return StateIdle, nil
	}
	if !logs.Writes {
		// Another one archives meanwhile.
		a.kept, a.learning = nil, learning{}
		return StateIdle, nil
	}
	state, err := a.pass(ctx, d, logs, now)
	a.tell(ctx, d, logs, now, err)
	return state, err
}

// pass is Pass for the primary.
func (a *Archiver) pass(ctx context.Context, d *mysql.Driver, logs mysql.Logs, now time.Time) (State, error) {
	place, err := a.Place()
	if err != nil {
		return StateFailing, err
	}
	a.volume.Alarm = place.Alarm
	if err := a.archive(ctx, d, place, logs); err != nil {
		return StateFailing, err
	}
	if logs.Executed != a.executed && now.Sub(a.flushed) >= place.Timeout {
		if err := d.FlushLogs(ctx); err != nil {
			return StateFailing, fmt.Errorf("cannot close the binary log: %w", err)
		}
		a.flushed, a.executed = now, logs.Executed
	}
	if len(a.kept) == 0 {
		return StateWaiting, nil
	}
	return StateArchiving, nil
}

// archive keeps the closed logs that have transactions which the archive has not.
func (a *Archiver) archive(ctx context.Context, d *mysql.Driver, place Place, logs mysql.Logs) error {
	if a.kept != nil && slices.Equal(a.names, logs.Names) {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("it took more than %s", patience))
	defer cancel()
	id, err := d.ArchivedAs(ctx)
	if err != nil {
		return err
	}
	opened, err := place.Open(ctx, id)
	if err != nil {
		return err
	}
	archive := &Archive{Store: opened}
	if a.kept == nil || a.id != id {
		if err := a.learn(ctx, archive, id); err != nil {
			return err
		}
	}
	if err := a.keep(ctx, archive, logs); err != nil {
		return err
	}
	a.names = logs.Names
	return nil
}

// learning is how far an archive at a place was read: up to which name, and the transactions up to there.
type learning struct {
	place, after string
	kept         Set
}

// learn reads which transactions the archive has. Where that is cut off, it goes on from there later: what takes longer
// than a pass may would never end.
func (a *Archiver) learn(ctx context.Context, archive *Archive, id string) error {
	if place := archive.Store.String() + " " + id; a.learning.place != place {
		a.learning = learning{place: place, kept: Set{}}
	}
	err := archive.each(ctx, a.learning.after, func(some []log, last string) {
		for _, l := range some {
			a.learning.kept = a.learning.kept.Union(l.transactions)
		}
		a.learning.after = last
	})
	if err != nil {
		return err
	}
	a.id, a.kept, a.learning = id, a.learning.kept, learning{}
	return nil
}

func (a *Archiver) keep(ctx context.Context, archive *Archive, logs mysql.Logs) error {
	heads, err := headsOf(logs)
	if err != nil {
		return err
	}
	purged, err := ParseSet(logs.Purged)
	if err != nil {
		return err
	}
	for i := range max(0, len(heads)-1) {
		has := heads[i+1].Previous.Minus(heads[i].Previous)
		if has.Within(a.kept) {
			continue
		}
		path := filepath.Join(filepath.Dir(logs.Base), logs.Names[i])
		// A log says nothing of what came with data that was copied from elsewhere, which it goes on from all the same.
		entry, err := archive.Keep(ctx, logs.Server, path, a.Work, heads[i].Previous.Union(purged), has)
		if err != nil {
			return err
		}
		a.Log.Info("a log is archived", "log", entry.Name, "bytes", entry.Bytes)
		a.kept = a.kept.Union(has)
		a.counted.Archived, a.counted.Last = a.counted.Archived+1, time.Now()
	}
	return nil
}

func headsOf(logs mysql.Logs) ([]Head, error) {
	heads := make([]Head, len(logs.Names))
	for i, name := range logs.Names {
		head, err := headOf(filepath.Join(filepath.Dir(logs.Base), name))
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("the server has just removed the binary log %s", name)
		}
		if err != nil {
			return nil, fmt.Errorf("cannot read the binary log %s: %w", name, err)
		}
		heads[i] = head
	}
	return heads, nil
}

func headOf(path string) (Head, error) {
	file, err := os.Open(path)
	if err != nil {
		return Head{}, err
	}
	defer file.Close()
	return ReadHead(file)
}

// note writes how it goes, for the probe, where that has changed.
func (a *Archiver) note(state State, why error) error {
	if why != nil != a.failing {
		a.failing = why != nil
		if why != nil {
			a.Log.Warn("archiving fails", "error", why)
		}
	}
	if state == StateIdle {
		return atomicfile.Remove(a.Notes)
	}
	reason := ""
	if why != nil {
		reason = strings.Join(strings.Fields(why.Error()), " ")
		reason = reason[:min(len(reason), longestReason)]
	}
	text := "archive=" + string(state) + "\narchive_reason=" + strings.ToValidUTF8(reason, "") + "\narchive_level=" +
		string(a.volume.Level) + "\n"
	if there, err := os.ReadFile(a.Notes); err == nil && string(there) == text {
		return nil
	}
	return atomicfile.Write(a.Notes, []byte(text), 0o644)
}
