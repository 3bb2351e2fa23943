// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroinfra/agents/internal/modelserver"
	"github.com/zeroinfra/agents/internal/planfile"
	"github.com/zeroinfra/agents/internal/program"
)

// modelFolder is where the containers of a model's pod tell each other how it is, in the folder that they share.
const modelFolder = "model"

// modelCommand is what is run beside a server of a language model.
func modelCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "model", Short: "Run and check a server of a model, and the door before servers"}
	cmd.AddCommand(modelStart(), modelProbe(), modelComplete(), modelDrain(), modelDoor())
	return cmd
}

func modelStart() *cobra.Command {
	var dirs planfile.Dirs
	var from modelFiles
	starter := &modelserver.Starter{}
	cmd := &cobra.Command{
		Use:   "start [flags] -- SERVER ARGUMENTS...",
		Short: "Bring the files of the model here, and become the server with --host, --model and its path",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			program.Lean(memoryLimit)
			return program.Logged(os.Stdout, func(log *slog.Logger) error {
				ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
				defer stop()
				if err := from.into(starter, dirs); err != nil {
					return err
				}
				starter.Run, starter.Command, starter.Log = filepath.Join(dirs.Run, modelFolder), args, log
				arguments, err := starter.Prepare(ctx)
				if err != nil {
					return err
				}
				return syscall.Exec(arguments[0], arguments, os.Environ())
			})
		},
	}
	program.AddDirs(cmd, &dirs)
	cmd.Flags().StringVar(&starter.Folder, "into", "/cache",
		"folder that files are downloaded into; all else in it is removed")
	cmd.Flags().StringVar(&starter.Format, "format", "",
		"format of the files, such as GGUF, which is checked by their first bytes where it has some")
	from.flags(cmd.Flags())
	return cmd
}

// addProbe adds the flags that say how a server is asked, and returns what makes them a probe.
func addProbe(cmd *cobra.Command) func() (*modelserver.Probe, error) {
	var dirs planfile.Dirs
	var key string
	probe := &modelserver.Probe{}
	program.AddDirs(cmd, &dirs)
	flags := cmd.Flags()
	flags.StringVar(&probe.Address, "address", "127.0.0.1:8080", "host and port of the server")
	flags.StringVar(&key, "api-key", "", "credential that has the key of the server's API; none when empty")
	flags.StringVar(&probe.Path, "path", "/health", "path that is asked for")
	flags.DurationVar(&probe.Timeout, "timeout", 2*time.Second,
		"after which the server counts as one that does not answer")
	completes := flags.Bool("complete", true,
		"the server completes prompts, and is ready once it has done so by one token")
	return func() (*modelserver.Probe, error) {
		program.Lean(memoryLimit)
		probe.Run, probe.PathAlone = filepath.Join(dirs.Run, modelFolder), !*completes
		if key == "" {
			return probe, nil
		}
		var err error
		probe.Key, err = dirs.Secret(*password(key))
		return probe, err
	}
}

func modelProbe() *cobra.Command {
	cmd := &cobra.Command{Use: "probe", Short: "Say whether the server answers and completes a prompt, and its version",
		Args: cobra.NoArgs}
	probe := addProbe(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		p, err := probe()
		if err != nil {
			return err
		}
		version, err := p.Check(context.Background())
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "version=%s\n", version)
		return err
	}
	return cmd
}

func modelComplete() *cobra.Command {
	cmd := &cobra.Command{Use: "complete",
		Short: "Have the server complete a prompt by one token, and say how long that took", Args: cobra.NoArgs}
	probe := addProbe(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		p, err := probe()
		if err != nil {
			return err
		}
		begin := time.Now()
		if err := p.Complete(context.Background()); err != nil {
			return err
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "milliseconds=%d\n", time.Since(begin).Milliseconds())
		return err
	}
	return cmd
}

func modelDrain() *cobra.Command {
	cmd := &cobra.Command{Use: "drain",
		Short: "Wait until the server has no requests, and gets no new ones", Args: cobra.NoArgs}
	probe, drainer := addProbe(cmd), &modelserver.Drainer{}
	flags := cmd.Flags()
	flags.DurationVar(&drainer.Settle, "settle", modelserver.Settle,
		"how long the server goes on at least, until clients have learned that it ends")
	flags.DurationVar(&drainer.Quiet, "quiet", modelserver.Quiet, "how long it must then have had no request")
	flags.DurationVar(&drainer.Timeout, "within", 30*time.Second,
		"after which the server is stopped whatever it does; 0 has it be stopped at once")
	flags.StringSliceVar(&drainer.Unfinished, "unfinished", modelserver.UnfinishedMetrics,
		"metrics that count requests that are not finished")
	flags.StringSliceVar(&drainer.Growing, "growing", modelserver.GrowingMetrics, "metrics that grow with each request")
	cmd.RunE = func(*cobra.Command, []string) error {
		var err error
		if drainer.Probe, err = probe(); err != nil {
			return err
		}
		return drainer.Drain(context.Background())
	}
	return cmd
}
