// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroinfra/agents/internal/driver/postgres/replication"
	"github.com/zeroinfra/agents/internal/program"
)

// postgresqlCommand is what the process manager of a PostgreSQL runs.
func postgresqlCommand() *cobra.Command {
	server := &replication.Server{}
	var patience time.Duration
	cmd := &cobra.Command{Use: "postgresql",
		Short: "Start a PostgreSQL, change who it follows and who follows it, archive its log, " +
			"and carry what is in it elsewhere"}
	flags := cmd.PersistentFlags()
	flags.StringVar(&server.Programs, "programs", "", "folder of the server's programs")
	flags.StringVar(&server.Config, "config", "/zeroinfra/config/postgresql.conf", "configuration of the server")
	flags.StringVar(&server.Dir, "dir", "/data", "folder of the volume")
	flags.StringVar(&server.Run, "run", "/zeroinfra/run", "folder of the unix socket")
	flags.StringVar(&server.Secrets, "secrets", "/zeroinfra/secrets", "folder with a folder for each credential")
	flags.StringVar(&server.CAFile, "ca", "",
		"CA file that the certificate of the primary must lead to; without it connections are not encrypted")
	flags.StringVar(&server.Pod, "pod", "", "name of the pod")
	flags.StringVar((*string)(&server.Method), "method", string(replication.Any),
		"how the primary waits for synchronous replicas: any or first")
	flags.StringVar(&server.Launch, "launch", "postgresql-start", "program that makes the data and becomes the server")
	flags.IntVar(&server.Port, "port", 5432, "port of the servers")
	flags.IntVar(&server.Replicas, "replicas", 1, "how many pods there are to be")
	flags.DurationVar(&patience, "patience", 25*time.Second,
		"after which promote, follow, reload and update-members give up")

	cmd.AddCommand(startCommand(server), pauseCommand(server), resumeCommand(server), archiveCommand(), restoreCommand(),
		reachCommand(server), recoverCommand(server), dumpCommand(server), loadCommand(server),
		&cobra.Command{Use: "promote", Short: "Make the server the primary", Args: cobra.NoArgs,
			RunE: bounded(server, &patience, func(ctx context.Context, _ []string) error { return server.Promote(ctx) })},
		&cobra.Command{Use: "follow PRIMARY", Short: "Have the server follow the primary", Args: cobra.ExactArgs(1),
			RunE: bounded(server, &patience, func(ctx context.Context, args []string) error {
				return server.Follow(ctx, args[0])
			})},
		&cobra.Command{Use: "reload", Short: "Have the server take over its files and passwords", Args: cobra.NoArgs,
			RunE: bounded(server, &patience, func(ctx context.Context, _ []string) error { return server.Reload(ctx) })},
		&cobra.Command{Use: "update-members", Short: "Have the primary wait for the members of the list",
			Args: cobra.NoArgs,
			RunE: bounded(server, &patience, func(ctx context.Context, _ []string) error { return server.UpdateMembers(ctx) })})
	return cmd
}

func pauseCommand(server *replication.Server) *cobra.Command {
	var length, patience time.Duration
	cmd := &cobra.Command{
		Use:   "pause",
		Short: "Have the primary acknowledge no write for a while",
		Args:  cobra.NoArgs,
		RunE:  bounded(server, &patience, func(ctx context.Context, _ []string) error { return server.Pause(ctx, length) }),
	}
	cmd.Flags().DurationVar(&length, "length", 5*time.Second, "of the pause")
	cmd.Flags().DurationVar(&patience, "patience", 1500*time.Millisecond, "after which it gives up")
	return cmd
}

func resumeCommand(server *replication.Server) *cobra.Command {
	var after time.Duration
	cmd := &cobra.Command{
		Use:   "resume NAME",
		Short: "End a pause",
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			return withServer(server, func(ctx context.Context) error {
				select {
				case <-ctx.Done():
				case <-time.After(after):
				}
				ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
				defer cancel()
				return server.Resume(ending, args[0])
			})
		},
	}
	cmd.Flags().DurationVar(&after, "after", 0, "how long to wait before")
	return cmd
}

func startCommand(server *replication.Server) *cobra.Command {
	var asPrimary bool
	var primary string
	cmd := &cobra.Command{
		Use:   "start",
		Short: "Become the server",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return withServer(server, func(ctx context.Context) error {
				switch {
				case primary != "":
					return server.StartFollower(ctx, primary)
				case asPrimary:
					return server.StartPrimary(ctx)
				}
				return server.StartAlone()
			})
		},
	}
	cmd.Flags().BoolVar(&asPrimary, "writer", false, "as the primary of a set")
	cmd.Flags().StringVar(&primary, "primary", "", "as a follower of the server with this name")
	cmd.MarkFlagsMutuallyExclusive("writer", "primary")
	return cmd
}

// bounded does one thing with a server in a time that is known when it begins.
func bounded(server *replication.Server, patience *time.Duration,
	do func(context.Context, []string) error) func(*cobra.Command, []string) error {
	return func(_ *cobra.Command, args []string) error {
		return withServer(server, func(ctx context.Context) error {
			ctx, cancel := context.WithTimeoutCause(ctx, *patience, fmt.Errorf("it took more than %s", *patience))
			defer cancel()
			return do(ctx, args)
		})
	}
}

// withServer does one thing with a server.
func withServer(server *replication.Server, do func(context.Context) error) error {
	// The programs that it runs end with the thread that started them.
	runtime.LockOSThread()
	if server.Programs == "" {
		return errors.New("--programs must say where the server's programs are")
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT)
	defer stop()
	// What a reload is about is read when the server starts: a copy of hours does not end with it.
	reloads := make(chan os.Signal, 1)
	signal.Notify(reloads, syscall.SIGHUP)
	defer signal.Stop(reloads)
	return program.Logged(os.Stderr, func(log *slog.Logger) error {
		server.Log = log
		return do(ctx)
	})
}
