// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/zeroinfra/agents/internal/follow"
	"github.com/zeroinfra/agents/internal/planfile"
	"github.com/zeroinfra/agents/internal/podapi"
	"github.com/zeroinfra/agents/internal/program"
	"github.com/zeroinfra/agents/internal/publish"
	"github.com/zeroinfra/agents/internal/reaper"
	"github.com/zeroinfra/agents/internal/statusagent"
	"github.com/zeroinfra/platform-core/agentproto/permission"
	"github.com/zeroinfra/platform-core/agentproto/plan"
	"github.com/zeroinfra/platform-core/agentproto/report"
)

// writtenFile is where the report written last is kept below the run folder.
const writtenFile = "status-report.json"

// statusOptions are the flags of status.
type statusOptions struct {
	dirs           planfile.Dirs
	socket         string
	listen         string
	serviceAccount string
}

func statusCommand() *cobra.Command {
	var o statusOptions
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Probe the middleware and report its role and health",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return program.Logged(os.Stdout, func(log *slog.Logger) error { return watchStatus(o, log) })
		},
	}
	program.AddDirs(cmd, &o.dirs)
	flags := cmd.Flags()
	flags.StringVar(&o.socket, "socket", plan.SocketPath, "unix socket of the process manager")
	flags.StringVar(&o.listen, "listen", program.AnyAddress(plan.StatusPort), "address of GET /readyz")
	flags.StringVar(&o.serviceAccount, "service-account-dir", podapi.ServiceAccountDir,
		"folder with token and ca.crt of the pod's service account")
	return cmd
}

// watchStatus runs the status agent until SIGTERM or SIGINT.
func watchStatus(o statusOptions, log *slog.Logger) error {
	if err := program.Unhurried(); err != nil {
		log.Warn("timers are more precise than they need to be, which costs time on a processor", "error", err.Error())
	}
	program.Lean(memoryLimit)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	reap, err := reaper.New(log)
	if err != nil {
		return err
	}
	pod, err := podapi.FromEnvironment(o.serviceAccount)
	if err != nil {
		return err
	}
	// The two are used at the same time.
	reader, err := podapi.FromEnvironment(o.serviceAccount)
	if err != nil {
		return err
	}
	write := func(ctx context.Context, text string) error { return pod.Annotate(ctx, report.Annotation, text) }
	publisher, err := publish.New(filepath.Join(o.dirs.Run, writtenFile), write, log)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", o.listen)
	if err != nil {
		return fmt.Errorf("cannot listen for /readyz: %w", err)
	}
	ready := &statusagent.Readiness{}
	served := make(chan error, 1)
	go func() {
		defer stop()
		served <- ready.Serve(ctx, listener, log)
	}()
	statusagent.Agent{Dirs: o.dirs, Socket: o.socket, Starter: reap, Publisher: publisher, Read: serially(reader.Record),
		Ready: ready, Log: log}.Run(ctx)
	return <-served
}

// serially has one read wait for the one before, which ends with its context.
func serially(read follow.Reader) follow.Reader {
	slot := make(chan struct{}, 1)
	return func(ctx context.Context, set string) (permission.Record, error) {
		select {
		case slot <- struct{}{}:
			defer func() { <-slot }()
			return read(ctx, set)
		case <-ctx.Done():
			return permission.Record{}, ctx.Err()
		}
	}
}
