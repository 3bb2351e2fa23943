// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// Recall is a page of what VerbRecall has read, of backups that the Catalogue does not know, in the order of their
// keys.
type Recall struct {
	Records []Record `json:"records,omitempty"`
	// Failures are the backups that cannot be restored as they are, and what is left of some.
	Failures []Failure `json:"failures,omitempty"`
	// Last is the key up to which it was read, and Left is how many come after it.
	Last string `json:"last,omitempty"`
	Left int    `json:"left,omitempty"`
}

// Record is a backup whose files are all there, as long as they were written.
type Record struct {
	// Key, and what Result says of a backup.
	Key     string            `json:"key"`
	Digest  string            `json:"digest"`
	Size    int64             `json:"size"`
	RawSize int64             `json:"rawSize"`
	Facts   map[string]string `json:"facts,omitempty"`
	Streams map[string]int64  `json:"streams,omitempty"`
	// Files says that restic keeps it.
	Files bool `json:"files,omitempty"`
	// Compression is that of the manifest.
	Compression string `json:"compression"`
	// StartTime and EndTime of the attempt that made it.
	StartTime time.Time `json:"startTime"`
	EndTime   time.Time `json:"endTime"`
	// Origin is what its metadata says.
	Origin Origin `json:"origin"`
}

// Origin is what a mover knows of Plan.Backup.Metadata: what the object of a backup is made of again. The words of
// plugin and sources are the operator's.
type Origin struct {
	// Backup is the name of the object, Domain that of the operator, and Schedule that of the schedule that made it, if
	// one did.
	Backup   string          `json:"backup,omitempty"`
	Domain   string          `json:"domain,omitempty"`
	Schedule string          `json:"schedule,omitempty"`
	Method   string          `json:"method,omitempty"`
	Plugin   json.RawMessage `json:"plugin,omitempty"`
	Version  string          `json:"version,omitempty"`
	Source   json.RawMessage `json:"source,omitempty"`
	Sources  json.RawMessage `json:"sources,omitempty"`
	// Application by namespace and name.
	Application struct {
		Namespace string `json:"namespace,omitempty"`
		Name      string `json:"name,omitempty"`
	} `json:"application,omitzero"`
}

// Failure is a folder of which no object can be made.
type Failure struct {
	Key string `json:"key"`
	// Reason is one of the Reasons, and Message a sentence for a person.
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

const (
	// MaxRecall is how many bytes a packed Recall may have, so that it fits into a Result.
	MaxRecall = 2900
	// maxUnpacked bounds what a packed one can become.
	maxUnpacked = 1 << 20
)

// Pack is a Recall as Result has it. The parts of one are much alike, so that a page has some dozens.
func (r *Recall) Pack() ([]byte, error) {
	var packed bytes.Buffer
	writer := gzip.NewWriter(&packed)
	if err := errors.Join(json.NewEncoder(writer).Encode(r), writer.Close()); err != nil {
		return nil, fmt.Errorf("cannot pack what was read: %w", err)
	}
	return packed.Bytes(), nil
}

// Unpack is the way back.
func Unpack(packed []byte) (*Recall, error) {
	reader, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("what was read cannot be unpacked: %w", err)
	}
	text, err := io.ReadAll(io.LimitReader(reader, maxUnpacked+1))
	if err != nil || len(text) > maxUnpacked {
		return nil, fmt.Errorf("what was read cannot be unpacked: it has %d bytes, of %d at most: %w", len(text), maxUnpacked,
			err)
	}
	recall := &Recall{}
	if err := json.Unmarshal(text, recall); err != nil {
		return nil, fmt.Errorf("what was read cannot be understood: %w", err)
	}
	return recall, nil
}
