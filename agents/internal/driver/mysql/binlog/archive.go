// SPDX-License-Identifier: Apache-2.0

package binlog

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/zeroinfra/agents/internal/store"
)

const (
	logsFolder  = "logs"
	packedName  = ".zst"
	entryName   = ".json"
	entryFormat = 1
	// maxEntry bounds the text of an entry: GTID sets are short but where there were thousands of servers.
	maxEntry = 1 << 20
	// entriesAtOnce are read side by side.
	entriesAtOnce = 16
)

// Archive is the logs of one instance's data in a store. It is safe for concurrent use.
type Archive struct {
	Store store.Store
}

// idForm is the number of data (mysql.Driver's ArchivedAs).
var idForm = regexp.MustCompile(`^[0-9a-f]{32}$`)

// IsID says whether a text is a number of data, which names the folder of its archive.
func IsID(text string) bool { return idForm.MatchString(text) }

// Entry says what a log has that was archived.
type Entry struct {
	// Format of the entry: 1.
	Format int `json:"format"`
	// Name of the log in the archive, without what names end with.
	Name string `json:"name"`
	// Bytes of the log and their SHA256.
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
	// Previous are the transactions that its server had before it, and Transactions its own.
	Previous     string `json:"previous"`
	Transactions string `json:"transactions"`
	// First and Last are when the first and the last one to be committed were; the zero time where there are none.
	First time.Time `json:"first,omitzero"`
	Last  time.Time `json:"last,omitzero"`
	// Closed is when the log was; whatever its server committed before is in it or in one before it.
	Closed time.Time `json:"closed"`
}

// log is an entry that was read.
type log struct {
	Entry
	previous, transactions Set
}

func read(text []byte) (log, error) {
	var l log
	if err := json.Unmarshal(text, &l.Entry); err != nil || l.Format != entryFormat {
		return log{}, fmt.Errorf("it is no entry of format %d", entryFormat)
	}
	var err1, err2 error
	l.previous, err1 = ParseSet(l.Previous)
	l.transactions, err2 = ParseSet(l.Transactions)
	return l, errors.Join(err1, err2)
}

// Keep keeps a closed log of a server that goes on from the previous transactions, with those that the log after it
// says are in it. When it returns without an error, the log is in the store for good. Work is a folder for what is
// packed.
func (a *Archive) Keep(ctx context.Context, server, path, work string, previous, transactions Set) (Entry, error) {
	entry, err := describe(path)
	if err != nil {
		return Entry{}, fmt.Errorf("cannot read %s: %w", path, err)
	}
	entry.Previous, entry.Transactions = previous.String(), transactions.String()
	number := strings.TrimPrefix(filepath.Ext(path), ".")
	entry.Name = fmt.Sprintf("%s/%s-%s", server, number, entry.Name)
	packed, err := pack(path, work, &entry)
	if err != nil {
		return Entry{}, fmt.Errorf("cannot pack %s: %w", path, err)
	}
	defer os.Remove(packed.Name())
	defer packed.Close()
	size, err := packed.Seek(0, io.SeekCurrent)
	if err != nil {
		return Entry{}, err
	}
	if _, err := packed.Seek(0, io.SeekStart); err != nil {
		return Entry{}, err
	}
	name := logsFolder + "/" + entry.Name
	if err := a.Store.Put(ctx, name+packedName, packed, size); err != nil && !errors.Is(err, store.ErrExists) {
		return Entry{}, err
	}
	text, err := json.Marshal(entry)
	if err != nil {
		return Entry{}, err
	}
	if len(text) > maxEntry {
		return Entry{}, store.Refused{Why: fmt.Sprintf("what there is to say of %s takes %d bytes", path, len(text))}
	}
	if err := a.Store.Put(ctx, name+entryName, bytes.NewReader(text), int64(len(text))); !errors.Is(err, store.ErrExists) {
		return entry, err
	}
	there, err := a.entry(ctx, name+entryName)
	if err == nil && (there.SHA256 != entry.SHA256 || there.Bytes != entry.Bytes) {
		err = store.Refused{Why: fmt.Sprintf("the archive at %s has another log %s: two servers with one number write to it",
			a.Store, entry.Name)}
	}
	return there.Entry, err
}

