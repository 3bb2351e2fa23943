// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroinfra/agents/internal/driver/pgbouncer"
	"github.com/zeroinfra/agents/internal/program"
)

// reloadPatience is how long a process may take to read its configuration.
const reloadPatience = 8 * time.Second

// pgbouncerCommand is what is run beside a PgBouncer.
func pgbouncerCommand() *cobra.Command {
	gate := &pgbouncer.Gate{}
	var length, patience time.Duration
	cmd := &cobra.Command{Use: "pgbouncer",
		Short: "Have clients wait while another server becomes the primary"}
	flags := cmd.PersistentFlags()
	flags.StringVar(&gate.Run, "run", "/zeroinfra/run", "folder of the unix socket")
	flags.IntVar(&gate.Port, "port", 6432, "port of the process")
	flags.StringVar(&gate.Server, "server", "", "host of the primary")
	flags.IntVar(&gate.ServerPort, "server-port", 5432, "port of the servers")
	flags.StringVar(&gate.Role, "role", "zeroinfra_pooler", "role that logs in at the server")
	flags.StringVar(&gate.Credential, "credential", "pooler", "credential with its password")
	flags.StringVar(&gate.Secrets, "secrets", "/zeroinfra/secrets", "folder with a folder for each credential")
	flags.StringVar(&gate.CAFile, "ca", "",
		"CA file that the certificate of the server must lead to; without it connections are not encrypted")
	flags.DurationVar(&length, "length", 15*time.Second, "after which clients go on, whatever has become of the servers")

	hold := &cobra.Command{Use: "hold", Short: "Have clients wait for the next primary",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return atGate(gate, patience, func(ctx context.Context) error { return gate.Hold(ctx, length) })
		}}
	hold.Flags().DurationVar(&patience, "patience", time.Second,
		"how long clients are waited for that are in a transaction")
	var config string
	reload := &cobra.Command{Use: "reload", Short: "Have the process take over its configuration", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return atGate(gate, reloadPatience, func(ctx context.Context) error { return gate.Reload(ctx, config) })
		}}
	reload.Flags().StringVar(&config, "config", "/zeroinfra/config/pgbouncer.ini", "configuration of the process")
	cmd.AddCommand(hold, reload, &cobra.Command{Use: "keep MARK PRIMARY", Short: "Have clients wait, and go on",
		Args: cobra.ExactArgs(2), Hidden: true,
		RunE: func(_ *cobra.Command, args []string) error {
			return atGate(gate, length, func(ctx context.Context) error { return gate.Keep(ctx, args[0], args[1], os.Stdout) })
		}})
	return cmd
}

// atGate does one thing with a PgBouncer within a time.
func atGate(gate *pgbouncer.Gate, within time.Duration, do func(context.Context) error) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT)
	defer stop()
	ctx, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("it took more than %s", within))
	defer cancel()
	return program.Logged(os.Stderr, func(log *slog.Logger) error {
		gate.Log = log
		return do(ctx)
	})
}
