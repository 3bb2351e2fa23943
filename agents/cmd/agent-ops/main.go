// SPDX-License-Identifier: Apache-2.0

// Command agent-ops runs the actions that a plugin declares, in a container of its own with the middleware's image.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroinfra/agents/internal/action"
	"github.com/zeroinfra/agents/internal/callrecord"
	"github.com/zeroinfra/agents/internal/follow"
	"github.com/zeroinfra/agents/internal/jsonlog"
	"github.com/zeroinfra/agents/internal/opsserver"
	"github.com/zeroinfra/agents/internal/planfile"
	"github.com/zeroinfra/agents/internal/reaper"
	"github.com/zeroinfra/agents/internal/server"
	"github.com/zeroinfra/platform-core/agentproto/plan"
	agentv1 "github.com/zeroinfra/platform-core/agentproto/v1"
)

const (
	// flushTimeout bounds the wait for the log's reader at the end.
	flushTimeout = 200 * time.Millisecond
	// memoryLimit is where the collector works harder, well below the container's limit.
	memoryLimit = 32 << 20
)

// version is set when the binary is built.
var version = "dev"

func main() { os.Exit(execute()) }

func execute() int {
	root := &cobra.Command{
		Use:           "agent-ops",
		Short:         "Run the actions that a plugin declares",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.AddCommand(opsCommand(), versionCommand())
	if err := root.Execute(); err != nil {
		fmt.Fprintf(os.Stderr, "agent-ops: %v\n", err)
		return 1
	}
	return 0
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), version)
			return err
		},
	}
}

// opsOptions are the flags of ops.
type opsOptions struct {
	dirs   planfile.Dirs
	tlsDir string
	socket string
	listen string
}

func opsCommand() *cobra.Command {
	var o opsOptions
	cmd := &cobra.Command{
		Use:   "ops",
		Short: "Serve the plan's actions to operators",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			// Notify and not Ignore: what is ignored here would be ignored in every process started here.
			signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
			log := jsonlog.New(os.Stderr, slog.LevelInfo)
			defer log.Flush(flushTimeout)
			return ops(o, log.Logger)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.dirs.Plan, "plan-dir", plan.PlanDir, "folder where the plan is mounted")
	flags.StringVar(&o.dirs.Run, "run-dir", plan.RunDir, "folder that lives as long as the pod")
	flags.StringVar(&o.dirs.Config, "config-dir", plan.ConfigDir, "folder below which the plan may have configuration files")
	flags.StringVar(&o.dirs.PodName, "pod-name", os.Getenv("POD_NAME"), "name of the pod, for plans that ask for it (default: environment variable POD_NAME)")
	flags.StringVar(&o.dirs.Secrets, "secrets-dir", plan.SecretsDir, "folder with one folder per credential")
	flags.StringVar(&o.dirs.Certificates, "certificates-dir", plan.CertificatesDir, "folder with the middleware's tls.crt, tls.key and ca.crt")
	flags.StringVar(&o.tlsDir, "tls-dir", plan.TLSDir, "folder with tls.crt, tls.key and ca.crt")
	flags.StringVar(&o.socket, "socket", plan.SocketPath, "unix socket of the process manager")
	flags.StringVar(&o.listen, "listen", fmt.Sprintf(":%d", plan.OpsPort), "address of the gRPC server for operators")
	return cmd
}

// ops serves until SIGTERM or SIGINT.
func ops(o opsOptions, log *slog.Logger) error {
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(50)
	debug.SetMemoryLimit(memoryLimit)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	reap, err := reaper.New(log)
	if err != nil {
		return err
	}
	store, err := callrecord.OpenActions(o.dirs.Run)
	if err != nil {
		return err
	}
	secrets, statuses := action.NewSecrets(o.dirs), make(chan *agentv1.ProcessStatus)
	go secrets.Follow(statuses)
	go follow.Process(ctx, o.socket, statuses, log)
	runner := action.New(o.dirs, secrets.Lookup, reap, store, log)
	defer runner.Close()
	opsserver.Server{Runner: runner, Version: version}.Run(ctx, server.Endpoint{Address: o.listen, TLSDir: o.tlsDir, Reflection: server.NoReflection, Log: log})
	return nil
}
