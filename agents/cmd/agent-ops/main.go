// SPDX-License-Identifier: Apache-2.0

// Command agent-ops runs the actions that a plugin declares, and tells its metrics, in containers of their own with the
// middleware's image.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/zeroinfra/agents/internal/action"
	"github.com/zeroinfra/agents/internal/callrecord"
	"github.com/zeroinfra/agents/internal/entity"
	"github.com/zeroinfra/agents/internal/follow"
	"github.com/zeroinfra/agents/internal/hold"
	"github.com/zeroinfra/agents/internal/mutualtls"
	"github.com/zeroinfra/agents/internal/opsserver"
	"github.com/zeroinfra/agents/internal/planfile"
	"github.com/zeroinfra/agents/internal/program"
	"github.com/zeroinfra/agents/internal/reaper"
	"github.com/zeroinfra/agents/internal/server"
	"github.com/zeroinfra/platform-core/agentproto/plan"
	agentv1 "github.com/zeroinfra/platform-core/agentproto/v1"
)

// memoryLimit is where the collector works harder, well below the container's limit.
const memoryLimit = 32 << 20

// version is set when the binary is built.
var version = "dev"

func main() { os.Exit(execute()) }

func execute() int {
	root := program.Root("agent-ops", "Run the actions that a plugin declares, and tell its metrics", version,
		opsCommand(), metricsCommand(), postgresqlCommand(), pgbouncerCommand(), s3Command(), kafkaCommand(), mysqlCommand(),
		mysqlRouterCommand(), modelCommand(), datasetCommand(), moverCommand())
	if err := root.Execute(); err != nil {
		fmt.Fprintln(os.Stderr, told(err))
		return exitCode(err, os.Args)
	}
	return 0
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
			return program.Logged(os.Stdout, func(log *slog.Logger) error { return ops(o, log) })
		},
	}
	program.AddDirs(cmd, &o.dirs)
	flags := cmd.Flags()
	flags.StringVar(&o.tlsDir, "tls-dir", plan.TLSDir, "folder with tls.crt, tls.key and ca.crt")
	flags.StringVar(&o.socket, "socket", plan.SocketPath, "unix socket of the process manager")
	flags.StringVar(&o.listen, "listen", program.AnyAddress(plan.OpsPort), "address of the gRPC server for operators")
	return cmd
}

// ops serves until SIGTERM or SIGINT.
func ops(o opsOptions, log *slog.Logger) error {
	program.Lean(memoryLimit)
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
	secrets := followed(ctx, o.dirs, o.socket, log)
	runner := action.New(o.dirs, secrets.Lookup, reap, store, log)
	defer runner.Close()
	holds, err := hold.Open(o.dirs.Run, runner, log)
	if err != nil {
		return err
	}
	// Before the runner, which it needs for what it undoes.
	defer holds.Close()
	manager, err := follow.NewManager(o.socket)
	if err != nil {
		return err
	}
	defer manager.Close()
	serves := opsserver.Server{Runner: runner, Entities: entity.New(runner), Holds: holds, Process: manager,
		Version: version}
	serves.Run(ctx,
		server.Endpoint{Address: o.listen, Certificates: mutualtls.New(o.tlsDir, log), Reflection: server.NoReflection,
			Log: log})
	return nil
}

// followed are the secrets that the process was started with.
func followed(ctx context.Context, dirs planfile.Dirs, socket string, log *slog.Logger) *action.Secrets {
	secrets, statuses := action.NewSecrets(dirs), make(chan *agentv1.ProcessStatus)
	go secrets.Follow(statuses)
	go follow.Process(ctx, socket, statuses, log)
	return secrets
}
