// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroinfra/agents/internal/modelfile"
	"github.com/zeroinfra/agents/internal/modelserver"
	"github.com/zeroinfra/agents/internal/planfile"
	"github.com/zeroinfra/agents/internal/program"
)

// modelFolder is where the containers of a model's pod tell each other how it is, in the folder that they share.
const modelFolder = "model"

// modelCommand is what is run beside a server of a language model.
func modelCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "model", Short: "Look after a server of a language model"}
	cmd.AddCommand(modelStart(), modelProbe(), modelComplete(), modelDrain())
	return cmd
}

// modelSource are the flags that say where the file of a model is.
type modelSource struct {
	url, account, key string
	s3                modelfile.S3
}

// of is the source; nil where there is none.
func (s *modelSource) of(dirs planfile.Dirs) (modelfile.Source, error) {
	switch {
	case s.url != "" && s.s3.Endpoint != "":
		return nil, errors.New("--url and --endpoint are two sources: give one")
	case s.url != "":
		return modelfile.HTTP{URL: s.url}, nil
	case s.s3.Endpoint == "":
		return nil, nil
	}
	from := s.s3
	for credential, into := range map[string]*string{s.account: &from.AccessKey, s.key: &from.SecretKey} {
		if credential == "" {
			continue
		}
		value, err := dirs.Secret(*password(credential))
		if err != nil {
			return nil, err
		}
		*into = value
	}
	return from, nil
}

func modelStart() *cobra.Command {
	var dirs planfile.Dirs
	var from modelSource
	starter := &modelserver.Starter{}
	cmd := &cobra.Command{
		Use:   "start [flags] -- SERVER ARGUMENTS...",
		Short: "Bring the file of the model here, and become the server with --host, --model and its path",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			program.Lean(memoryLimit)
			return program.Logged(os.Stdout, func(log *slog.Logger) error {
				ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
				defer stop()
				source, err := from.of(dirs)
				if err != nil {
					return err
				}
				starter.Run, starter.Source, starter.Command, starter.Log = filepath.Join(dirs.Run, modelFolder), source, args, log
				arguments, err := starter.Prepare(ctx)
				if err != nil {
					return err
				}
				return syscall.Exec(arguments[0], arguments, os.Environ())
			})
		},
	}
	program.AddDirs(cmd, &dirs)
	flags := cmd.Flags()
	flags.StringVar(&starter.File, "file", "", "file of the model that somebody else keeps")
	flags.StringVar(&starter.Folder, "into", "/cache",
		"folder that the file is downloaded into; all else in it is removed")
	flags.StringVar(&starter.Wanted.SHA256, "sha256", "", "digest of the file in hexadecimal digits")
	flags.Int64Var(&starter.Wanted.Size, "size", 0,
		"size of the file in bytes, which is then checked; 0 where it is not known")
	flags.StringVar(&from.url, "url", "", "http or https URL of the file")
	flags.StringVar(&from.s3.Endpoint, "endpoint", "", "URL of a storage that speaks S3 and has the file")
	flags.StringVar(&from.s3.Region, "region", "", "region that requests are signed for")
	flags.StringVar(&from.s3.Bucket, "bucket", "", "bucket with the file")
	flags.StringVar(&from.s3.Key, "key", "", "name of the object in the bucket")
	flags.StringVar(&from.account, "access-key", "",
		"credential that has the name of the account; requests are not signed when empty")
	flags.StringVar(&from.key, "secret-key", "", "credential that has its key")
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
	return func() (*modelserver.Probe, error) {
		program.Lean(memoryLimit)
		probe.Run = filepath.Join(dirs.Run, modelFolder)
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
	cmd.RunE = func(*cobra.Command, []string) error {
		var err error
		if drainer.Probe, err = probe(); err != nil {
			return err
		}
		return drainer.Drain(context.Background())
	}
	return cmd
}
