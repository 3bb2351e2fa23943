// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/zeroinfra/agents/internal/driver/mysql/binlog"
)

const (
	// ArchiveFile, beside the socket, has what the probe says of the archive.
	ArchiveFile = "archive"
	// answerPoll is between attempts to find a server that starts.
	answerPoll = time.Second
)

// KeepLogs archives the binary logs for as long as the server is the primary.
func (s *Server) KeepLogs(ctx context.Context, place func() (binlog.Place, error), log *slog.Logger) error {
	a := &binlog.Archiver{Driver: s.Driver, Place: place, Notes: filepath.Join(s.Run, ArchiveFile), Work: s.temporary(),
		Log: log}
	return a.Run(ctx)
}

// Settle takes the mark from data that was copied, once a server has started on it.
func (s *Server) Settle(ctx context.Context) error {
	if _, err := os.Stat(s.copied()); err != nil {
		return nil
	}
	for {
		d, err := s.Driver()
		if err == nil {
			_, err = d.Content(ctx)
		}
		if err == nil {
			return os.Remove(s.copied())
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(answerPoll):
		}
	}
}
