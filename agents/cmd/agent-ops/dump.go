// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/zeroinfra/agents/internal/confine"
	"github.com/zeroinfra/agents/internal/driver/postgres/dump"
	"github.com/zeroinfra/agents/internal/driver/postgres/recovery"
	"github.com/zeroinfra/agents/internal/driver/postgres/replication"
)

// ofMovers is what of a mover whoever loads a dump has no business with: the keys of the repository and what is in it,
// the plan, and passwords.
var ofMovers = []string{"/zeroinfra/repository", "/zeroinfra/mover", "/zeroinfra/secrets"}

// factsMode is that of a file which the next command of the same user reads.
const factsMode = 0o600

// dumpCommand writes what is in a server.
func dumpCommand(server *replication.Server) *cobra.Command {
	var facts string
	cmd := &cobra.Command{
		Use:   "dump",
		Short: "Write what is in the server that the variables of PostgreSQL's own tools lead to, as a tar",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return withServer(server, func(ctx context.Context) error {
				is, err := (&dump.Source{Programs: server.Programs, Log: server.Log}).Dump(ctx, os.Stdout)
				if err != nil {
					return err
				}
				return os.WriteFile(facts, []byte(is.Lines()), factsMode)
			})
		},
	}
	cmd.Flags().StringVar(&facts, "facts", "/tmp/facts", "file that what is told of it is written to")
	return cmd
}

// loadCommand makes a server's data of that.
func loadCommand(server *replication.Server) *cobra.Command {
	var data, work string
	var keptFrom []string
	cmd := &cobra.Command{
		Use:   "load",
		Short: "Make the data of a server of its own, with what a dump has that is read from standard input",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return withServer(server, func(ctx context.Context) error {
				// What a dump has is carried out as the superuser of a server that is this program's child: the functions of others
				// are.
				err := confine.Thread(keptFrom...)
				if errors.Is(err, confine.ErrUnsupported) {
					server.Log.Info("what the dump has carried out is not kept from what the mover has", "error", err)
				} else if err != nil {
					return err
				}
				return loadInto(ctx, server, data, work)
			})
		},
	}
	cmd.Flags().StringVar(&data, "data", "pgdata", "folder of the data, which is made")
	cmd.Flags().StringVar(&work, "work", ".load",
		"folder on the same volume for what is needed meanwhile, which is made and removed")
	cmd.Flags().StringSliceVar(&keptFrom, "kept-from", ofMovers,
		"files and folders that what the dump has carried out is kept from")
	return cmd
}

func loadInto(ctx context.Context, server *replication.Server, data, work string) (err error) {
	data, err1 := filepath.Abs(data)
	work, err2 := filepath.Abs(work)
	if err := errors.Join(err1, err2, os.MkdirAll(work, 0o700)); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	target := &dump.Target{Programs: server.Programs, Data: data, Work: work, Log: server.Log}
	if err := target.Load(ctx, os.Stdin); err != nil {
		return err
	}
	return recovery.Own(data)
}
