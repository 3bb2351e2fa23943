// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

const (
	// forwardPause is between looks at a log.
	forwardPause = time.Second
	// maxForwarded is how long the file of a log may become before it is emptied.
	maxForwarded = 8 << 20
)

// beside starts a process that forwards the slow query log, which the server can write to a file alone, and that looks
// at the tables: also those of a server alone, which may become a member of a group. It ends with the server.
func (s *Server) beside() error {
	arguments := []string{"mysql", "beside", "--slow-log=" + s.SlowLog, "--run=" + s.Run}
	if s.Archive != "" {
		arguments = append(arguments, "--archive="+s.Archive, "--secrets="+s.Secrets, "--dir="+s.Dir)
	}
	own, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(own, arguments...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("cannot look at the server from beside: %w", err)
	}
	return cmd.Process.Release()
}

// Forward writes what is added to a file, from its beginning, and empties it from time to time. Who writes the file
// appends to it. What is written at the moment in which it is emptied may be lost.
func Forward(ctx context.Context, path string, to io.Writer) (err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	for {
		over := ctx.Err() != nil
		if err := forwardOnce(file, to); err != nil || over {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(forwardPause):
		}
	}
}

func forwardOnce(file *os.File, to io.Writer) error {
	if _, err := io.Copy(to, file); err != nil {
		return err
	}
	at, err := file.Seek(0, io.SeekCurrent)
	if err != nil || at < maxForwarded {
		return err
	}
	if err := file.Truncate(0); err != nil {
		return err
	}
	_, err = file.Seek(0, io.SeekStart)
	return err
}

// WithParent is a context that ends when the process that started this one does.
func WithParent(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	parent := os.Getppid()
	go func() {
		for os.Getppid() == parent {
			select {
			case <-ctx.Done():
				return
			case <-time.After(forwardPause):
			}
		}
		cancel()
	}()
	return ctx, cancel
}
