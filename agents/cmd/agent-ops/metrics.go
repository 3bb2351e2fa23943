// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/zeroinfra/agents/internal/metrics"
	"github.com/zeroinfra/agents/internal/mutualtls"
	"github.com/zeroinfra/agents/internal/planfile"
	"github.com/zeroinfra/agents/internal/program"
	"github.com/zeroinfra/agents/internal/protocol"
	"github.com/zeroinfra/platform-core/agentproto/plan"
)

// metricsOptions are the flags of metrics.
type metricsOptions struct {
	dirs     planfile.Dirs
	socket   string
	endpoint metrics.Endpoint
	encrypt  bool
}

func metricsCommand() *cobra.Command {
	var o metricsOptions
	cmd := &cobra.Command{
		Use:   "metrics",
		Short: "Tell a Prometheus what the middleware answers to the plan's queries",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return program.Logged(os.Stdout, func(log *slog.Logger) error { return tellMetrics(o, log) })
		},
	}
	program.AddDirs(cmd, &o.dirs)
	flags := cmd.Flags()
	flags.StringVar(&o.socket, "socket", plan.SocketPath, "unix socket of the process manager")
	flags.StringVar(&o.endpoint.Address, "listen", "", "address of the HTTP server")
	flags.StringVar(&o.endpoint.Path, "path", "/metrics", "path of the metrics")
	flags.BoolVar(&o.encrypt, "tls", false, "speak TLS, with the middleware's certificate")
	_ = cmd.MarkFlagRequired("listen")
	return cmd
}

// tellMetrics serves until SIGTERM or SIGINT.
func tellMetrics(o metricsOptions, log *slog.Logger) error {
	program.Lean(memoryLimit)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	o.endpoint.Log = log
	if o.encrypt {
		o.endpoint.Certificates = mutualtls.New(o.dirs.Certificates, log)
	}
	drivers := protocol.New(o.dirs.Certificates, followed(ctx, o.dirs, o.socket, log).Lookup)
	return metrics.Serve(ctx, o.endpoint, metrics.New(o.dirs, drivers, log))
}
