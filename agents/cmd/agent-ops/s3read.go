// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroinfra/agents/internal/objects"
	"github.com/zeroinfra/agents/internal/program"
	"github.com/zeroinfra/agents/internal/store"
)

// mostDamaged is how many damaged objects are looked for: each is asked for until patience is at its end.
const mostDamaged = 10

func s3ReadCommand() *cobra.Command {
	var patience time.Duration
	cmd := &cobra.Command{
		Use: "read", Short: "Read every object of a storage, as clients do, and fail where one is not what the storage " +
			"says it is",
		Long: "The environment says which storage, with the variables that movers of objects have. What is read is told as " +
			"objects and bytes; damaged objects have an exit code of their own.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			program.Lean(memoryLimit)
			return program.Logged(os.Stderr, func(log *slog.Logger) error {
				ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
				defer stop()
				storage, err := objects.FromEnv(os.Environ(), store.Patience{Answer: patience, Total: patience, Log: log})
				if err != nil {
					return err
				}
				count, bytes, err := readAll(ctx, storage)
				if err == nil {
					_, err = fmt.Fprintf(cmd.OutOrStdout(), "objects=%d\nbytes=%d\n", count, bytes)
				}
				return err
			})
		},
	}
	cmd.Flags().DurationVar(&patience, "patience", 20*time.Second,
		"after which an object that does not come counts as one that cannot be read, if the storage answers all the same")
	return cmd
}

// readAll reads each object of each bucket. The error has all that is damaged, up to mostDamaged, or the first that
// could not be found out.
func readAll(ctx context.Context, storage *objects.Storage) (count, bytes int64, err error) {
	buckets, err := storage.Buckets(ctx)
	if err != nil {
		return 0, 0, err
	}
	var damaged []error
	for _, bucket := range buckets {
		for o, err := range storage.List(ctx, bucket) {
			if err != nil {
				return 0, 0, err
			}
			switch err := storage.Check(ctx, o); {
			case errors.As(err, new(objects.Damaged)):
				if damaged = append(damaged, err); len(damaged) == mostDamaged {
					return 0, 0, errors.Join(damaged...)
				}
			case err != nil:
				return 0, 0, err
			}
			count, bytes = count+1, bytes+o.Size
		}
	}
	return count, bytes, errors.Join(damaged...)
}
