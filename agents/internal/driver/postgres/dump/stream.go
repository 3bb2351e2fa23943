// SPDX-License-Identifier: Apache-2.0

package dump

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"time"
)

const (
	// Format that is written; a reader refuses a higher one.
	Format = 1

	headerName, trailerName   = "dump.json", "whole.json"
	globalsName, databaseName = "globals.sql", "database"
	// pieceSize is how many bytes a piece of a database has, but for the last one.
	pieceSize = 4 << 20
	// maxText bounds what is held as a whole: the globals of several hundred thousand roles.
	maxText = 64 << 20
)

// Header is the first file of a dump.
type Header struct {
	Format int `json:"format"`
	// Version of the server, such as 17.6, and Replica whether it followed another one.
	Version string `json:"version"`
	Replica bool   `json:"replica,omitempty"`
	// Databases by their numbers, from 1 on.
	Databases []string `json:"databases"`
}

// Trailer is the last file of a dump: without it the dump is half a one.
type Trailer struct {
	// Databases that were dropped before their turn had come are not among them.
	Databases []string `json:"databases"`
}

// writer writes a dump.
type writer struct {
	tar *tar.Writer
	at  time.Time
	// globals stand for those that were written last.
	globals [sha256.Size]byte
}

func (w *writer) put(name string, content []byte) error {
	err := w.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o600, Size: int64(len(content)),
		ModTime: w.at})
	if err == nil {
		_, err = w.tar.Write(content)
	}
	return err
}

func (w *writer) json(name string, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return w.put(name, append(text, '\n'))
}

// since writes the globals that the database of a number needs, where they are others than before.
func (w *writer) since(number int, globals []byte) error {
	sum := sumOf(globals)
	if sum == w.globals {
		return nil
	}
	w.globals = sum
	return w.put(fmt.Sprintf("%04d/%s", number, globalsName), globals)
}

// pieces take what is written into files of a size that is known.
type pieces struct {
	to     *writer
	number int
	count  int
	buffer []byte
}

func (w *writer) database(number int) *pieces {
	return &pieces{to: w, number: number, buffer: make([]byte, 0, pieceSize)}
}

// Write implements io.Writer.
func (p *pieces) Write(data []byte) (int, error) {
	for left := data; len(left) > 0; {
		n := min(len(left), pieceSize-len(p.buffer))
		p.buffer, left = append(p.buffer, left[:n]...), left[n:]
		if len(p.buffer) == pieceSize {
			if err := p.flush(); err != nil {
				return 0, err
			}
		}
	}
	return len(data), nil
}

// begun says whether something was written.
func (p *pieces) begun() bool { return p.count > 0 || len(p.buffer) > 0 }

func (p *pieces) flush() error {
	if len(p.buffer) == 0 {
		return nil
	}
	p.count++
	err := p.to.put(fmt.Sprintf("%04d/%s/%06d", p.number, databaseName, p.count), p.buffer)
	p.buffer = p.buffer[:0]
	return err
}

// file is one of a dump, as it is read.
type file struct {
	// name without numbers.
	name string
	// number of the database, and piece of it; 0 where it has none.
	number, piece int
	content       io.Reader
}

var fileForm = regexp.MustCompile(
	`^(?:(dump\.json|whole\.json)|([0-9]{4,6})/(?:(globals\.sql)|(database)/([0-9]{6,9})))$`)

// reader reads a dump.
type reader struct{ tar *tar.Reader }

// next is the file that comes next; io.EOF where there is none.
func (r *reader) next() (file, error) {
	header, err := r.tar.Next()
	if errors.Is(err, io.EOF) {
		return file{}, io.EOF
	}
	if err != nil {
		return file{}, fmt.Errorf("the dump cannot be read: %w", err)
	}
	found := fileForm.FindStringSubmatch(header.Name)
	if found == nil || header.Typeflag != tar.TypeReg {
		return file{}, fmt.Errorf("the dump has the file %q, which is none of its own", header.Name)
	}
	// The form leaves nothing that could go wrong.
	number, _ := strconv.Atoi(found[2])
	piece, _ := strconv.Atoi(found[5])
	return file{name: found[1] + found[3] + found[4], number: number, piece: piece, content: r.tar}, nil
}

// text is all of a file.
func (f file) text() ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(f.content, maxText+1))
	if err == nil && len(text) > maxText {
		err = fmt.Errorf("%s of the dump has more than %d MiB", f.name, maxText>>20)
	}
	return text, err
}

func (f file) json(into any) error {
	text, err := f.text()
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		return fmt.Errorf("%s of the dump cannot be read: %w", f.name, err)
	}
	return nil
}
