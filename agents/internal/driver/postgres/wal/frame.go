// SPDX-License-Identifier: Apache-2.0

package wal

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/klauspost/compress/zstd"
)

// Sum of a file, which the object of it begins with.
type Sum struct {
	// SHA256 in hexadecimal digits, and the size in bytes, of the file as the server has it.
	SHA256 string `json:"sha256"`
	Bytes  int64  `json:"bytes"`
	// Terms say, of a history, in which term each timeline began that it knows.
	Terms map[int64]int64 `json:"terms,omitempty"`
}

// same says whether it is of the same content.
func (s Sum) same(other Sum) bool { return s.SHA256 == other.SHA256 && s.Bytes == other.Bytes }

const (
	// frameMagic begins a frame that readers of zstd skip; its length follows.
	frameMagic = 0x184D2A5A
	frameHead  = 8
	// sumBytes is the room for a Sum; a history of thousands of failovers takes more.
	sumBytes = 248
	// headBytes is what a reader of the sum asks for first.
	headBytes = 4 << 10
)

// errCorrupt is of an object that is not what was kept.
var errCorrupt = errors.New("it is not what was archived")

// SumOf reads a file to its end.
func SumOf(file io.Reader) (Sum, error) {
	h := sha256.New()
	n, err := io.Copy(h, file)
	return sumOf(h, n), err
}

func sumOf(h hash.Hash, n int64) Sum { return Sum{SHA256: hex.EncodeToString(h.Sum(nil)), Bytes: n} }

// pack makes the object of a file, in memory.
func pack(file io.Reader, terms map[int64]int64) ([]byte, Sum, error) {
	room := sumBytes
	if len(terms) > 0 {
		text, err := json.Marshal(terms)
		if err != nil {
			return nil, Sum{}, err
		}
		room += len(text)
	}
	var packed bytes.Buffer
	packed.Write(make([]byte, frameHead+room))
	encoder, err := zstd.NewWriter(&packed, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
		zstd.WithWindowSize(1<<20), zstd.WithLowerEncoderMem(true))
	if err != nil {
		return nil, Sum{}, err
	}
	h := sha256.New()
	n, err := io.Copy(io.MultiWriter(encoder, h), file)
	if err := errors.Join(err, encoder.Close()); err != nil {
		return nil, Sum{}, err
	}
	sum := sumOf(h, n)
	sum.Terms = terms
	text, err := json.Marshal(sum)
	if err != nil {
		return nil, Sum{}, err
	}
	if len(text) > room {
		return nil, Sum{}, fmt.Errorf("the sum takes %d bytes of %d", len(text), room)
	}
	whole := packed.Bytes()
	binary.LittleEndian.PutUint32(whole, frameMagic)
	binary.LittleEndian.PutUint32(whole[4:], uint32(room))
	copy(whole[frameHead:], append(text, bytes.Repeat([]byte{' '}, room-len(text))...))
	return whole, sum, nil
}

// readSum reads what an object begins with. More says how many bytes that takes, where head has fewer.
func readSum(head []byte) (sum Sum, more int, err error) {
	if len(head) < frameHead || binary.LittleEndian.Uint32(head) != frameMagic {
		return Sum{}, 0, errCorrupt
	}
	length := frameHead + int(binary.LittleEndian.Uint32(head[4:]))
	if length > 1<<20 {
		return Sum{}, 0, errCorrupt
	}
	if len(head) < length {
		return Sum{}, length, nil
	}
	if err := json.Unmarshal(head[frameHead:length], &sum); err != nil || len(sum.SHA256) != 2*sha256.Size {
		return Sum{}, 0, errCorrupt
	}
	return sum, 0, nil
}

// unpack writes the file that an object has, and compares it with its sum.
func unpack(packed io.Reader, file io.Writer) (Sum, error) {
	source, target := &source{Reader: packed}, &target{Writer: file}
	sum, err := unpackAll(source, target)
	switch {
	case source.err != nil:
		return Sum{}, source.err
	case target.err != nil:
		return Sum{}, target.err
	case err != nil && !errors.Is(err, errCorrupt):
		return Sum{}, fmt.Errorf("%w: %w", errCorrupt, err)
	}
	return sum, err
}

func unpackAll(packed io.Reader, file io.Writer) (Sum, error) {
	head := make([]byte, frameHead)
	if _, err := io.ReadFull(packed, head); err != nil {
		return Sum{}, err
	}
	_, length, err := readSum(head)
	if err != nil {
		return Sum{}, err
	}
	head = append(head, make([]byte, max(0, length-frameHead))...)
	if _, err := io.ReadFull(packed, head[frameHead:]); err != nil {
		return Sum{}, err
	}
	sum, _, err := readSum(head)
	if err != nil {
		return Sum{}, err
	}
	decoder, err := zstd.NewReader(packed, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxMemory(64<<20))
	if err != nil {
		return Sum{}, err
	}
	defer decoder.Close()
	h := sha256.New()
	n, err := io.Copy(io.MultiWriter(file, h), io.LimitReader(decoder, sum.Bytes+1))
	if err == nil && !sum.same(sumOf(h, n)) {
		err = errCorrupt
	}
	return sum, err
}

// source and target remember what went wrong with them: what else does is wrong with what is read.
type source struct {
	io.Reader
	err error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		s.err = err
	}
	return n, err
}

type target struct {
	io.Writer
	err error
}

func (t *target) Write(p []byte) (int, error) {
	n, err := t.Writer.Write(p)
	if err != nil {
		t.err = err
	}
	return n, err
}
