// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroinfra/agents/internal/mover"
	"github.com/zeroinfra/agents/internal/program"
	"github.com/zeroinfra/agents/internal/reaper"
	protocol "github.com/zeroinfra/platform-core/agentproto/mover"
)

// moverMemory is where the collector works harder: what is moved at once is bounded, and with the pages of the binary
// it stays below 128 MiB.
const moverMemory = 80 << 20

func moverCommand() *cobra.Command {
	o := mover.Options{}
	var result string
	cmd := &cobra.Command{
		Use:   "mover",
		Short: "Carry a backup between a command and a repository, as a plan says",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return program.Logged(os.Stdout, func(log *slog.Logger) error { return move(o, result, log) })
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.Plan, "plan", protocol.PlanPath, "file with the plan")
	flags.StringVar(&o.Credentials, "credentials", protocol.CredentialsPath,
		"folder with accessKey, secretKey and ca.crt of an S3 repository")
	flags.StringVar(&o.Key, "key", protocol.KeyPath, "file with the passphrase of an encrypted repository")
	flags.StringVar(&o.Volume, "volume", protocol.VolumePath, "folder of a repository that is a volume")
	flags.StringVar(&o.Artifacts, "artifacts", protocol.ArtifactsPath, "folder with the folders of artifacts of tasks")
	flags.StringVar(&result, "result", terminationLog, "file that the result is written to")
	flags.Int64Var(&o.PartSize, "part-size", mover.DefaultPartSize, "bytes that a part has at most")
	flags.DurationVar(&o.Answer, "answer", time.Minute,
		"after which time a repository that does not answer is asked again")
	flags.DurationVar(&o.Patience, "give-up", 5*time.Minute,
		"after which time a repository that does not answer, or has a fault, is given up")
	return cmd
}

// resticProgram is beside this one, as the agents' image has it, or else in PATH.
func resticProgram() string {
	const name = "restic"
	own, err := os.Executable()
	if err != nil {
		return name
	}
	beside := filepath.Join(filepath.Dir(own), name)
	if _, err := os.Stat(beside); err != nil {
		return name
	}
	return beside
}

// move does what the plan says, until SIGTERM or SIGINT. That it failed is in the result and in the exit code.
func move(o mover.Options, result string, log *slog.Logger) error {
	debug.SetMemoryLimit(moverMemory)
	debug.SetGCPercent(50)
	o.Restic = resticProgram()
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		<-signals
		cancel(mover.ErrTerminated)
	}()
	starter, err := reaper.New(log)
	if err != nil {
		return err
	}
	o.Env, o.Starter, o.Log, o.Now = os.Environ(), starter, log, time.Now
	outcome := mover.Run(ctx, o)
	if err := mover.Tell(outcome, result); err != nil {
		return err
	}
	if outcome.Reason != "" {
		return errors.New(outcome.Reason + ": " + outcome.Message)
	}
	return nil
}
