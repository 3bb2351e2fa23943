// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	// TablesFile, beside the socket, has what the probe says of the tables and the certificate of a server.
	TablesFile = "tables"
	// watchPause is between looks at the tables, which cost more than a probe may, and watchRetry after one that failed.
	watchPause = time.Minute
	watchRetry = 5 * time.Second
	// maxTables are named.
	maxTables = 5
)

// Watch writes, once a minute, which tables a group takes no writes to, and when the certificate ends that clients are
// shown. What was written stays while the server does not answer. It has the server take over passwords, too: where
// another member became the primary while each took them over in turn, each has left that to another one.
func (s *Server) Watch(ctx context.Context) error {
	path := filepath.Join(s.Run, TablesFile)
	if err := os.RemoveAll(path); err != nil {
		return err
	}
	for {
		pause := watchPause
		text, err := s.findings(ctx)
		if err == nil {
			err = errors.Join(writePrivate(path, text), s.rotate(ctx))
		}
		if err != nil {
			pause = watchRetry
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}

// findings are lines of a name and a value.
func (s *Server) findings(ctx context.Context) (string, error) {
	d, err := s.Driver()
	if err != nil {
		return "", err
	}
	tables, others, err := d.Unreplicable(ctx, maxTables)
	if err != nil {
		return "", err
	}
	end, err := d.CertificateEnd(ctx)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("unreplicable=%s\ncertificate=%s\n", listed(tables, others), end), nil
}

// listed names tables; none is a word of its own.
func listed(tables []string, others bool) string {
	switch {
	case len(tables) == 0:
		return "none"
	case others:
		return strings.Join(tables, ", ") + " and others"
	}
	return strings.Join(tables, ", ")
}