// describe reads a log that is closed. Name is when it began.
func describe(path string) (Entry, error) {
	file, err := os.Open(path)
	if err != nil {
		return Entry{}, err
	}
	defer file.Close()
	e, foreign := Entry{Format: entryFormat}, false
	head, closed, err := Scan(file, func(t Transaction) error {
		foreign = t.Foreign
		if e.First.IsZero() || t.Committed.Before(e.First) {
			e.First = t.Committed
		}
		if t.Committed.After(e.Last) {
			e.Last = t.Committed
		}
		return nil
	})
	if err != nil {
		return Entry{}, err
	}
	e.Name, e.Closed = fmt.Sprint(head.Began.Unix()), closed
	// A server that followed another one when it closed the log may have been behind, and one that crashed has not said
	// when that was. What is sure is what was before the last commit. A log is closed in whole seconds, and a commit is
	// not.
	if foreign || closed.Before(e.Last) {
		e.Closed = e.Last
	}
	return e, nil
}

// pack writes a log to a file of its own, and notes its sum.
func pack(path, work string, entry *Entry) (packed *os.File, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if packed, err = os.CreateTemp(work, "archive-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, packed.Close(), os.Remove(packed.Name()))
		}
	}()
	encoder, err := zstd.NewWriter(packed, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
		zstd.WithWindowSize(1<<20), zstd.WithLowerEncoderMem(true))
	if err != nil {
		return nil, err
	}
	sum := sha256.New()
	entry.Bytes, err = io.Copy(io.MultiWriter(encoder, sum), file)
	entry.SHA256 = hex.EncodeToString(sum.Sum(nil))
	return packed, errors.Join(err, encoder.Close())
}

func (a *Archive) entry(ctx context.Context, name string) (log, error) {
	text, err := a.Store.Head(ctx, name, maxEntry)
	if err != nil {
		return log{}, err
	}
	l, err := read(text)
	if err != nil {
		return log{}, store.Refused{Why: fmt.Sprintf("%s in the archive at %s is broken: %v", name, a.Store, err)}
	}
	return l, nil
}

// logs are all that the archive has, whole ones alone.
func (a *Archive) logs(ctx context.Context) ([]log, error) {
	var all []log
	err := a.each(ctx, "", func(some []log, _ string) { all = append(all, some...) })
	return all, err
}

// each gives the logs whose entries come after a name, some at a time, with the name of the last of them. An archive of
// years has hundreds of thousands.
func (a *Archive) each(ctx context.Context, after string, do func(some []log, last string)) error {
	var names []string
	read := func() error {
		some, err := a.entries(ctx, names)
		if err == nil && len(names) > 0 {
			do(some, names[len(names)-1])
			names = nil
		}
		return err
	}
	for name, err := range a.Store.List(ctx, logsFolder, after) {
		if err != nil {
			return err
		}
		if !strings.HasSuffix(name, entryName) {
			continue
		}
		if names = append(names, name); len(names) == entriesAtOnce {
			if err := read(); err != nil {
				return err
			}
		}
	}
	return read()
}

// entries reads some at once: most of the time of each is that of a way through the network.
func (a *Archive) entries(ctx context.Context, names []string) ([]log, error) {
	some, failures := make([]log, len(names)), make([]error, len(names))
	var all sync.WaitGroup
	for i, name := range names {
		all.Go(func() { some[i], failures[i] = a.entry(ctx, name) })
	}
	all.Wait()
	if i := slices.IndexFunc(failures, func(err error) bool { return err != nil }); i >= 0 {
		return nil, failures[i]
	}
	return some, nil
}

// fetch writes a log to a file.
func (a *Archive) fetch(ctx context.Context, l log, path string) (err error) {
	name := logsFolder + "/" + l.Name + packedName
	packed, err := a.Store.Open(ctx, name)
	if err != nil {
		return fmt.Errorf("cannot read %s in the archive at %s: %w", name, a.Store, err)
	}
	defer packed.Close()
	decoder, err := zstd.NewReader(packed, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxMemory(64<<20))
	if err != nil {
		return err
	}
	defer decoder.Close()
	file, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(file, sum), decoder)
	if err != nil {
		return fmt.Errorf("cannot unpack %s in the archive at %s: %w", name, a.Store, err)
	}
	if n != l.Bytes || hex.EncodeToString(sum.Sum(nil)) != l.SHA256 {
		return store.Refused{Why: fmt.Sprintf("%s in the archive at %s is broken: it has another sum than its entry says",
			name, a.Store)}
	}
	return nil
}
