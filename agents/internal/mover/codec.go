// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"errors"
	"fmt"
	"io"

	"filippo.io/age"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/zeroinfra/platform-core/agentproto/mover"
)

const (
	// workFactor is the cost of a key's derivation, as a power of 2: 32 MiB, and what costs more than maxWorkFactor is not
	// tried. The cost that is usual for people's passwords is 256 MiB, which no pod should need; a passphrase has
	// mover.MinPassphrase bytes instead.
	workFactor    = 15
	maxWorkFactor = 16
	// window bounds what a decoder keeps.
	window = 16 << 20
)

var compressions = []string{mover.CompressionZstd, mover.CompressionGzip, mover.CompressionNone}

// chain closes writers one after another, the outermost first.
type chain struct {
	io.Writer
	closers []io.Closer
}

// Close implements io.Closer.
func (c *chain) Close() error {
	for _, closer := range c.closers {
		if err := closer.Close(); err != nil {
			return err
		}
	}
	return nil
}

// pack compresses, and then encrypts where there is a passphrase. Close ends the data, and closes nothing else.
func pack(to io.Writer, compression, passphrase string) (io.WriteCloser, error) {
	c := &chain{Writer: to}
	if passphrase != "" {
		recipient, err := age.NewScryptRecipient(passphrase)
		if err != nil {
			return nil, fmt.Errorf("cannot use the passphrase: %w", err)
		}
		recipient.SetWorkFactor(workFactor)
		sealed, err := age.Encrypt(to, recipient)
		if err != nil {
			return nil, err
		}
		c.Writer, c.closers = sealed, []io.Closer{sealed}
	}
	var packed io.WriteCloser
	var err error
	switch compression {
	case mover.CompressionNone:
		return c, nil
	case mover.CompressionGzip:
		packed, err = gzip.NewWriterLevel(c.Writer, gzip.BestSpeed)
	default:
		packed, err = zstd.NewWriter(c.Writer, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(2))
	}
	if err != nil {
		return nil, err
	}
	c.Writer, c.closers = packed, append([]io.Closer{packed}, c.closers...)
	return c, nil
}

// unpack is the way back. An error of from is passed on as it is, and any other is a failure.
func unpack(from io.Reader, manifest *mover.Manifest, passphrase string) (io.ReadCloser, error) {
	source := &watched{from: from}
	var plain io.Reader = source
	if manifest.Encryption != "" {
		if passphrase == "" {
			return nil, fail(mover.ReasonBadPlan, "the backup is encrypted, and the repository has no passphrase")
		}
		identity, err := age.NewScryptIdentity(passphrase)
		if err != nil {
			return nil, fail(mover.ReasonBadPlan, "cannot use the passphrase: %v", err)
		}
		identity.SetMaxWorkFactor(maxWorkFactor)
		if plain, err = age.Decrypt(source, identity); errors.Is(err, age.ErrIncorrectIdentity) ||
			errors.As(err, new(*age.NoIdentityMatchError)) {
			return nil, fail(mover.ReasonWrongPassphrase,
				"the backup was encrypted with another passphrase than the repository has")
		} else if err != nil {
			return nil, source.blamed(err)
		}
	}
	switch manifest.Compression {
	case mover.CompressionNone:
		return unpacked{source, io.NopCloser(plain)}, nil
	case mover.CompressionGzip:
		reader, err := gzip.NewReader(plain)
		if err != nil {
			return nil, source.blamed(err)
		}
		return unpacked{source, reader}, nil
	}
	reader, err := zstd.NewReader(plain, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(window))
	if err != nil {
		return nil, source.blamed(err)
	}
	return unpacked{source, reader.IOReadCloser()}, nil
}

// watched knows what was wrong with its source: decoders have words of their own for it.
type watched struct {
	from io.Reader
	err  error
}

// Read implements io.Reader.
func (w *watched) Read(p []byte) (int, error) {
	n, err := w.from.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		w.err = err
	}
	return n, err
}

// blamed is what was wrong with the source, or the error of what decodes it.
func (w *watched) blamed(err error) error {
	if w.err != nil {
		return w.err
	}
	return damaged("the data cannot be unpacked: %v", err)
}

type unpacked struct {
	source *watched
	io.ReadCloser
}

// Read implements io.Reader.
func (u unpacked) Read(p []byte) (int, error) {
	n, err := u.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = u.source.blamed(err)
	}
	return n, err
}
